/** The editor: text, title, tags and collection. A draft survives a reload, and a change by somebody else is shown, never overwritten. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView, waitingView } from "../parts/notice.js";
import { linkTo } from "../router.js";
import { set, state } from "../store.js";
import { title } from "../snippet.js";
import { markdown } from "../text.js";
import { say } from "../words.js";

const ATTEMPTS = 3;
const EMPTY = { uid: null, base: null, etag: null, fields: null, theirs: null, problem: null, busy: false, preview: false, saved: false };
let form = { ...EMPTY }, collections = [];

const draftName = (uid) => `knowledge.edit.${uid}`;
const isNote = () => form.base.kind === "note";
const change = (changes) => { form = { ...form, ...changes }; set({}); };
const freeTags = (document) => document.tags.filter((tag) => !tag.startsWith("collection:"));
const splitTags = (typed) => [...new Set(typed.split(",").map((tag) => tag.trim()).filter(Boolean))];
const fieldsOf = ({ document, text }) => ({ title: document.title, text, tags: freeTags(document).join(", "), collection: String(document.collection_id) });

export async function enter() {
  const { uid } = state.route;
  if (!uid || state.route.page !== "edit") return;
  form = { ...EMPTY, uid };
  const [read, listed] = await Promise.allSettled([readDocument(uid), api.allCollections()]);
  if (form.uid !== uid) return;
  collections = listed.status === "fulfilled" ? listed.value.filter((each) => each.access !== "read") : [];
  if (read.status === "rejected") return change({ problem: problemOf(read.reason) });
  const draft = readDraft(uid), current = read.value;
  form = { ...form, base: current.document, text: current.text, etag: current.etag, fields: fieldsOf(current) };
  if (draft) {
    form = { ...form, base: { ...current.document, ...draft.base }, text: draft.text, etag: draft.etag, fields: draft.fields };
    if (draft.etag !== current.etag) form.theirs = current;
  }
  set({});
}

/** Read a document and the text of a note, both of the same revision. */
async function readDocument(uid) {
  for (let attempt = 1; ; attempt++) {
    const { found: document, etag } = await api.documentWithTag(uid);
    if (document.kind !== "note") return { document, etag, text: null };
    const { text, sha256 } = await api.noteText(uid);
    if (sha256 === document.sha256 || attempt === ATTEMPTS) return { document, etag, text };
  }
}

const problemOf = (error) => ({ status: error.status, message: error.message, hint: error.hint });

function readDraft(uid) {
  try { return JSON.parse(sessionStorage.getItem(draftName(uid))); } catch { return null; }
}

function keepDraft() {
  const { base, text, etag, fields } = form;
  try { sessionStorage.setItem(draftName(form.uid), JSON.stringify({ base: { title: base.title, tags: base.tags, collection_id: base.collection_id }, text, etag, fields })); } catch { /* it lasts until the page is closed */ }
}

function dropDraft() {
  try { sessionStorage.removeItem(draftName(form.uid)); } catch { /* there is none */ }
}

function write(changes) {
  form = { ...form, fields: { ...form.fields, ...changes }, saved: false };
  keepDraft();
  set({});
}

/** Drop what was typed and go back to what is stored. */
function discard() {
  dropDraft();
  form = { ...form, uid: null };
  enter();
}

export function editView() {
  if (form.uid !== state.route.uid) { form = { ...EMPTY, uid: state.route.uid }; enter(); }
  const back = `/d/${state.route.uid}`;
  return h("div.adding.editing", { key: "edit" },
    h("div", null, h("a.quiet.up", { href: back, on: linkTo(back) }, `‹ ${say("document")}`), h("h1", null, say(form.base && !isNote() ? "editDocument" : "editNote"))),
    form.problem && problemView(form.problem, form.base ? null : enter),
    form.theirs && conflictView(),
    form.fields ? formView() : !form.problem && waitingView());
}

const isChanged = () => JSON.stringify(form.fields) !== JSON.stringify(fieldsOf({ document: form.base, text: form.text }));

