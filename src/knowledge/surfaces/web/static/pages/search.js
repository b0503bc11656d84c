/** The home page: one field, passages as one types, and the document beside them. */
import { arrange, inOrder, more, narrow, type, ask } from "../asking.js";
import { h } from "../dom.js";
import { groupView, hitKey } from "../parts/hit.js";
import { problemView, waitingView } from "../parts/notice.js";
import { openDocument } from "../reading.js";
import { linkTo } from "../router.js";
import { state } from "../store.js";
import { clean, title } from "../snippet.js";
import { listed, number, say, when } from "../words.js";

export function searchView() {
  const idle = !state.question.trim() && !state.reader;
  return h("div", { key: "search", class: idle ? "searching idle" : "searching" },
    idle ? h("h1", { key: "h1" }, say("ask")) : h("h1.hidden", { key: "h1" }, say("search")),
    fieldView(idle),
    idle ? homeView() : answerView());
}

function fieldView(idle) {
  return h("form.ask", { key: "ask", role: "search", on: { submit } },
    h("svg.glass", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("circle", { cx: 8.5, cy: 8.5, r: 5.5 }), h("path", { d: "m13 13 4.2 4.2" })),
    h("input", {
      id: "q", type: "search", name: "q", value: state.question, maxlength: 2000, autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search", dir: "auto",
      placeholder: say("askHint"), "aria-label": say("ask"), "aria-describedby": "found",
      on: { input: (event) => type(event.target.value) },
    }),
    h("kbd", { "aria-hidden": "true" }, "/"),
    !idle && state.question && h("button.clear", { type: "button", "aria-label": say("clear"), on: { click: () => { type(""); document.getElementById("q")?.focus(); } } },
      h("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("path", { d: "m6 6 8 8M14 6l-8 8" }))));
}

/** Enter: ask once more with the last word complete, and go to the first passage. */
function submit(event) {
  event.preventDefault();
  if (state.answer?.typing || state.answer?.question !== state.question.trim()) ask();
  choose(0);
}

/** Put the focus on a passage by its place in the list. */
export function choose(place) {
  const hits = inOrder();
  if (!hits.length) return;
  const hit = hits[Math.min(Math.max(place, 0), hits.length - 1)];
  const link = document.querySelector(`[data-hit="${hitKey(hit)}"]`);
  if (!link) return;
  link.closest("details")?.setAttribute("open", "");
  link.focus({ preventScroll: true });
  link.scrollIntoView({ block: "nearest" });
}

function homeView() {
  const { status, recent } = state;
  if (status?.documents === 0) return emptyView();
  return h("div", { key: "home" },
    h("p.stats", { id: "found" }, status ? say("holds", { n: status.chunks, documents: say("documents", { n: status.documents }) }) : "\u00a0"),
    recent?.length > 0 && h("section.recent", null,
      h("h2", null, say("recent")),
      h("ul", null, recent.map((document) => h("li", { key: document.uid },
        h("a", { href: `/d/${document.uid}`, on: { click: (event) => openInPlace(event, document) } },
          h("span.name", null, title(document.title)),
          h("span.facts", null, documentFacts(document), " · ", when(document.created_at))))))));
}

function openInPlace(event, document) {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  openDocument(document);
}

const documentFacts = (document) => (document.page_count > 1 ? `${document.doc_type}, ${say("pages", { n: document.page_count })}` : document.doc_type);

function emptyView() {
  const agent = `claude mcp add --transport http knowledge ${location.origin}/mcp`;
  return h("div.empty", { key: "empty" },
    h("p.lead", { id: "found" }, say("empty")),
    h("p", null, h("a.primary", { href: "/add", on: linkTo("/add") }, say("addDocuments"))),
    h("p", null, say("dropHint")),
    h("div.agent", null, h("p", null, say("agentHint")), h("pre", { tabindex: 0 }, h("code", null, agent))));
}

function answerView() {
  const { answer, asking, slow, searchProblem } = state, asked = state.question.trim();
  const list = answer && asked ? arrange(answer) : null;
  return h("div", { key: "answer" },
    h("div.found", null,
      h("p.took", { id: "found" }, list ? foundLine(answer, list) : "\u00a0"),
      list && chipsView(answer, list)),
    problemLine(searchProblem),
    !asked && h("p.note", null, say("typeToSearch")),
    list && notesView(answer, list),
    list && h("div", { class: asking && slow ? "groups old" : "groups" }, list.near.map(groupView)),
    list && restView(list, answer),
    !answer && asked && slow && waitingView());
}

/** What was found; the same words go to screen readers when the typing rests. */
export function foundLine(answer, list) {
  if (!answer.results.length) return say("nothing");
  const found = list.clear ? say("found", { n: list.shown.length, documents: say("documents", { n: list.documents }) }) : say("nearest", { n: list.shown.length });
  return answer.took === undefined ? found : `${found} · ${say("took", { ms: number(Math.round(answer.took)) })}`;
}

function problemLine(problem) {
  if (!problem || (problem.status === 0 && state.gone)) return null;
  if (problem.until) return h("p.note.wait", { role: "status" }, say("tooMany", { seconds: Math.max(1, Math.ceil((problem.until - Date.now()) / 1000)) }));
  return problemView(problem, () => ask());
}

function notesView(answer, list) {
  const lines = [], misspelt = Object.entries(answer.misspelt ?? {}), unknown = (answer.unknown_words ?? []).map((word) => `“${clean(word, 60)}”`);
  for (const [word, near] of misspelt) lines.push(h("p", null, say("instead", { word: clean(word, 60) }), " ", h("strong", null, near.slice(0, 3).join(", ")), "."));
  if (unknown.length) lines.push(h("p", null, say("nowhere", { n: unknown.length, words: listed(unknown) })));
  for (const sentence of answer.notes ?? []) lines.push(h("p", null, sentence));
  if (answer.results.length && !list.clear) lines.push(h("p", null, say("notClear")));
  if (!answer.results.length) lines.push(h("p", null, Object.keys(state.filters).length ? say("noneWithFilters") : say("noneAtAll")));
  return lines.length > 0 && h("div.note", { key: "notes" }, lines);
}

function restView(list, answer) {
  const hasMore = answer.more && h("button.more", { type: "button", disabled: answer.loading, on: { click: more } }, say("more"));
  if (!list.rest) return h("div.rest", null, hasMore);
  return h("details.far", { key: "far" },
    h("summary", null, say(list.clear ? "lessRelated" : "moreNear", { n: list.rest })),
    h("div.groups", null, list.far.map(groupView)),
    hasMore);
}

const CHIP_FACETS = [["type", "doc_type"], ["collection", "collection"], ["tag", "tag"]];

function chipsView(answer, list) {
  const chips = [];
  if (state.filters.in) chips.push(chip("in", state.filters.in, say("inDocument"), null));
  for (const [name, facet] of CHIP_FACETS) {
    const values = (answer.facets?.[facet] ?? []).filter(({ value }) => !(facet === "tag" && value.startsWith("collection:")));
    const chosen = state.filters[name];
    if (chosen && !values.some(({ value }) => value === chosen)) values.unshift({ value: chosen, count: null });
    if (!chosen && (values.length < 2 || !list.clear)) continue;
    for (const { value, title: long, count } of values.slice(0, 8)) chips.push(chip(name, value, clean(long ?? value, 40), count));
  }
  const times = ["week", "month", "year"].map((time) => h("option", { key: time, value: time }, say(`past.${time}`)));
  return h("div.chips", { role: "group", "aria-label": say("narrow") }, chips,
    h("select.chip.time", { "aria-label": say("time"), value: state.filters.from ?? "", on: { change: (event) => narrow("from", event.target.value || null) } },
      h("option", { value: "" }, say("anyTime")), times));
}

const chip = (name, value, label, count) => h("button.chip", { key: `${name}:${value}`, type: "button", "aria-pressed": String(state.filters[name] === value), on: { click: () => narrow(name, value) } },
  h("bdi", null, label), count !== null && count !== undefined && h("span", null, ` ${number(count)}`));
