/** The document: drawn pages with the passage marked, or its text, with outline and ticks. */
import { h } from "../dom.js";
import { narrow } from "../asking.js";
import * as api from "../api.js";
import { pagesView } from "./sheets.js";
import { drawerView, toolsView } from "./document_tools.js";
import { note, problemView, waitingView } from "./notice.js";
import { cite, close, copyLink, currentView, isDrawable, moreText, moveTo, setView, step } from "../reading.js";
import { state } from "../store.js";
import { title } from "../snippet.js";
import { markdown, outward } from "../text.js";
import { exactly, number, say, size, when } from "../words.js";

export function readerView(alone = false) {
  const { reader } = state;
  if (!reader) return null;
  const view = currentView(reader);
  return h("article.reader", { key: "reader", "aria-label": say("document"), class: alone ? "alone" : "beside" },
    headView(reader, view, alone),
    reader.document && drawerView(reader.document),
    h("div.stage", null,
      h("div", { key: "body", class: `body ${view}`, tabindex: 0, "aria-label": say("documentBody") },
        reader.problem ? problemView(reader.problem)
          : !reader.document ? waitingView()
          : [notesView(reader, view), view === "page" ? pagesView(reader) : textView(reader)]),
      ticksView(reader),
      railView(reader)));
}

function headView(reader, view, alone) {
  const { document } = reader;
  return h("header", { key: "head" },
    h("button.back.quiet", { type: "button", "aria-label": say("close"), title: say("close"), on: { click: close } },
      h("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("path", { d: "m5 5 10 10M15 5 5 15" }))),
    h(alone ? "h1" : "h2", null, document ? title(document.title) : "\u00a0"),
    h("div.what", null,
      h("p.facts", null, document ? factsOf(document) : "\u00a0"),
      crumbsOf(reader)),
    document && h("div.tools", null,
      isDrawable(document) && reader.pages?.count !== 0 && switchView(view),
      hitsView(reader),
      h("button.quiet", { type: "button", on: { click: cite } }, state.copied === "cite" ? say("copied") : say("cite")),
      h("button.quiet", { type: "button", on: { click: copyLink } }, state.copied === "link" ? say("copied") : say("link")),
      document.kind !== "note" && h("a.quiet", { href: api.original(document.uid), download: "" }, say("original")),
      !alone && h("button.quiet.within", { type: "button", "aria-pressed": String(state.filters.in === reader.uid), on: { click: () => narrow("in", reader.uid) } }, say("searchWithin")),
      toolsView(document)));
}

function factsOf(document) {
  const facts = [document.doc_type];
  if (document.page_count > 1) facts.push(say("pages", { n: document.page_count }));
  if (document.size_bytes) facts.push(size(document.size_bytes));
  facts.push(say("added", { when: when(document.created_at) }), say("inCollection", { name: document.collection }));
  if (typeof document.vector_count === "number" && document.vector_count < document.chunk_count) facts.push(say("wordsOnly"));
  return [h("span", { title: exactly(document.created_at) }, facts.join(" · ")), document.url && /^https?:/.test(document.url) && [" · ", outward(document.url, new URL(document.url).host)]];
}

function crumbsOf(reader) {
  const chunk = reader.chunks.find((each) => each.index === reader.at);
  if (!chunk?.section.length) return null;
  return h("p.crumbs", null, chunk.section.map((name, index) => [index > 0 && h("span", { "aria-hidden": "true" }, " › "), title(name, 100)]));
}

const switchView = (view) => h("div.switch", { role: "group", "aria-label": say("show") },
  h("button", { type: "button", "aria-pressed": String(view === "page"), on: { click: () => setView("page") } }, say("viewPage")),
  h("button", { type: "button", "aria-pressed": String(view === "text"), on: { click: () => setView("text") } }, say("viewText")));

function hitsView(reader) {
  const { hits, at } = reader;
  if (hits.length < 2) return null;
  const place = hits.findIndex((hit) => hit.chunk_indexes[0] <= at && at <= hit.chunk_indexes[1]);
  const arrow = (side, path, label) => h("button.quiet.arrow", { type: "button", "aria-label": label, title: label, on: { click: () => step(side) } }, h("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("path", { d: path })));
  return h("div.steps", { role: "group", "aria-label": say("hitsHere") },
    arrow(-1, "m5 12 5-5 5 5", say("previousHit")),
    h("span", null, place < 0 ? say("hits", { n: hits.length }) : say("hitOf", { place: number(place + 1), all: number(hits.length) })),
    arrow(1, "m5 8 5 5 5-5", say("nextHit")));
}

function notesView(reader, view) {
  const { document, places, placesNote, at } = reader, notes = [];
  if (document.status === "partial") notes.push(note(say("partial"), " ", document.warnings.join(" ")));
  if (view === "page" && at !== null && reader.pages) {
    const boxed = places.some((place) => place.boxes.length), covered = places.find((place) => place.chunk === at)?.coverage ?? 1;
    if (placesNote === "read_before_boxes") notes.push(note(say("noBoxesYet")));
    else if (placesNote === null && places.length > 0 && !boxed) notes.push(note(say("noBoxes")));
    else if (boxed && covered < 0.5) notes.push(note(say("fewBoxes")));
  }
  return notes;
}

function textView(reader) {
  const { document, chunks, from, to, at, marked } = reader, first = chunks[0]?.index, last = chunks.at(-1)?.index;
  let section = null;
  const passage = (chunk) => {
    const inside = at !== null && chunk.index >= from && chunk.index <= to, best = chunk.index === at;
    const name = chunk.section.at(-1), begins = name && name !== section && !chunk.text.trimStart().startsWith("#");
    section = name;
    return [begins && h("p.h.h3", { key: `h${chunk.index}`, role: "heading", "aria-level": 3 }, title(name)),
      h("section", { key: chunk.index, class: best ? "passage here" : inside ? "passage near" : "passage", "data-spot": best ? "" : null, "aria-label": best ? say("thisPassage") : null }, markdown(chunk.text, inside || reader.question ? marked : null))];
  };
  return h("div.pages-text", { key: "text" },
    first > 0 && h("button.quiet.more", { type: "button", on: { click: () => moreText(-1) } }, say("above")),
    h("div.prose", { lang: document.language, dir: "auto" }, chunks.map(passage)),
    last < document.chunk_count - 1 && h("button.quiet.more", { type: "button", on: { click: () => moreText(1) } }, say("below")));
}

/** A mark along the edge for every passage of this document that answers the question. */
function ticksView(reader) {
  const { hits, document, at } = reader;
  if (!document || !hits.length || document.chunk_count < 2) return null;
  return h("div.ticks", { key: "ticks", "aria-hidden": "true" }, hits.map((hit) => h("button", {
    key: hit.chunk_index, type: "button", tabindex: -1, class: hit.chunk_indexes[0] <= at && at <= hit.chunk_indexes[1] ? "tick here" : "tick",
    title: hit.chunk_metadata.page ? say("page", { page: hit.chunk_metadata.page }) : say("passage"),
    css: { top: `${((100 * hit.chunk_index) / document.chunk_count).toFixed(2)}%` }, on: { click: () => moveTo(hit.chunk_index) },
  })));
}

function railView(reader) {
  const { outline, at } = reader;
  if (outline.length < 2) return null;
  const current = outline.findLastIndex((each) => each.chunk <= (at ?? 0));
  return h("nav.rail", { key: "rail", "aria-label": say("outline") }, h("h3", null, say("outline")),
    h("ol", null, outline.slice(0, 300).map((each, index) => h("li", { key: index, class: `level${Math.min(4, each.level)}` },
      h("button", { type: "button", "aria-current": index === current ? "true" : null, on: { click: () => moveTo(each.chunk) } }, title(each.title, 120), each.page && h("span", null, number(each.page)))))));
}
