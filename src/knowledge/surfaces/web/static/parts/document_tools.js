/** Tools of the open document that change it or lead on: Edit, Similar, Delete. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { address, go, linkTo } from "../router.js";
import { clean, title } from "../snippet.js";
import { set, state } from "../store.js";
import { say } from "../words.js";

const EXCERPT_CHARS = 160;
let open = { uid: null, tool: null, hits: null, problem: null, busy: false };

const change = (changes) => { open = { ...open, ...changes }; set({}); };
const isOpen = (document, tool) => open.uid === document.uid && open.tool === tool;

export function toolsView(document) {
  const may = document.access !== "read", edit = `/d/${document.uid}/edit`;
  return [
    may && h("a.quiet", { key: "edit", href: edit, on: linkTo(edit) }, say("edit")),
    h("button.quiet", { key: "similar", type: "button", "aria-expanded": String(isOpen(document, "similar")), on: { click: () => toggle(document, "similar") } }, say("similar")),
    may && h("button.quiet", { key: "delete", type: "button", "aria-expanded": String(isOpen(document, "delete")), on: { click: () => toggle(document, "delete") } }, say("deleteDocument")),
  ];
}

/** What the chosen tool shows below the head. */
export function drawerView(document) {
  if (isOpen(document, "similar")) return h("section.drawer", { key: "drawer", "aria-label": say("similarOnes") }, h("h3", null, say("similarOnes")), problemLine(), similarView());
  if (isOpen(document, "delete")) {
    return h("section.drawer", { key: "drawer", role: "alertdialog", "aria-label": say("deleteDocument") },
      h("p", null, say("deletesThis", { passages: say("passages", { n: document.chunk_count }) })), problemLine(),
      h("div.choices", null,
        h("button.primary.danger", { type: "button", disabled: open.busy, on: { click: () => remove(document) } }, say("deleteIt")),
        h("button.quiet", { type: "button", on: { click: () => change({ tool: null }) } }, say("keepIt"))));
  }
  return null;
}

const problemLine = () => open.problem && h("p.bad", { role: "alert" }, open.problem.message, " ", open.problem.hint);

function similarView() {
  if (open.hits === null) return null;
  if (!open.hits.length) return h("p", null, say("noSimilar"));
  return h("ul", null, open.hits.map((hit) => h("li", { key: hit.document_uid }, h("a", { href: placeOf(hit), on: linkTo(placeOf(hit)) }, h("strong", null, title(hit.title, 120)), h("span", { dir: "auto" }, clean(hit.text.slice(0, 4 * EXCERPT_CHARS).replace(/\s+/g, " "), EXCERPT_CHARS))))));
}

const placeOf = (hit) => address(`/d/${hit.document_uid}`, { at: hit.chunk_index });

async function toggle(document, tool) {
  if (isOpen(document, tool)) return change({ tool: null });
  change({ uid: document.uid, tool, hits: null, problem: null, busy: false });
  if (tool !== "similar") return;
  try {
    const { results } = await api.similar(document.uid);
    if (isOpen(document, tool)) change({ hits: results });
  } catch (error) {
    change({ hits: [], problem: error });
  }
}

async function remove(document) {
  change({ busy: true, problem: null });
  try {
    await api.removeDocument(document.uid);
    change({ tool: null });
    set({ answer: null });
    go(state.route.page === "document" ? "/library" : address("/", { q: state.question.trim() || null, ...state.filters }));
  } catch (error) {
    change({ busy: false, problem: error });
  }
}
