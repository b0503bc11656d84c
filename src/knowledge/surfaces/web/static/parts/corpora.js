/** The caller's corpora: make one, make it public, share it with other accounts, and see what the admins decided. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { linkTo } from "../router.js";
import { set, state } from "../store.js";
import { clean } from "../snippet.js";
import { say } from "../words.js";
import { askButton, makeSection } from "./controls.js";
import { problemView, waitingView } from "./notice.js";

const CATEGORIES = ["general", "legal", "medical", "research", "technical"];
const list = makeSection(async () => (await api.corpora()).corpuses);
const shared = new Map();
let open = null;

export function enterCorpora() {
  open = null;
  shared.clear();
  return list.load();
}

/** Something changed on the server: a verdict, a grant, a document. */
export function refreshCorpora() {
  list.load();
  if (open !== null) loadGrants(open);
}

const isMine = (corpus) => corpus.owner === (state.session?.caller === "account" ? state.session.username : "");

export function corporaView() {
  const all = list.data ?? [], mine = all.filter(isMine), others = all.filter((corpus) => !isMine(corpus));
  return [
    h("section", { key: "mine" }, h("h2", null, say("corp.mine")), h("p.small", null, say("corp.hint")),
      list.problem && problemView(list.problem, list.load),
      !list.data && !list.problem && waitingView(),
      list.data && !mine.length && h("p.small", null, say("corp.none")),
      h("ul.rows", null, mine.map(corpusView)),
      h("form.inline", { on: { submit: create } },
        h("label.field", null, h("span", null, say("corp.name")), h("input", { name: "name", required: true, maxlength: 100, autocomplete: "off" })),
        h("label.field", null, h("span", null, say("corp.category")), h("select", { name: "category" }, CATEGORIES.map((name) => h("option", { key: name, value: name }, say(`corp.category.${name}`))))),
        h("button.button", { type: "submit", disabled: list.busy }, say("corp.make")))),
    others.length > 0 && h("section", { key: "others" }, h("h2", null, say("corp.others")),
      h("ul.rows", null, others.map((corpus) => h("li", { key: corpus.id, class: "row good" },
        h("i.dot", { "aria-hidden": "true" }),
        h("div.about", null, h("p.name", null, nameView(corpus)), h("p.text", null, corpus.owner ? say("corp.of", { name: clean(corpus.owner, 64) }) : say("corp.ofOperator"), " · ", say("documents", { n: corpus.document_count }))),
        h("span.time", null), h("div.acts", null))))),
  ];
}

function nameView(corpus) {
  const to = `/library?collection=${encodeURIComponent(corpus.name)}`;
  return h("a", { href: to, on: linkTo(to) }, h("bdi", null, clean(corpus.display_name, 120)));
}

function stateOf(corpus) {
  if (corpus.is_public && corpus.is_approved) return { kind: "good", text: say("corp.approved") };
  if (corpus.is_public) return { kind: "running", text: say("corp.waiting") };
  if (corpus.declined !== null) return { kind: "bad", text: corpus.declined ? say("corp.declinedBecause", { reason: clean(corpus.declined, 500) }) : say("corp.declined") };
  return { kind: "off", text: say("corp.private") };
}

function corpusView(corpus) {
  const shown = stateOf(corpus), label = clean(corpus.display_name, 60);
  return h("li", { key: corpus.id, class: `row ${shown.kind}`, "data-corpus": corpus.name },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null,
      h("p.name", null, nameView(corpus)),
      h("p.text", null, shown.text, " · ", say("documents", { n: corpus.document_count })),
      open === corpus.id && grantsView(corpus)),
    h("span.time", null),
    h("div.acts", null,
      h("button.quiet", { type: "button", "aria-label": `${say("corp.share")}: ${label}`, "aria-expanded": String(open === corpus.id), on: { click: () => toggle(corpus.id) } }, say("corp.share")),
      corpus.is_public
        ? h("button.quiet", { type: "button", "aria-label": `${say("corp.makePrivate")}: ${label}`, on: { click: () => edit(corpus, false) } }, say("corp.makePrivate"))
        : h("button.quiet", { type: "button", "aria-label": `${say("corp.makePublic")}: ${label}`, on: { click: () => edit(corpus, true) } }, say("corp.makePublic")),
      askButton(`corpus-${corpus.id}`, say("corp.delete"), say("corp.deleteAsk", { name: label, n: corpus.document_count }), () => list.act(() => api.deleteCorpus(corpus.id)))));
}

const edit = (corpus, isPublic) => list.act(() => api.editCorpus(corpus.id, { is_public: isPublic }));

function toggle(id) {
  open = open === id ? null : id;
  if (open !== null) loadGrants(id);
  set({});
}

async function loadGrants(id, work = () => api.grants(id)) {
  try {
    shared.set(id, { grants: (await work()).permissions, problem: null });
  } catch (error) {
    shared.set(id, { ...(shared.get(id) ?? { grants: [] }), problem: { status: error.status, message: error.message, hint: error.hint } });
  }
  set({});
  return !shared.get(id).problem;
}

function grantsView(corpus) {
  const found = shared.get(corpus.id);
  return h("div.grants", { key: "grants" },
    found?.problem && problemView(found.problem),
    found && !found.grants.length && h("p.small", null, say("corp.noGrants")),
    h("ul", null, (found?.grants ?? []).map(({ username, permission }) => h("li", { key: username },
      h("bdi", null, clean(username, 64)), h("span.small", null, say(`corp.may.${permission}`)),
      h("button.quiet", { type: "button", "aria-label": `${say("my.revoke")}: ${clean(username, 64)}`, on: { click: () => loadGrants(corpus.id, () => api.revokeGrant(corpus.id, username)) } }, say("my.revoke"))))),
    h("form.inline", { on: { submit: (event) => share(event, corpus) } },
      h("label.field", null, h("span", null, say("username")), h("input", { name: "username", required: true, autocomplete: "off", autocapitalize: "off", spellcheck: "false" })),
      h("label.field", null, h("span", null, say("corp.may")), h("select", { name: "permission" }, ["read", "write"].map((each) => h("option", { key: each, value: each }, say(`corp.may.${each}`))))),
      h("button.button", { type: "submit" }, say("corp.grant"))));
}

async function share(event, corpus) {
  event.preventDefault();
  const form = event.target, given = new FormData(form);
  if (await loadGrants(corpus.id, () => api.grant(corpus.id, given.get("username"), given.get("permission")))) form.reset();
}

async function create(event) {
  event.preventDefault();
  const form = event.target, given = new FormData(form);
  if (await list.act(() => api.createCorpus({ display_name: given.get("name"), category: given.get("category") }))) form.reset();
}
