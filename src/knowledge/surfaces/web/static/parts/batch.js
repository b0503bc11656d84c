/** The bar over the documents that are chosen: move, tag and delete, with a sentence that says what happens. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { chosen, filterOf, forget, listed, refresh } from "../pages/library.js";
import { set } from "../store.js";
import { clean } from "../snippet.js";
import { number, say } from "../words.js";

const TYPED_FROM = 20;
const IDLE = { act: null, busy: false, problem: null, text: "", removal: null, done: null };
let form = { ...IDLE };

/** Forget what was begun, because something else is chosen now. */
export const clearBatch = () => { form = { ...IDLE }; };

const selection = () => (chosen.all ? { filter: filterOf() } : { ids: [...chosen.ids.keys()] });
const change = (changes) => { form = { ...form, ...changes }; set({}); };

export function batchView() {
  const { total } = listed(), count = chosen.all ? total : chosen.ids.size;
  if (!count) return form.done && h("p.note", { key: "batch-done", role: "status" }, form.done);
  return h("section.batch", { key: "batch", "aria-label": say("chosenOnes") },
    h("div.choices", null,
      h("strong", { role: "status" }, chosen.all ? say("chosenAll", { n: total }) : say("chosen", { n: count })),
      !chosen.all && total > count && h("button.quiet", { type: "button", on: { click: chooseAll } }, say("chooseAll", { n: total })),
      act("move"), act("tag"), act("delete"),
      h("button.quiet", { type: "button", on: { click: () => { forget(); set({}); } } }, say("chooseNone"))),
    form.act === "move" && moveView(), form.act === "tag" && tagView(), form.act === "delete" && deleteView(),
    form.problem && h("p.bad", { role: "alert" }, form.problem.message, " ", form.problem.hint));
}

const act = (name) => h("button.button", { key: name, type: "button", "aria-expanded": String(form.act === name), disabled: form.busy, on: { click: () => begin(name) } }, say(`act.${name}`));

function chooseAll() {
  chosen.all = true;
  chosen.ids.clear();
  clearBatch();
  set({});
}

function begin(name) {
  if (form.act === name) return change({ ...IDLE });
  change({ ...IDLE, act: name });
  if (name === "delete") askWhatGoes();
}

const moveView = () => h("form.choices", { key: "move", on: { submit: (event) => { event.preventDefault(); edit({ collection: event.target.elements.target.value }); } } },
  h("label.field", null, h("span", null, say("moveTo")), h("input", { name: "target", type: "text", required: true, maxlength: 100, list: "batch-collections", value: form.text, on: { input: (event) => { form.text = event.target.value; } } })),
  h("datalist", { id: "batch-collections" }, listed().collections.filter((each) => each.access === "own").map((each) => h("option", { key: each.uid, value: each.name }))),
  h("button.primary", { type: "submit", disabled: form.busy }, say("act.move")));

const tagView = () => h("form.choices", { key: "tag", on: { submit: (event) => event.preventDefault() } },
  h("label.field", null, h("span", null, say("tags")), h("input", { type: "text", value: form.text, placeholder: say("tagsHint"), on: { input: (event) => change({ text: event.target.value }) } })),
  h("button.primary", { type: "button", disabled: form.busy || !tags().length, on: { click: () => edit({ add_tags: tags() }) } }, say("addTags")),
  h("button.button", { type: "button", disabled: form.busy || !tags().length, on: { click: () => edit({ remove_tags: tags() }) } }, say("removeTags")));

const tags = () => form.text.split(",").map((tag) => tag.trim()).filter(Boolean);

/** Ask the server how much would be deleted: it refuses without the number, and says it. */
async function askWhatGoes() {
  try {
    await api.changeMany({ ...selection(), remove: true });
  } catch (error) {
    if (error.code === "confirmation_required") change({ removal: error.details });
    else change({ problem: error });
  }
}

function deleteView() {
  if (!form.removal) return null;
  const { documents, chunks } = form.removal, names = [...chosen.ids.values()];
  const what = documents === 1 && names.length === 1 ? say("deletesOne", { title: clean(names[0].title, 80), passages: say("passages", { n: chunks }) }) : say("deletesMany", { n: documents, passages: say("passages", { n: chunks }) });
  const typed = documents <= TYPED_FROM || form.text.trim() === String(documents);
  return h("form.choices", { key: "delete", on: { submit: (event) => { event.preventDefault(); if (typed) remove(documents); } } },
    h("p", null, what),
    documents > TYPED_FROM && h("label.field", null, h("span", null, say("typeCount", { count: number(documents) })), h("input", { type: "text", inputmode: "numeric", autocomplete: "off", value: form.text, on: { input: (event) => change({ text: event.target.value }) } })),
    h("button.primary.danger", { type: "submit", disabled: form.busy || !typed || !documents }, say("deleteNow", { n: documents })));
}

const edit = (changes) => run(() => api.changeMany({ ...selection(), ...changes }), (result) => say("changedMany", { n: result.done }));
const remove = (confirm) => run(() => api.changeMany({ ...selection(), remove: true, confirm }), (result) => say("deletedMany", { n: result.done }));

async function run(call, describe) {
  change({ busy: true, problem: null });
  try {
    const result = await call(), [failure] = result.failures;
    forget();
    form.done = [describe(result), failure && say("notChanged", { n: result.failed, reason: failure.message })].filter(Boolean).join(" ");
    await refresh();
    set({});
  } catch (error) {
    change({ busy: false, problem: error, removal: error.code === "confirmation_required" ? error.details : form.removal });
  }
}
