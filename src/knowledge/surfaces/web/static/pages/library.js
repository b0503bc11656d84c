/** The library: collections and tags on the left, documents as a table or as pictures, and changes to many at once. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { isDrawable } from "../reading.js";
import { problemView, waitingView } from "../parts/notice.js";
import { batchView, clearBatch } from "../parts/batch.js";
import { address, go, linkTo } from "../router.js";
import { clean, title } from "../snippet.js";
import { recall, remember, set, state } from "../store.js";
import { exactly, number, say, size, when } from "../words.js";

const PER_PAGE = 50, TYPING_MS = 200, RELOAD_MS = 500;
const FILTERS = ["collection", "tag", "type", "q"];
const COLUMNS = [["title", "columnTitle"], ["doc_type", "columnType"], ["size_bytes", "columnSize"], ["created_at", "addedAt"], ["chunk_count", "passageCount"]];
const EMPTY = { key: null, documents: [], total: 0, facets: {}, problem: null };
let shown = { ...EMPTY }, asked = null, turn = 0, collections = null, typed = null, typing = 0, reloading = 0;

/** What is chosen: single documents by UUID, or everything that the filter shows. */
export const chosen = { ids: new Map(), all: false };

const params = () => state.route.params;
const pageOf = () => Math.max(1, Number(params().page) || 1);
export const filterOf = () => Object.fromEntries(FILTERS.filter((name) => params()[name]).map((name) => [name, params()[name]]));
const keyOf = () => JSON.stringify([filterOf(), params().sort, params().order, pageOf()]);
export const listed = () => ({ ...shown, collections: collections ?? [] });

export function enter() {
  [shown, asked, typed] = [{ ...EMPTY }, null, null];
  forget();
  loadCollections();
}

/** Choose nothing. */
export function forget() {
  chosen.ids.clear();
  chosen.all = false;
  clearBatch();
}

async function loadCollections() {
  try { collections = await api.allCollections(); } catch { collections ??= []; }
  set({});
}

export async function load() {
  const key = keyOf(), mine = ++turn, { sort = "created_at", order } = params();
  asked = key;
  try {
    const found = await api.documents({ ...filterOf(), sort, order: order ?? defaultOrder(sort), page: pageOf(), per_page: PER_PAGE, facets: "doc_type,tag" });
    if (mine !== turn) return;
    shown = { key, documents: found.documents, total: found.total, facets: found.facets ?? {}, problem: null };
    const last = Math.max(1, Math.ceil(found.total / PER_PAGE));
    if (pageOf() > last) return go(to({ page: last > 1 ? last : null }), { replace: true });
  } catch (error) {
    if (mine !== turn) return;
    shown = { ...EMPTY, key, problem: { status: error.status, message: error.message, hint: error.hint } };
  }
  set({});
}

/** Take over an event of the server: load again, at most twice a second. */
export function take(kind) {
  if (kind !== "document" && kind !== "collection" && kind !== "reset") return;
  clearTimeout(reloading);
  reloading = setTimeout(refresh, RELOAD_MS);
}

export const refresh = () => Promise.all([load(), loadCollections()]);

const defaultOrder = (sort) => (sort === "title" || sort === "doc_type" ? "asc" : "desc");
const to = (changes) => address("/library", { ...params(), ...changes });

/** Narrow the list; another filter means another choice, from its first page. */
const narrow = (changes) => to({ ...changes, page: null });

export function libraryView() {
  const key = keyOf();
  if (shown.key !== key && asked !== key) load();
  const busy = shown.key !== key, look = recall("library", "table"), filtered = Object.keys(filterOf()).length > 0;
  return h("div.library", { key: "library" },
    sideView(),
    h("section.shelf", { "aria-label": say("libraryDocuments") },
      h("header.head", null, h("h1", null, headline()), h("span.small", { role: "status" }, shown.key && !shown.problem ? say("documents", { n: shown.total }) : "")),
      h("div.narrowing", null,
        h("input", { type: "search", value: typed ?? params().q ?? "", "aria-label": say("filterTitles"), placeholder: say("filterTitles"), dir: "auto", on: { input: typeFilter } }),
        typeField(),
        h("div.switch", { role: "group", "aria-label": say("look") }, ["table", "pictures"].map((each) => h("button", { key: each, type: "button", "aria-pressed": String(look === each), on: { click: () => { remember("library", each); set({}); } } }, say(`look.${each}`))))),
      narrowedBy(),
      batchView(),
      shown.problem ? problemView(shown.problem, load)
        : !shown.key ? waitingView()
        : shown.total === 0 && !busy ? noneView(filtered)
        : look === "table" ? tableView(busy) : picturesView(busy),
      turnView()));
}

