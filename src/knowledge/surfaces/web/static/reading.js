/** The open document: which passage, its pages, its text, and the other passages of it that answer the question. */
import * as api from "./api.js";
import { hitsWithin } from "./asking.js";
import { address, go } from "./router.js";
import { set, state } from "./store.js";
import { clean, highlightedWords } from "./snippet.js";
import { say } from "./words.js";

const AROUND = 8;
const MORE_CHUNKS = 20;
const PAGE_BLOCK = 200;
const AHEAD_MS = 100;
const DRAWABLE = new Set(["pdf", "png", "jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp"]);

let turn = 0;
let ahead = 0;

export const isDrawable = (document) => DRAWABLE.has(document.doc_type);

/** The address of a passage: beside the results, or the document alone. */
export function passageAddress(hit, whole = false) {
  if (state.route.page === "document") return address(`/d/${hit.document_uid}`, { at: hit.chunk_index, q: state.question.trim() || null });
  const at = whole ? null : hit.chunk_index;
  return address("/", { q: state.question.trim() || null, ...state.filters, d: hit.document_uid, at: at ?? hit.chunk_index });
}

/** The address that is copied and sent to others. */
export function shareAddress() {
  const { uid, at } = state.reader;
  return location.origin + address(`/d/${uid}`, { at });
}

export function openHit(hit) {
  const replace = Boolean(state.reader);
  go(passageAddress(hit), { replace, state: replace ? history.state : { opened: true } });
  focusReader();
}

export function openDocument(document) {
  go(address("/", { q: state.question.trim() || null, ...state.filters, d: document.uid }), { state: { opened: true } });
  focusReader();
}

const FOCUS_MILLISECONDS = 10_000;

/** Move the focus into the document, as soon as its module is loaded and drawn. */
export function focusReader() {
  const until = performance.now() + FOCUS_MILLISECONDS;
  const attempt = () => {
    const body = document.querySelector(".reader .body");
    if (body) body.focus({ preventScroll: true });
    else if (state.reader && performance.now() < until) requestAnimationFrame(attempt);
  };
  requestAnimationFrame(attempt);
}

/** Close the document and put the focus back on the passage it was opened from. */
export function close() {
  const { uid, at } = state.reader;
  const back = () => requestAnimationFrame(() => (document.querySelector(`[data-hit="${uid}-${at}"]`) ?? document.getElementById("q"))?.focus());
  if (history.state?.opened) {
    addEventListener("popstate", back, { once: true });
    history.back();
  } else {
    go(address("/", { q: state.question.trim() || null, ...state.filters }), { replace: state.route.page === "search" });
    back();
  }
}

/** Show what the address names; the same document keeps what is loaded. */
export function arrive(uid, at, question, view) {
  const before = state.reader;
  if (!uid) return before ? set({ reader: null }) : undefined;
  const same = before?.uid === uid;
  if (same && before.at === at && before.question === question) return set({ reader: { ...before, view } });
  const hit = state.answer?.results.find((each) => each.document_uid === uid && each.chunk_index === at) ?? before?.hits?.find((each) => same && each.chunk_index === at);
  const [from, to] = hit?.chunk_indexes ?? [at, at];
  const empty = { document: null, chunks: [], pages: null, outline: [], hits: [], words: new Map(), places: [], problem: null, placesNote: null, page: null, zoom: false };
  set({ reader: { ...(same ? before : empty), uid, at, from, to, question, view, places: [], placesNote: null, marked: highlightedWords(hit) } });
  load(uid, at, { same, question, sameQuestion: same && before.question === question });
}

