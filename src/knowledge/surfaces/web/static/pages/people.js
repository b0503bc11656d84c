/** People: corpora that wait for approval, and accounts; for admins and the operator. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { markdown } from "../text.js";
import { askButton, makeSection, secretView } from "../parts/controls.js";
import { problemView, waitingView } from "../parts/notice.js";
import { loadStyles } from "../later.js";
import { set, state } from "../store.js";
import { clean } from "../snippet.js";
import { exactly, loadTexts, number, say, when } from "../words.js";

await Promise.all([loadTexts("settings"), loadStyles("settings")]); // of the controls that both pages have

const PASSAGES = 5;
const pending = makeSection(async () => (await api.pendingCorpora()).corpuses);
const approved = makeSection(async () => (await api.corpora({ approved_only: true })).corpuses.filter((corpus) => corpus.is_public));
const accounts = makeSection(async () => (await api.accounts()).accounts);
let look = null, declining = null, secret = null;

const isOperator = () => state.session?.caller !== "account";

export function enter() {
  [look, declining, secret] = [null, null, null];
  if (state.session?.is_admin) for (const section of [pending, approved, accounts]) section.load();
}

/** Take an event of the server. */
export function take(kind) {
  if (!state.session?.is_admin || !["approval", "reset"].includes(kind)) return;
  pending.load();
  approved.load();
}

export function peopleView() {
  if (!state.session?.is_admin) return h("div.adding.people", { key: "people" }, h("h1", null, say("people")), h("p.none", null, say("people.notYours")));
  return h("div.adding.people", { key: "people" },
    h("h1", null, say("people")),
    h("section", { key: "pending" }, h("h2", null, say("people.pending")),
      pending.problem && problemView(pending.problem, pending.load),
      !pending.data && !pending.problem && waitingView(),
      pending.data?.length === 0 && h("p.small", null, say("people.nonePending")),
      h("ul.rows", null, (pending.data ?? []).map((corpus) => corpusView(corpus, true)))),
    approved.data?.length > 0 && h("section", { key: "approved" }, h("h2", null, say("people.approved")),
      approved.problem && problemView(approved.problem, approved.load),
      h("ul.rows", null, approved.data.map((corpus) => corpusView(corpus, false)))),
    h("section", { key: "accounts" }, h("h2", null, say("people.accounts")),
      accounts.problem && problemView(accounts.problem, accounts.load),
      secret && secretView(secret, () => { secret = null; set({}); }),
      accounts.data?.length === 0 && h("p.small", null, say("people.noAccounts")),
      h("ul.rows", null, (accounts.data ?? []).map(accountRow)),
      h("form.inline", { on: { submit: create } },
        h("label.field", null, h("span", null, say("username")), h("input", { name: "username", required: true, autocomplete: "off", autocapitalize: "off", spellcheck: "false" })),
        h("label.field", null, h("span", null, say("password")), h("input", { type: "password", name: "password", minlength: 8, autocomplete: "new-password", placeholder: say("optional") })),
        h("button.button", { type: "submit", disabled: accounts.busy }, say("people.make"))),
      h("p.small", null, say(isOperator() ? "people.makeHint" : "people.makeHintAdmin"))));
}

// -- corpora -----------------------------------------------------------------------------------------

function corpusView(corpus, waits) {
  const name = clean(corpus.display_name, 80), isOpen = look?.corpus === corpus.id;
  return h("li", { key: corpus.id, class: `row ${waits ? "running" : "good"}`, "data-corpus": corpus.name },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null,
      h("p.name", null, h("bdi", null, name)),
      h("p.text", null, corpus.owner ? say("people.by", { name: clean(corpus.owner, 64) }) : say("people.byOperator"), " · ", say("documents", { n: corpus.document_count }), " · ", say("passages", { n: corpus.chunk_count })),
      corpus.description && h("p.text", null, h("bdi", null, clean(corpus.description, 300))),
      isOpen && lookView(),
      declining === corpus.id && declineView(corpus)),
    h("span.time", null),
    h("div.acts", null,
      h("button.quiet", { type: "button", "aria-label": `${say("people.look")}: ${name}`, "aria-expanded": String(isOpen), on: { click: () => (isOpen ? close() : openCorpus(corpus.id)) } }, say("people.look")),
      waits && h("button.quiet.yes", { type: "button", "aria-label": `${say("people.approve")}: ${name}`, on: { click: () => judge(corpus.id, "approve") } }, say("people.approve")),
      waits && h("button.quiet", { type: "button", "aria-label": `${say("people.decline")}: ${name}`, "aria-expanded": String(declining === corpus.id), on: { click: () => { declining = declining === corpus.id ? null : corpus.id; set({}); } } }, say("people.decline")),
      !waits && askButton(`revoke-${corpus.id}`, say("people.revoke"), say("people.revokeAsk", { name }), () => judge(corpus.id, "revoke"))));
}

async function judge(id, verdict, body = {}) {
  await pending.act(() => api.judgeCorpus(id, verdict, body));
  declining = null;
  if (look?.corpus === id) look = null;
  approved.load();
}

