/** Every passage a dot, near those that mean something similar; beside it the same as a list. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView, waitingView } from "../parts/notice.js";
import { colourOf, draw, findLit, hold, listDocuments, nearest, nextCluster, projector, WHOLE, zoomAt } from "../parts/dots.js";
import { address, go, linkTo, rewrite } from "../router.js";
import { set, state } from "../store.js";
import { clean, snippet, title } from "../snippet.js";
import { language, listed, number, say } from "../words.js";

const WAIT_MS = 120, POLL_MS = 1500, REFRESH_MS = 5000, TIP_MS = 90, TOP = 50;
const DOCUMENTS_PER_GROUP = 12, LEGEND = 8, MIN_DRAG = 4;
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const EMPTY = { key: null, map: null, problem: null };
let shown = { ...EMPTY }, collections = [], question = "", answer = null, asking = 0, running = null;
let view = WHOLE, cluster = null, hover = -1, resting = 0, texts = new Map(), polling = 0, canvas = null;

const wanted = () => state.route.params.collection ?? "";

export async function enter() {
  question = state.route.params.q ?? "";
  [shown, answer, view, cluster, hover, texts] = [{ ...EMPTY }, null, WHOLE, null, -1, new Map()];
  if (question) ask(0);
  try { ({ collections } = await api.collections()); } catch { collections = []; }
  set({});
}

/** Load the map, and ask again while it is being made; only its state is asked for then. */
async function load() {
  const key = wanted();
  clearTimeout(polling);
  try {
    const map = await api.map(key);
    if (key !== wanted()) return;
    if (shown.map?.made_at !== map.made_at || shown.key !== key) [cluster, hover] = [null, -1];
    shown = { key, map, problem: null };
    if (map.state === "making" || map.state === "outdated") poll(key, map.made_at);
  } catch (error) {
    if (key === wanted()) shown = { key, map: shown.key === key ? shown.map : null, problem: { status: error.status, message: error.message, hint: error.hint } };
  }
  set({});
}

function poll(key, made) {
  clearTimeout(polling);
  polling = setTimeout(async () => {
    if (state.route.page !== "map" || key !== wanted()) return;
    if (document.hidden) return poll(key, made);
    try {
      const { state: now, made_at: at } = await api.map(key, 1);
      if (at !== made || (now !== "making" && now !== "outdated")) return load();
    } catch { /* the next one tells */ }
    poll(key, made);
  }, POLL_MS);
}

let refreshing = 0;
/** Documents have changed: look once for all of them. */
export function take(kind) {
  if (kind !== "document" || refreshing) return;
  refreshing = setTimeout(() => { refreshing = 0; if (state.route.page === "map") load(); }, REFRESH_MS);
}

/** Ask the question as it is typed; the dots of its answers light up. */
function ask(wait) {
  clearTimeout(asking);
  running?.abort();
  const text = question.trim();
  rewrite(address("/map", { collection: wanted(), q: text }));
  if (!text) { answer = null; return set({}); }
  asking = setTimeout(async () => {
    running = new AbortController();
    try {
      const found = await api.search({ query: text, top: TOP, highlight: true, ...(wait ? { typing: true } : {}), ...(wanted() ? { collection: wanted() } : {}) }, running.signal);
      answer = { hits: found.results.filter((hit) => hit.score >= 0.3), problem: null };
    } catch (error) {
      if (error.name === "AbortError") return;
      answer = { hits: answer?.hits ?? [], problem: { status: error.status, message: error.message, hint: error.hint } };
    }
    set({});
  }, wait);
}