async function load(uid, at, { same, question, sameQuestion }) {
  const mine = ++turn, change = (changes) => { if (mine === turn && state.reader?.uid === uid) set({ reader: { ...state.reader, ...changes } }); };
  const begin = Math.max(0, (at ?? 0) - AROUND), loaded = same && state.reader.document && covers(state.reader.chunks, at ?? 0);
  const searching = sameQuestion ? null : hitsWithin(uid, question).catch(() => []);
  try {
    if (!loaded) {
      const found = await api.documentPart(uid, begin, 2 * AROUND + 1);
      change({ document: found, chunks: found.chunks });
    }
    if (mine !== turn) return;
    const { document, chunks } = state.reader;
    set({});
    const drawable = isDrawable(document);
    const page = chunks.find((chunk) => chunk.index === at)?.page ?? 1;
    const placing = drawable && at !== null ? loadPlaces(uid, change) : null;
    if (drawable && !holdsPage(state.reader.pages, page)) change({ pages: await loadPages(uid, page, document.page_count) });
    await placing;
    if (mine === turn) { change({ page: at !== null || !same ? page : state.reader.page }); show(); }
    if (searching) {
      const hits = await searching;
      change({ hits });
      await widen(hits, at, drawable ? uid : null, change);
    }
    if (!same) change({ outline: (await api.outline(uid).catch(() => ({ outline: [] }))).outline });
  } catch (error) {
    change({ problem: { status: error.status ?? 0, message: error.message, hint: error.hint } });
  }
}

/** After a reload the answer tells which neighbours belong to the passage, and which words are marked. */
async function widen(hits, at, drawableUid, change) {
  const hit = hits.find((each) => at !== null && each.chunk_indexes[0] <= at && at <= each.chunk_indexes[1]);
  const marked = new Set(state.reader?.marked);
  for (const each of hits) highlightedWords(each, marked);
  const [from, to] = hit?.chunk_indexes ?? [at, at], wider = state.reader && (from !== state.reader.from || to !== state.reader.to);
  change({ marked, ...(wider && { from, to }) });
  if (wider && drawableUid) { await loadPlaces(drawableUid, change); show(); }
}

const covers = (chunks, at) => chunks.length > 0 && chunks[0].index <= at && at <= chunks.at(-1).index;
const holdsPage = (pages, page) => pages?.sizes.some((each) => each.page === page);

async function loadPages(uid, page, count) {
  const from = Math.max(1, page - PAGE_BLOCK / 2), to = Math.min(count ?? page + PAGE_BLOCK, from + PAGE_BLOCK - 1);
  try {
    const found = await api.pages(uid, from, to);
    return { count: found.page_count, sizes: found.pages };
  } catch (error) {
    if (error.status === 404 || error.status >= 500) return { count: 0, sizes: [] };
    throw error;
  }
}

/** Load the pages before or after those that are there. */
export async function morePages(side) {
  const { uid, pages } = state.reader, first = pages.sizes[0].page, last = pages.sizes.at(-1).page;
  const from = side < 0 ? Math.max(1, first - PAGE_BLOCK) : last + 1, to = side < 0 ? first - 1 : Math.min(pages.count, last + PAGE_BLOCK);
  const found = await api.pages(uid, from, to);
  const sizes = side < 0 ? [...found.pages, ...pages.sizes] : [...pages.sizes, ...found.pages];
  if (state.reader?.uid === uid) set({ reader: { ...state.reader, pages: { ...pages, sizes } } });
}

async function loadPlaces(uid, change) {
  const { from, to } = state.reader;
  try {
    const found = await api.places(uid, Math.max(0, from), Math.max(0, to));
    change({ places: found.places, placesNote: found.note });
  } catch {
    change({ places: [], placesNote: "no_pages" });
  }
}

/** Load 20 passages above or below those that are there. */
export async function moreText(side) {
  const { uid, chunks } = state.reader, first = chunks[0].index, last = chunks.at(-1).index;
  const from = side < 0 ? Math.max(0, first - MORE_CHUNKS) : last + 1;
  const found = await api.documentPart(uid, from, side < 0 ? first - from : MORE_CHUNKS);
  const body = document.querySelector(".reader .body"), below = body ? body.scrollHeight - body.scrollTop : 0;
  if (state.reader?.uid !== uid) return;
  set({ reader: { ...state.reader, chunks: side < 0 ? [...found.chunks, ...chunks] : [...chunks, ...found.chunks] } });
  if (side < 0) requestAnimationFrame(() => { if (body) body.scrollTop = body.scrollHeight - below; });
}