const headline = () => {
  const named = (collections ?? []).find((each) => each.uid === params().collection);
  return named ? title(named.title || named.name, 80) : say("library");
};

function sideView() {
  const groups = { own: [], shared: [], public: [] };
  for (const each of collections ?? []) groups[each.access === "own" ? "own" : each.curation?.is_public && each.curation.is_approved ? "public" : "shared"].push(each);
  const tags = shown.facets.tag ?? [], current = params().collection;
  return h("nav.side", { "aria-label": say("collectionsAndTags") },
    h("h2", null, say("libraryCollections")),
    h("ul", null,
      h("li", { key: "" }, sideLink(narrow({ collection: null }), say("all"), null, !current)),
      ["own", "shared", "public"].map((group) => groups[group].length > 0 && [
        (group !== "own" || groups.shared.length + groups.public.length > 0) && h("li.group", { key: `group-${group}` }, say(`access.${group}`)),
        groups[group].map((each) => h("li", { key: each.uid }, sideLink(narrow({ collection: each.uid }), title(each.title || each.name, 60), each.document_count, current === each.uid)))])),
    tags.length > 0 && h("h2", { key: "tags" }, say("tags")),
    tags.length > 0 && h("ul", { key: "taglist" }, tags.map(({ value, count }) => h("li", { key: value }, sideLink(narrow({ tag: params().tag === value ? null : value }), title(value, 60), count, params().tag === value)))));
}

const sideLink = (href, label, count, here) => h("a", { href, "aria-current": here ? "true" : null, on: linkTo(href, forget) }, h("span.name", null, label), count !== null && h("span.count", null, number(count)));

function typeField() {
  const types = shown.facets.doc_type ?? [], current = params().type ?? "";
  if (types.length < 2 && !current) return null;
  const values = types.some(({ value }) => value === current) || !current ? types : [...types, { value: current, count: 0 }];
  return h("select.chip", { value: current, "aria-label": say("columnType"), on: { change: (event) => { forget(); go(narrow({ type: event.target.value || null })); } } },
    h("option", { value: "" }, say("allTypes")), values.map(({ value, count }) => h("option", { key: value, value }, `${value} (${number(count)})`)));
}

/** The filters in force, each with a click to take it away. */
function narrowedBy() {
  const given = Object.entries(filterOf()).filter(([name]) => name === "tag");
  return given.length > 0 && h("div.chips", null, given.map(([name, value]) => h("a.chip", { key: name, href: narrow({ [name]: null }), "aria-current": "true", "aria-label": say("withoutFilter", { name: clean(value, 60) }), on: linkTo(narrow({ [name]: null }), forget) }, h("bdi", null, clean(value, 60)), h("span", { "aria-hidden": "true" }, "×"))));
}

function typeFilter(event) {
  typed = event.target.value;
  clearTimeout(typing);
  typing = setTimeout(() => { const q = typed.trim(); typed = null; forget(); go(narrow({ q: q || null }), { replace: true }); }, TYPING_MS);
  set({});
}

const noneView = (filtered) => h("div.none", null, h("p", null, filtered ? say("noneMatch") : say("empty")),
  filtered ? h("a.button", { href: "/library", on: linkTo("/library", () => { typed = null; forget(); }) }, say("clearFilter")) : h("a.primary", { href: "/add", on: linkTo("/add") }, say("addDocuments")));

const mayChange = (document) => document.access !== "read";
const isChosen = (document) => chosen.all || chosen.ids.has(document.uid);