export function mapView() {
  const key = wanted();
  if (shown.key !== key && shown.asked !== key) { shown = { ...EMPTY, asked: key }; view = WHOLE; load(); }
  const { map, problem } = shown, drawn = map?.points.length > 0;
  const lit = drawn && answer && question.trim() ? findLit(map, answer.hits) : null;
  return h("div.mapping", { key: "map" },
    h("header.head", null, h("h1", null, say("map")), drawn && h("p.small", null, map.passages > map.points.length ? say("mapSample", { n: map.passages, shown: map.points.length }) : say("mapAbout", { n: map.passages }))),
    h("div.map-tools", null, fieldView(), collectionView(), drawn && lit && h("p.small.lit", { role: "status" }, litLine(lit))),
    problem && problemView(problem, load),
    answer?.problem && problemView(answer.problem, () => ask(0)),
    !map && !problem && waitingView(),
    map && stateLine(map),
    drawn && h("div.atlas", null, stageView(map, lit), listView(map, lit)),
    map && gapsView(map));
}

function fieldView() {
  return h("form.ask", { role: "search", on: { submit: (event) => { event.preventDefault(); ask(0); } } },
    h("svg.glass", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("circle", { cx: 8.5, cy: 8.5, r: 5.5 }), h("path", { d: "m13 13 4.2 4.2" })),
    h("input", { id: "q", type: "search", value: question, maxlength: 2000, autocomplete: "off", spellcheck: "false", enterkeyhint: "search", dir: "auto", placeholder: say("mapSearchHint"), "aria-label": say("mapSearch"), on: { input: (event) => { question = event.target.value; ask(WAIT_MS); set({}); } } }));
}

function collectionView() {
  if (collections.length < 2 && !wanted()) return null;
  const choose = (event) => go(address("/map", { collection: event.target.value, q: question.trim() }));
  const known = collections.some(({ name }) => name === wanted()) || !wanted();
  return h("select.chip", { "aria-label": say("mapCollection"), value: wanted(), on: { change: choose } },
    h("option", { value: "" }, say("mapAllCollections")),
    !known && h("option", { value: wanted() }, clean(wanted(), 60)),
    collections.map((each) => h("option", { key: each.uid, value: each.name }, clean(each.title || each.name, 60))));
}

const litLine = ({ hits, missing }) => (hits + missing === 0 ? say("mapNoAnswer") : [say("mapLit", { n: hits }), missing && say("mapUnlit", { n: missing })].filter(Boolean).join("; "));

function stateLine(map) {
  const key = { making: "mapMaking", outdated: "mapRemaking", failed: "mapFailed" }[map.state];
  if (key) return h("p.note", { role: "status" }, say(key));
  return map.state === "too_few" && h("p.none", null, say("mapTooFew", { n: map.passages }));
}

/** What has no place on the map, and why. */
function gapsView(map) {
  const name = (code) => { try { return new Intl.DisplayNames([language], { type: "language" }).of(code); } catch { return code; } };
  return map.without_vectors.length > 0 && h("div.gaps.small", null, map.without_vectors.map(({ reason, chunks, language: code }) =>
    h("p", { key: `${reason}${code}` }, reason === "language" ? say("mapGapLanguage", { n: chunks, language: name(code) }) : say("mapGapPending", { n: chunks }))));
}

const nameOf = (map, at) => map.clusters[at].terms.map((term) => clean(term, 24)).join(" · ") || say("mapGroup", { n: at + 1 });

// -- the drawing ----------------------------------------------------------------------------------

function stageView(map, lit) {
  const names = map.clusters.map((_, at) => nameOf(map, at)), point = hover >= 0 ? map.points[hover] : null;
  requestAnimationFrame(() => canvas?.isConnected && draw(canvas, { map, view, lit: lit?.numbers ?? null, cluster, hover, names }));
  const palette = [...Array(LEGEND).keys()].map((at) => `dot-${at}`).concat("dot-rest", "ink", "surface", "mark-edge", "ink-3");
  return h("div.stage-map", null,
    h("div.canvas", { role: "application", tabindex: 0, "aria-label": say("mapOf", { clusters: listed(names.slice(0, 8)) }), "aria-describedby": "map-keys", class: view.zoom > 1 ? "near" : null, on: stageListeners(map) },
      h("canvas", { key: "canvas", "aria-hidden": "true", ref: watchCanvas }),
      h("div.palette", { "aria-hidden": "true" }, palette.map((name) => h("i", { key: name, class: name })))),
    h("p.hidden", { id: "map-keys" }, say("mapKeys")),
    h("div.zoom", null,
      zoomButton("+", say("mapZoomIn"), () => zoom(1.6)), zoomButton("−", say("mapZoomOut"), () => zoom(1 / 1.6)), view.zoom > 1 && zoomButton("○", say("mapWhole"), () => { view = WHOLE; set({}); })),
    point && tipView(map, point),
    legendView(map));
}