/** Scroll the document, not the page, to the passage. */
export function show() {
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const spot = document.querySelector(".reader [data-spot]"), body = document.querySelector(".reader .body");
    if (!spot || !body) return;
    const top = body.scrollTop + spot.getBoundingClientRect().top - body.getBoundingClientRect().top - body.clientHeight / 4;
    body.scrollTo({ top: Math.max(0, top), behavior: "instant" });
  }));
}

/** Page or text; the address remembers the choice. */
export function setView(view) {
  const { uid, at } = state.reader, shown = view === "text" ? "text" : null, q = state.question.trim() || null;
  const to = state.route.page === "document" ? address(`/d/${uid}`, { at, q, view: shown }) : address("/", { q, ...state.filters, d: uid, at, view: shown });
  go(to, { replace: true, state: history.state });
  show();
}

export const currentView = (reader) => (!reader.document || !isDrawable(reader.document) || reader.pages?.count === 0 || reader.view === "text" ? "text" : "page");

/** Go to the next or the previous passage of this document that answers the question. */
export function step(side) {
  const { hits, at } = state.reader ?? {};
  if (!hits?.length) return;
  const place = hits.findIndex((hit) => hit.chunk_indexes[0] <= at && at <= hit.chunk_indexes[1]);
  const next = place < 0 ? (side > 0 ? 0 : hits.length - 1) : (place + side + hits.length) % hits.length;
  moveTo(hits[next].chunk_index);
}

/** Go to another passage of the open document. */
export function moveTo(at) {
  const { uid, view } = state.reader, q = state.question.trim() || null;
  const to = state.route.page === "document" ? address(`/d/${uid}`, { at, q, view }) : address("/", { q, ...state.filters, d: uid, at, view });
  go(to, { replace: true, state: history.state });
}

/** Remember the page in view and load its words, so that its text can be selected. */
export async function seePage(page) {
  const { uid, page: before, words } = state.reader;
  if (before !== page) set({ reader: { ...state.reader, page } });
  if (words.has(page)) return;
  words.set(page, null);
  try {
    const found = await api.words(uid, page);
    words.set(page, found);
    if (state.reader?.uid === uid) set({});
  } catch {
    words.delete(page);
  }
}

/** Fetch the picture of a page when the pointer rests on its passage. */
export function prepare(hit) {
  clearTimeout(ahead);
  if (!isDrawable(hit) || !hit.chunk_metadata.page) return;
  ahead = setTimeout(() => { new Image().src = pictureOf(hit.document_uid, hit.chunk_metadata.page); }, AHEAD_MS);
}

export const pictureOf = (uid, page) => api.pageImage(uid, page, devicePixelRatio > 1.2 ? 1600 : 900);

/** Copy a quotation with its title, page and address. */
export function cite() {
  const { document, chunks, at } = state.reader, chunk = chunks.find((each) => each.index === at);
  const words = (chunk?.text ?? "").replace(/^#+ .*$/gm, "").replace(/[*`]/g, "").replace(/\s+/g, " ").trim();
  const quote = words.length > 400 ? `${words.slice(0, 400).replace(/\s+\S*$/, "")} …` : words;
  const where = chunk?.page ? `${clean(document.title)}, ${say("page", { page: chunk.page })}` : clean(document.title);
  copy(quote ? `“${quote}”\n${where}\n${shareAddress()}` : `${where}\n${shareAddress()}`, "cite");
}

export const copyLink = () => copy(shareAddress(), "link");

let copied = 0;
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  clearTimeout(copied);
  set({ copied: what, said: say("copied") });
  copied = setTimeout(() => set({ copied: null }), 2000);
}