function declineView(corpus) {
  return h("form.inline", { key: "decline", on: { submit: (event) => { event.preventDefault(); judge(corpus.id, "decline", { reason: new FormData(event.target).get("reason").trim() }); } } },
    h("label.field", null, h("span", null, say("people.reason")), h("input", { name: "reason", maxlength: 500, autocomplete: "off", placeholder: say("optional") })),
    h("button.button", { type: "submit" }, say("people.decline")));
}

function close() {
  look = null;
  set({});
}

async function openCorpus(id, page = 1) {
  look = { corpus: id, page, documents: null, total: 0, document: null, problem: null };
  set({});
  try {
    const found = await api.reviewDocuments(id, page);
    if (look?.corpus === id) look = { ...look, documents: found.documents, total: found.total };
  } catch (error) {
    look = { ...look, problem: { status: error.status, message: error.message, hint: error.hint } };
  }
  set({});
}

async function openDocument(uid) {
  const { corpus } = look;
  if (look.document?.uid === uid) { look = { ...look, document: null }; return set({}); }
  try {
    const found = await api.reviewDocument(corpus, uid, 0, PASSAGES);
    if (look?.corpus === corpus) look = { ...look, document: found, problem: null };
  } catch (error) {
    look = { ...look, problem: { status: error.status, message: error.message, hint: error.hint } };
  }
  set({});
}

async function readOn() {
  const { corpus, document: read } = look;
  try {
    const found = await api.reviewDocument(corpus, read.uid, read.chunks.length, PASSAGES * 4);
    if (look?.document?.uid === read.uid) look = { ...look, document: { ...read, chunks: [...read.chunks, ...found.chunks] } };
  } catch (error) {
    look = { ...look, problem: { status: error.status, message: error.message, hint: error.hint } };
  }
  set({});
}

function lookView() {
  const pages = Math.ceil(look.total / 20);
  return h("div.look", { key: "look" },
    look.problem && problemView(look.problem),
    !look.documents && !look.problem && waitingView(),
    look.documents?.length === 0 && h("p.small", null, say("people.noDocuments")),
    h("ul", null, (look.documents ?? []).map((each) => {
      const isOpen = look.document?.uid === each.uid;
      return h("li", { key: each.uid },
        h("button.fold", { type: "button", "aria-expanded": String(isOpen), on: { click: () => openDocument(each.uid) } }, h("bdi", null, clean(each.title, 120))),
        h("span.small", null, `${each.doc_type} · `, say("passages", { n: each.chunk_count })),
        isOpen && h("div.passages", { lang: each.language ?? null }, look.document.chunks.map((chunk) => h("div.passage", { key: chunk.index, dir: "auto" }, markdown(chunk.text))),
          look.document.chunks.length < each.chunk_count && h("button.quiet", { type: "button", on: { click: readOn } }, say("below"))));
    })),
    pages > 1 && h("nav.turn", { "aria-label": say("pagesOf") },
      h("button.quiet", { type: "button", disabled: look.page <= 1, on: { click: () => openCorpus(look.corpus, look.page - 1) } }, say("previous")),
      h("span", null, say("pageOf", { page: number(look.page), pages: number(pages) })),
      h("button.quiet", { type: "button", disabled: look.page >= pages, on: { click: () => openCorpus(look.corpus, look.page + 1) } }, say("next"))));
}

// -- accounts ----------------------------------------------------------------------------------------

function accountRow(account) {
  const name = clean(account.username, 64), mine = account.username === state.session?.username;
  return h("li", { key: account.id, class: `row ${account.is_disabled ? "off" : "good"}`, "data-account": account.username },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null,
      h("p.name", null, h("bdi", null, name)),
      h("p.text", null, [account.is_admin && say("people.admin"), account.is_disabled && say("people.disabled"), mine && say("people.you"), say("people.since", { when: when(account.created_at) })].filter(Boolean).join(" · "))),
    h("span.time", { title: exactly(account.created_at) }),
    h("div.acts", null,
      isOperator() && h("button.quiet", { type: "button", "aria-label": `${say("people.key")}: ${name}`, on: { click: () => makeKey(account.username) } }, say("people.key")),
      !mine && h("button.quiet", { type: "button", "aria-label": `${say(account.is_disabled ? "people.enable" : "people.disable")}: ${name}`, on: { click: () => accounts.act(() => api.disableAccount(account.username, !account.is_disabled)) } }, say(account.is_disabled ? "people.enable" : "people.disable")),
      !mine && askButton(`account-${account.id}`, say("people.delete"), say("people.deleteAsk", { name }), () => accounts.act(() => api.removeAccount(account.username)))));
}

async function makeKey(username) {
  secret = (await accounts.act(() => api.issueKey(username, "key"))) ?? secret;
  set({});
}

async function create(event) {
  event.preventDefault();
  const form = event.target, given = new FormData(form);
  if (await accounts.act(() => api.createAccount(given.get("username"), given.get("password")))) form.reset();
}
