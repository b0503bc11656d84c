/** Adding: files and folders, a note, or a web site. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView } from "../parts/notice.js";
import { address, go, linkTo } from "../router.js";
import { set, state } from "../store.js";
import { markdown } from "../text.js";
import { add } from "../uploads.js";
import { say, size } from "../words.js";

const DRAFT = "knowledge.note";
let collections = [];
let form = { problem: null, busy: false, preview: false, done: null };
let note = readDraft();

export async function enter() {
  form = { problem: null, busy: false, preview: false, done: null };
  const { title } = state.route.params;  // from a question that was not found
  if (title && !note.text?.trim()) writeNote({ title });
  try { collections = (await api.collections()).collections ?? []; } catch { collections = []; }
  set({});
}

export function addView() {
  const what = state.route.params.what ?? "files";
  return h("div.adding", { key: "adding" },
    h("h1", null, say("addTitle")),
    h("div.chips.tabs", { role: "group", "aria-label": say("addWhat") }, tab("files", say("addFiles"), what), tab("note", say("addNote"), what), tab("site", say("addSite"), what)),
    form.problem && problemView(form.problem),
    what === "note" ? noteView() : what === "site" ? siteView() : filesView());
}

function tab(what, label, current) {
  const to = address("/add", { what: what === "files" ? null : what });
  return h("a.chip", { key: what, href: to, "aria-current": what === current ? "true" : null, on: linkTo(to, () => { form = { problem: null, busy: false, preview: false, done: null }; }) }, label);
}

function filesView() {
  const { max_file_bytes: max, formats } = state.session ?? {};
  return h("section", { key: "files" },
    h("div.target", null, collectionField(state.target.collection ?? "", (collection) => set({ target: { ...state.target, collection } })),
      tagsField(state.target.typed ?? "", (typed) => set({ target: { ...state.target, typed, tags: splitTags(typed) } }))),
    h("div.dropzone", null,
      h("p", null, say("dropHere")),
      h("div.choices", null, picker("files", say("chooseFiles"), { multiple: true }), picker("folder", say("chooseFolder"), { multiple: true, webkitdirectory: true })),
      max && h("p.small", null, say("upTo", { size: size(max) }))),
    formats?.length > 0 && h("details.small", null, h("summary", null, say("formats", { n: formats.length })), h("p", null, formats.flatMap((format) => format.suffixes).join(" "))));
}

function picker(key, label, attributes) {
  return h("label.button", { key }, label, h("input.hidden", { type: "file", ...attributes, on: { change: (event) => { add([...event.target.files].filter((file) => !file.name.startsWith("."))); event.target.value = ""; } } }));
}

const splitTags = (typed) => typed.split(",").map((tag) => tag.trim()).filter(Boolean);

const collectionField = (value, change) => h("label.field", { key: "collection" }, h("span", null, say("collection")),
  h("select", { value, on: { change: (event) => change(event.target.value) } }, h("option", { value: "" }, say("defaultCollection")),
    collections.filter(({ name }) => name !== "documents").map(({ name, title }) => h("option", { key: name, value: name }, title || name))));

const tagsField = (value, change) => h("label.field", { key: "tags" }, h("span", null, say("tags")), h("input", { type: "text", value, placeholder: say("tagsHint"), on: { input: (event) => change(event.target.value) } }));

function readDraft() {
  try { return JSON.parse(sessionStorage.getItem(DRAFT)) ?? {}; } catch { return {}; }
}

function writeNote(changes) {
  note = { ...note, ...changes };
  try { sessionStorage.setItem(DRAFT, JSON.stringify(note)); } catch { /* the draft lasts until the page is closed */ }
  set({});
}

function noteView() {
  return h("form.sheetform", { key: "note", on: { submit: saveNote } },
    form.done && h("p.note", { role: "status" }, say("noteAdded")),
    h("label.field", null, h("span", null, say("noteTitle")), h("input", { type: "text", value: note.title ?? "", maxlength: 300, dir: "auto", placeholder: say("optional"), on: { input: (event) => writeNote({ title: event.target.value }) } })),
    form.preview
      ? h("div.prose.preview", { key: "preview", dir: "auto" }, markdown(note.text ?? ""))
      : h("label.field", { key: "text" }, h("span", null, say("noteText")), h("textarea", { rows: 12, required: true, value: note.text ?? "", dir: "auto", placeholder: say("noteHint"), on: { input: (event) => writeNote({ text: event.target.value }) } })),
    h("div.target", null, collectionField(note.collection ?? "", (collection) => writeNote({ collection })), tagsField(note.tags ?? "", (tags) => writeNote({ tags }))),
    h("div.choices", null,
      h("button.primary", { type: "submit", disabled: form.busy || !note.text?.trim() }, say("saveNote")),
      h("button.quiet", { type: "button", "aria-pressed": String(form.preview), on: { click: () => { form.preview = !form.preview; set({}); } } }, form.preview ? say("write") : say("preview"))));
}

async function saveNote(event) {
  event.preventDefault();
  await attempt(async () => {
    note.uid ??= api.newUid();
    const job = await api.addNote({ note: note.text, title: note.title || null, tags: splitTags(note.tags ?? ""), collection: note.collection || null, job_uid: note.uid });
    note = { collection: note.collection, tags: note.tags };
    writeNote({});
    form.done = job.uid;
    set({ jobs: new Map(state.jobs).set(job.uid, job) });
  });
}

function siteView() {
  return h("form.sheetform", { key: "site", on: { submit: startCrawl } },
    h("label.field", null, h("span", null, say("siteAddress")), h("input", { type: "url", name: "url", required: true, pattern: "https?://.*", placeholder: "https://", autocomplete: "url", inputmode: "url" })),
    h("fieldset.field", null, h("legend", null, say("howMuch")),
      h("label.choice", null, h("input", { type: "radio", name: "much", value: "page", checked: !form.whole, on: { change: () => { form.whole = false; set({}); } } }), say("thisPage")),
      h("label.choice", null, h("input", { type: "radio", name: "much", value: "site", checked: Boolean(form.whole), on: { change: () => { form.whole = true; set({}); } } }), say("wholeSite"))),
    form.whole && h("label.field", { key: "most" }, h("span", null, say("atMost")), h("input", { type: "number", name: "most", min: 1, max: 100, value: form.most ?? "50", on: { input: (event) => { form.most = event.target.value; } } })),
    form.whole && h("label.field", { key: "leave" }, h("span", null, say("leaveOut")), h("input", { type: "text", name: "leave", placeholder: say("leaveOutHint") })),
    h("div.choices", null, h("button.primary", { type: "submit", disabled: form.busy }, say("startCrawl"))),
    h("p.small", null, say("robots")));
}

async function startCrawl(event) {
  event.preventDefault();
  const given = new FormData(event.target), whole = given.get("much") === "site";
  await attempt(async () => {
    const crawl = await api.crawl({ url: given.get("url"), recursive: whole, max_pages: whole ? Number(given.get("most")) : 1, exclude_patterns: splitTags(given.get("leave") ?? "") });
    go(`/activity/crawls/${crawl.uid}`);
  });
}

async function attempt(work) {
  form = { ...form, busy: true, problem: null, done: null };
  set({});
  try { await work(); } catch (error) { form.problem = { status: error.status, message: error.message, hint: error.hint }; }
  form.busy = false;
  set({});
}