const zoomButton = (sign, label, click) => h("button.button", { key: label, type: "button", "aria-label": label, title: label, on: { click } }, sign);
const boxOf = () => ({ width: canvas?.clientWidth ?? 0, height: canvas?.clientHeight ?? 0 });

function zoom(factor, px, py) {
  view = zoomAt(view, boxOf(), factor, px, py);
  set({});
}

/** Draw again when the size or the colours change. */
function watchCanvas(node) {
  canvas = node;
  new ResizeObserver(() => set({})).observe(node);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.route.page === "map" && set({}));

function stageListeners(map) {
  return {
    pointermove: (event) => (event.buttons && dragging ? drag(event) : event.pointerType === "mouse" && point(map, event)),
    pointerdown: (event) => { dragging = { x: event.clientX, y: event.clientY, view, moved: false }; },
    pointerleave: (event) => { if (event.pointerType === "mouse" && !event.relatedTarget?.closest?.(".tip")) leave(); },
    click: (event) => {
      if (dragging?.moved) { dragging = null; return; }
      dragging = null;
      const found = point(map, event);
      // a finger sees the passage first, and opens it from there
      if (found >= 0 && event.pointerType !== "touch") go(passageAddress(map, map.points[found]));
    },
    dblclick: (event) => { const [x, y] = within(event); zoom(2, x, y); },
    wheel: (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); const [x, y] = within(event); zoom(Math.exp(-event.deltaY / 200), x, y); } },
    keydown: (event) => steer(map, event),
  };
}

let dragging = null;
const within = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
const leave = () => { if (hover >= 0) { hover = -1; set({}); } };

function drag(event) {
  const dx = event.clientX - dragging.x, dy = event.clientY - dragging.y;
  if (!dragging.moved && Math.hypot(dx, dy) < MIN_DRAG) return;
  dragging.moved = true;
  view = hold({ ...dragging.view, x: dragging.view.x + dx, y: dragging.view.y + dy }, boxOf());
  set({});
}

function point(map, event) {
  const [x, y] = within(event), found = nearest(map.points, projector(boxOf(), view), x, y);
  if (found !== hover) { hover = found; showText(map, found); set({}); }
  return found;
}

const passageAddress = (map, [document, chunk]) => address(`/d/${map.documents[document].uid}`, { at: chunk, q: question.trim() });

/** Load the text of the passage under the pointer, if the pointer rests. */
function showText(map, at) {
  clearTimeout(resting);
  if (at < 0) return;
  const [document, chunk] = map.points[at], { uid } = map.documents[document], key = `${uid}/${chunk}`;
  if (texts.has(key)) return;
  resting = setTimeout(async () => {
    try { texts.set(key, (await api.documentPart(uid, chunk, 1)).chunks[0] ?? null); } catch { return; }
    set({});
  }, TIP_MS);
}

function tipView(map, [document, chunk, x, y]) {
  const { uid, title: name } = map.documents[document], found = texts.get(`${uid}/${chunk}`), [left, top] = projector(boxOf(), view)(x, y), { width, height } = boxOf();
  const css = { left: `${Math.max(8, Math.min(width - 312, left - 150))}px`, ...(top > height / 2 ? { bottom: `calc(100% - ${top - 14}px)` } : { top: `${top + 14}px` }) };
  const section = found?.section?.at(-1), to = passageAddress(map, [document, chunk]);
  return h("div.tip", { key: "tip", css, on: { pointerleave: leave } },
    h("strong", null, title(name, 90)),
    section && h("span.small", null, title(section, 90)),
    found && h("p", { dir: "auto" }, snippet({ text: found.text }, 200)),
    h("a.out", { href: to, tabindex: -1, on: linkTo(to) }, say("mapOpen")));
}