function choose(document, wanted) {
  if (wanted) chosen.ids.set(document.uid, document);
  else chosen.ids.delete(document.uid);
  chosen.all = false;
  clearBatch();
  set({});
}

function choosePage(wanted) {
  chosen.all = false;
  for (const document of shown.documents.filter(mayChange)) if (wanted) chosen.ids.set(document.uid, document); else chosen.ids.delete(document.uid);
  clearBatch();
  set({});
}

const checkbox = (document) => h("input", { type: "checkbox", checked: isChosen(document), disabled: !mayChange(document) || chosen.all, "aria-label": say("choose", { title: clean(document.title, 80) }), on: { change: (event) => choose(document, event.target.checked) } });

function tableView(busy) {
  const { sort = "created_at", order = defaultOrder(sort) } = params();
  const able = shown.documents.filter(mayChange), all = able.length > 0 && able.every(isChosen);
  return h("div.scroller", { key: "table" }, h("table.documents", { "aria-busy": String(busy) },
    h("thead", null, h("tr", null,
      h("th.check", { scope: "col" }, h("input", { type: "checkbox", checked: all, indeterminate: !all && able.some(isChosen), disabled: !able.length || chosen.all, "aria-label": say("choosePage"), on: { change: (event) => choosePage(event.target.checked) } })),
      COLUMNS.map(([name, label]) => h("th", { key: name, scope: "col", class: name, "aria-sort": sort === name ? (order === "asc" ? "ascending" : "descending") : null },
        headLink(name, label, sort, order))))),
    h("tbody", null, shown.documents.map((document) => h("tr", { key: document.uid, class: isChosen(document) ? "chosen" : null, "data-document": document.uid },
      h("td.check", null, checkbox(document)),
      h("th.title", { scope: "row" }, documentLink(document), document.tags.length > 1 && h("span.tags", null, document.tags.filter((tag) => !tag.startsWith("collection:")).slice(0, 4).map((tag) => h("bdi", { key: tag }, clean(tag, 30))))),
      h("td.doc_type", null, document.doc_type),
      h("td.size_bytes", null, size(document.size_bytes)),
      h("td.created_at", { title: exactly(document.created_at) }, when(document.created_at)),
      h("td.chunk_count", null, document.status === "processing" ? say("reading") : number(document.chunk_count)))))));
}

function headLink(name, label, sort, order) {
  const href = to({ sort: name, order: sort === name ? (order === "asc" ? "desc" : "asc") : null, page: null });
  return h("a", { href, on: linkTo(href) }, say(label), sort === name && h("span", { "aria-hidden": "true" }, order === "asc" ? " ↑" : " ↓"));
}

function documentLink(document) {
  const href = `/d/${document.uid}`;
  return h("a", { href, title: clean(document.title, 300), on: linkTo(href) }, title(document.title, 200));
}

const picturesView = (busy) => h("ul.pictures", { key: "pictures", "aria-busy": String(busy) }, shown.documents.map((document) => h("li", { key: document.uid, class: isChosen(document) ? "chosen" : null, "data-document": document.uid },
  h("a.picture", { href: `/d/${document.uid}`, tabindex: -1, "aria-hidden": "true", on: linkTo(`/d/${document.uid}`) },
    h("span.glyph", null, document.doc_type),
    isDrawable(document) && h("img", { src: api.thumbnail(document.uid), alt: "", loading: "lazy", on: { error: (event) => event.target.remove() } })),
  h("div.under", null, checkbox(document), documentLink(document)))));

function turnView() {
  const pages = Math.ceil(shown.total / PER_PAGE), page = pageOf();
  const link = (wanted, label) => (wanted >= 1 && wanted <= pages
    ? h("a.quiet", { key: label, href: to({ page: wanted > 1 ? wanted : null }), on: linkTo(to({ page: wanted > 1 ? wanted : null }), () => scrollTo(0, 0)) }, label)
    : h("span.quiet", { key: label, "aria-hidden": "true" }, ""));
  return pages > 1 && h("nav.turn", { "aria-label": say("pagesOf") }, link(page - 1, say("previous")), h("span", null, say("pageOf", { page: number(page), pages: number(pages) })), link(page + 1, say("next")));
}
