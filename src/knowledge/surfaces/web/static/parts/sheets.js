/** Drawn pages in one scroll: the picture, the boxes of the passage, and an invisible layer of words to select. */
import { h } from "../dom.js";
import { morePages, pictureOf, seePage } from "../reading.js";
import { set, state } from "../store.js";
import { clean } from "../snippet.js";
import { number, say } from "../words.js";

export function pagesView(reader) {
  const { pages } = reader;
  if (!pages) return h("div.sheets", { key: "sheets" }, h("div.sheet.blank", null));
  const first = pages.sizes[0]?.page ?? 1, last = pages.sizes.at(-1)?.page ?? 1;
  return h("div", { key: "sheets", class: reader.zoom ? "sheets zoomed" : "sheets", on: { copy: copyWords } },
    first > 1 && h("button.quiet.more", { type: "button", on: { click: () => morePages(-1) } }, say("earlierPages")),
    pages.sizes.map((size) => sheetView(reader, size)),
    last < pages.count && h("button.quiet.more", { type: "button", on: { click: () => morePages(1) } }, say("laterPages")),
    h("div.pager", { key: "pager" },
      h("span", null, say("pageOf", { page: number(reader.page ?? first), pages: number(pages.count) })),
      h("button.quiet", { type: "button", "aria-pressed": String(reader.zoom), on: { click: () => set({ reader: { ...state.reader, zoom: !reader.zoom } }) } }, reader.zoom ? say("fitWidth") : say("zoomIn"))));
}

function sheetView(reader, { page, width, height }) {
  const here = reader.places.filter((place) => place.page === page), words = reader.words.get(page);
  const best = here.filter((place) => place.chunk === reader.at), spot = firstBox(best) ?? (reader.at !== null && !reader.places.length && page === reader.page ? [0, 0] : null);
  return h("figure.sheet", { key: page, "data-page": page, css: { "aspect-ratio": `${width} / ${height}` }, ref: watch },
    h("img", { src: pictureOf(reader.uid, page), alt: say("pagePicture", { page, title: clean(reader.document.title, 100) }), loading: "lazy", decoding: "async", width: Math.round(width), height: Math.round(height) }),
    here.length > 0 && h("svg.boxes", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
      here.map((place) => place.boxes.map(([x0, y0, x1, y1]) => h("rect", { class: place.chunk === reader.at ? "best" : "near", x: x0 - 0.003, y: y0 - 0.0015, width: x1 - x0 + 0.006, height: y1 - y0 + 0.003, rx: 0.003, ry: 0.002 })))),
    spot && h("i.spot", { "data-spot": "", css: { top: `${100 * spot[1]}%` } }),
    words && wordsView(words));
}

function firstBox(places) {
  const boxes = places.flatMap((place) => place.boxes);
  return boxes.length ? boxes.reduce((top, box) => (box[1] < top[1] ? box : top)) : null;
}

/** Words as transparent text exactly over the picture; `textLength` stretches each to the width of its box. */
function wordsView({ words, width, height }) {
  return h("svg.words", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" },
    words.map(({ text, box: [x0, y0, x1, y1] }) => h("text", {
      x: (x0 * width).toFixed(1), y: ((y0 + (y1 - y0) * 0.8) * height).toFixed(1), "font-size": Math.max(1, (y1 - y0) * height * 0.9).toFixed(1),
      textLength: Math.max(1, (x1 - x0) * width).toFixed(1), lengthAdjust: "spacingAndGlyphs",
    }, `${text} `)));
}

/** Copied words get spaces between them and line breaks where a line ends. */
function copyWords(event) {
  const selection = getSelection();
  if (!selection?.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0), lines = [];
  let bottom = -Infinity;
  for (const word of event.currentTarget?.querySelectorAll(".words text") ?? []) {
    if (!range.intersectsNode(word)) continue;
    const y = Number(word.getAttribute("y")), tall = Number(word.getAttribute("font-size"));
    if (Math.abs(y - bottom) > tall * 0.6) lines.push([]);
    bottom = y;
    lines.at(-1).push(word.textContent.trim());
  }
  if (!lines.length) return;
  event.preventDefault();
  event.clipboardData.setData("text/plain", lines.map((line) => line.join(" ")).join("\n"));
}

const seen = new Map();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const page = Number(entry.target.dataset.page);
    if (entry.isIntersecting) seen.set(page, entry.intersectionRatio * entry.target.clientHeight);
    else seen.delete(page);
  }
  if (!state.reader?.pages) return seen.clear();
  const most = [...seen].filter(([page]) => document.querySelector(`.sheet[data-page="${page}"]`)).sort((one, other) => other[1] - one[1])[0];
  if (most) seePage(most[0]);
}, { threshold: [0, 0.1, 0.25, 0.5, 0.75, 1] });

const watch = (figure) => observer.observe(figure);