function formView() {
  const { fields, preview, busy } = form, known = collections.some((each) => String(each.id) === fields.collection);
  return h("form.sheetform", { key: "form", on: { submit: (event) => { event.preventDefault(); save(); } } },
    form.saved && h("p.note", { role: "status" }, say("changesSaved")),
    !form.saved && isChanged() && !form.theirs && h("p.small", { role: "status" }, say("draftKept"), " ", h("button.quiet", { type: "button", on: { click: discard } }, say("discardDraft"))),
    h("label.field", null, h("span", null, say("noteTitle")), h("input", { type: "text", required: true, maxlength: 300, dir: "auto", value: fields.title, on: { input: (event) => write({ title: event.target.value }) } })),
    isNote() && (preview
      ? h("div.prose.preview", { key: "preview", dir: "auto" }, markdown(fields.text))
      : h("label.field", { key: "text" }, h("span", null, say("noteText")), h("textarea", { rows: 16, required: true, dir: "auto", value: fields.text, placeholder: say("noteHint"), on: { input: (event) => write({ text: event.target.value }) } }))),
    h("div.target", null,
      h("label.field", null, h("span", null, say("collection")), h("select", { value: fields.collection, on: { change: (event) => write({ collection: event.target.value }) } },
        !known && h("option", { key: "now", value: fields.collection }, form.base.collection ?? fields.collection),
        collections.map((each) => h("option", { key: each.id, value: String(each.id) }, each.title || each.name)))),
      h("label.field", null, h("span", null, say("tags")), h("input", { type: "text", value: fields.tags, placeholder: say("tagsHint"), on: { input: (event) => write({ tags: event.target.value }) } }))),
    h("div.choices", null,
      h("button.primary", { type: "submit", disabled: busy || Boolean(form.theirs) || !isChanged() || !fields.title.trim() || (isNote() && !fields.text.trim()) }, say("saveChanges")),
      isNote() && h("button.quiet", { type: "button", "aria-pressed": String(preview), on: { click: () => change({ preview: !preview }) } }, preview ? say("write") : say("preview"))));
}

/** What somebody else has stored meanwhile, and what to do with one's own. */
function conflictView() {
  const { theirs } = form;
  return h("section.conflict", { key: "conflict", role: "alert", tabindex: -1, ref: (section) => queueMicrotask(() => section.focus()) },
    h("strong", null, say("changedMeanwhile")), h("p", null, say("changedHint")),
    h("p.theirs", null, title(theirs.document.title, 200)),
    theirs.text !== null && h("pre", { dir: "auto", tabindex: 0, "aria-label": say("theirText") }, theirs.text),
    h("div.choices", null,
      h("button.button", { type: "button", disabled: form.busy, on: { click: overwrite } }, say("saveMine")),
      isNote() && h("button.button", { type: "button", disabled: form.busy, on: { click: keepBoth } }, say("keepBoth")),
      h("button.button", { type: "button", disabled: form.busy, on: { click: takeTheirs } }, say("takeTheirs"))));
}

function overwrite() {
  form = { ...form, base: form.theirs.document, text: form.theirs.text, etag: form.theirs.etag, theirs: null };
  keepDraft();
  return save();
}

function takeTheirs() {
  dropDraft();
  const { theirs } = form;
  change({ base: theirs.document, text: theirs.text, etag: theirs.etag, fields: fieldsOf(theirs), theirs: null, problem: null });
}

/** Add one's own text as a new note beside theirs. */
const keepBoth = () => attempt(async () => {
  const { fields } = form;
  await api.addNote({ note: fields.text, title: fields.title, tags: splitTags(fields.tags), collection: Number(fields.collection), job_uid: api.newUid() });
  takeTheirs();
  form.saved = true;
});

function changedFields() {
  const { base, fields } = form, body = {}, before = freeTags(base), after = splitTags(fields.tags);
  if (fields.title.trim() !== base.title) body.title = fields.title.trim();
  if (fields.collection !== String(base.collection_id)) body.collection = Number(fields.collection);
  const added = after.filter((tag) => !before.includes(tag)), removed = before.filter((tag) => !after.includes(tag));
  if (added.length) body.add_tags = added;
  if (removed.length) body.remove_tags = removed;
  return body;
}

/** Store what was changed, each part only on top of the revision that was read. */
const save = () => attempt(async () => {
  const body = changedFields(), { text } = form.fields;
  if (Object.keys(body).length) store(await api.editDocument(form.uid, body, form.etag));
  if (isNote() && text !== form.text) { store(await api.editNote(form.uid, text, form.etag)); form.text = text; }
  dropDraft();
  form = { ...form, fields: fieldsOf({ document: form.base, text: form.text }), saved: true };
});

function store({ found, etag }) {
  form = { ...form, base: found, etag };
  keepDraft();
}

async function attempt(work) {
  change({ busy: true, problem: null, saved: false });
  try {
    await work();
  } catch (error) {
    if (error.code === "document_changed") {
      try { form.theirs = await readDocument(form.uid); } catch (failed) { form.problem = problemOf(failed); }
    } else form.problem = problemOf(error);
  }
  change({ busy: false });
}