/** Arrow keys go to the group that lies in this direction, Enter to the group in the list. */
function steer(map, event) {
  if (event.key === "Enter" && cluster !== null) { event.preventDefault(); return openGroup(map, cluster); }
  if (event.key === "Escape" && cluster !== null) { event.preventDefault(); cluster = null; return set({}); }
  if (!(event.key in DIRECTIONS) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const next = cluster === null ? 0 : nextCluster(map.clusters, cluster, DIRECTIONS[event.key]);
  if (next >= 0) { cluster = next; set({ said: `${nameOf(map, next)}, ${say("mapPassages", { n: map.clusters[next].count })}` }); }
}

function openGroup(map, at) {
  cluster = at;
  set({});
  requestAnimationFrame(() => document.querySelector(`[data-group="${at}"]`)?.focus());
}

// -- the list -------------------------------------------------------------------------------------

function legendView(map) {
  if (map.collections.length < 2) return null;
  const rest = map.collections.slice(LEGEND).reduce((sum, { count }) => sum + count, 0);
  const entry = (name, label, count) => h("li", { key: name }, h("i", { class: name, "aria-hidden": "true" }), label, h("span", null, ` ${number(count)}`));
  return h("ul.legend", { "aria-label": say("mapLegend") },
    map.collections.slice(0, LEGEND).map((each, at) => entry(colourOf(at), title(each.title || each.name, 40), each.count)),
    rest > 0 && entry("dot-rest", say("mapOthers"), rest));
}

function listView(map, lit) {
  return h("aside.groups-list", { "aria-label": say("mapGroups") },
    lit && answer.hits.length > 0 && h("section", { key: "answers" }, h("h2", null, say("mapAnswers")), h("ol", null, answer.hits.slice(0, 20).map(answerView))),
    h("section", { key: "groups" }, h("h2", null, say("mapGroups")),
      h("ol", { on: { keydown: walk } }, map.clusters.map(({ count }, at) => count > 0 && groupView(map, at)))));
}

function answerView(hit) {
  const to = address(`/d/${hit.document_uid}`, { at: hit.chunk_index, q: question.trim() });
  return h("li", { key: `${hit.document_uid}/${hit.chunk_index}` }, h("a.answer", { href: to, on: linkTo(to) }, h("span.name", null, title(hit.title, 90)), h("span.text", { dir: "auto" }, snippet(hit, 110))));
}

function groupView(map, at) {
  const open = cluster === at, { count } = map.clusters[at];
  return h("li", { key: at },
    h("button.group-name", { type: "button", "data-group": at, "aria-expanded": String(open), on: { click: () => { cluster = open ? null : at; set({}); } } },
      h("bdi", null, nameOf(map, at)), h("span.small", null, number(count), h("span.hidden", null, ` ${say("mapPassages", { n: count })}`))),
    open && documentsView(map, at));
}

function documentsView(map, at) {
  const all = listDocuments(map, at), rest = all.length - DOCUMENTS_PER_GROUP;
  return h("ul", null,
    all.slice(0, DOCUMENTS_PER_GROUP).map(({ document, chunk, count }) => {
      const to = passageAddress(map, [document, chunk]);
      return h("li", { key: document }, h("a", { href: to, on: linkTo(to) }, title(map.documents[document].title, 90), h("span.small", null, ` ${number(count)}`)));
    }),
    rest > 0 && h("li.small", { key: "rest" }, say("mapMoreDocuments", { n: rest })));
}

/** Arrow keys in the list go from group to group. */
function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...event.currentTarget.querySelectorAll("[data-group]")];
  if (!step || !all.includes(document.activeElement)) return;
  event.preventDefault();
  all[all.indexOf(document.activeElement) + step]?.focus();
}
