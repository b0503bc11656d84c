/** Searching as one types: one question at a time, the older one aborted, and the address kept in step. */
import * as api from "./api.js";
import { address, rewrite } from "./router.js";
import { set, state } from "./store.js";

export const CLEAR = 0.5;
export const FAINT = 0.3;
const PAGE_SIZE = 20;
const WAIT_MS = 60;
const SLOW_MS = 300;
const FACETS = ["doc_type", "collection", "tag"];
export const FILTERS = ["type", "collection", "tag", "from", "in"];

let turn = 0;
let running = null;
let waiting = 0;
let slow = 0;
let again = 0;

/** Take over what was typed and ask when the fingers rest. */
export function type(question) {
  const first = !state.question.trim() && question.trim();
  set({ question, chosen: -1, explained: new Set() });
  rewrite(searchAddress(), { push: Boolean(first) });
  ask({ typing: true, wait: WAIT_MS });
}

/** The address of the question, the filters and the open document. */
export function searchAddress(changes = {}) {
  const reader = state.reader && state.route.page === "search" ? { d: state.reader.uid, at: state.reader.at } : {};
  return address("/", { q: state.question.trim() || null, ...state.filters, ...reader, ...changes });
}

/** Choose or drop one filter, and ask again. */
export function narrow(name, value) {
  const filters = { ...state.filters };
  if (value === null || filters[name] === value) delete filters[name];
  else filters[name] = value;
  set({ filters, chosen: -1 });
  rewrite(searchAddress(), { push: true });
  ask();
}

function body({ typing, offset = 0, question = state.question, filters = state.filters, top = PAGE_SIZE }) {
  const asked = { query: question.trim(), top, offset, explain: true, highlight: true, facets: FACETS };
  if (typing) asked.typing = true;
  if (filters.type) asked.doc_type = filters.type;
  if (filters.collection) asked.collection = filters.collection;
  if (filters.tag) asked.tags = [filters.tag];
  if (filters.in) asked.document_id = filters.in;
  const days = { week: 7, month: 31, year: 366 }[filters.from];
  if (days) asked.date_from = new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
  return asked;
}

/** Ask the question as it stands; the answer before stays until the next one is there. */
export async function ask({ typing = false, wait = 0 } = {}) {
  const mine = ++turn;
  clearTimeout(waiting);
  clearTimeout(again);
  if (!state.question.trim()) {
    running?.abort();
    clearTimeout(slow);
    set({ answer: null, asking: false, slow: false, searchProblem: null });
    return;
  }
  if (typing && state.searchProblem?.until > Date.now()) return countDown(typing);
  await new Promise((resolve) => { waiting = setTimeout(resolve, wait); });
  if (mine !== turn) return;
  running?.abort();
  running = new AbortController();
  clearTimeout(slow);
  slow = setTimeout(() => { if (mine === turn) set({ slow: true }); }, SLOW_MS);
  set({ asking: true });
  const begin = performance.now(), question = state.question.trim();
  try {
    const answer = await api.search(body({ typing }), running.signal);
    if (mine !== turn) return;
    set({ answer: { ...answer, question, typing, took: performance.now() - begin, more: answer.results.length === PAGE_SIZE }, searchProblem: null, explained: new Set() });
  } catch (error) {
    if (error.name === "AbortError" || mine !== turn) return;
    set({ searchProblem: { ...describe(error), until: error.retryAfter ? Date.now() + 1000 * error.retryAfter : null } });
    if (error.retryAfter) countDown(typing);
  } finally {
    if (mine === turn) {
      clearTimeout(slow);
      set({ asking: false, slow: false });
    }
  }
}

const describe = (error) => ({ status: error.status, message: error.message, hint: error.hint });

/** After too many searches: count the seconds on the page and ask again by itself. */
function countDown(typing) {
  clearTimeout(again);
  again = setTimeout(() => {
    if (!state.searchProblem?.until) return;
    if (Date.now() >= state.searchProblem.until) ask({ typing });
    else { set({}); countDown(typing); }
  }, 500);
}

/** Add the next passages to the list. */
export async function more() {
  const before = state.answer;
  if (!before || before.loading) return;
  set({ answer: { ...before, loading: true } });
  try {
    const next = await api.search(body({ typing: before.typing, offset: before.results.length, question: before.question }));
    if (state.answer?.question !== before.question) return;
    set({ answer: { ...before, loading: false, results: [...before.results, ...next.results], more: next.results.length === PAGE_SIZE } });
  } catch (error) {
    set({ answer: { ...before, loading: false }, searchProblem: describe(error) });
  }
}

/** The passages of one document that answer a question, in the order of the document. */
export async function hitsWithin(uid, question) {
  if (!question?.trim()) return [];
  const found = await api.search({ query: question.trim(), top: 50, document_id: uid, highlight: true });
  const best = Math.max(0, ...found.results.map((hit) => hit.score));
  const kept = found.results.filter((hit) => hit.score >= Math.min(FAINT, best));
  return kept.sort((one, other) => one.chunk_index - other.chunk_index);
}

/** Sort an answer into what is shown first and what is folded away, each grouped by document. */
export function arrange(answer) {
  const hits = answer.results, best = hits[0]?.score ?? 0;
  const clear = best >= CLEAR;
  const shown = clear ? hits.filter((hit) => hit.score >= FAINT) : hits.slice(0, 5);
  const rest = clear ? hits.filter((hit) => hit.score < FAINT) : hits.slice(5);
  return { clear, shown, near: group(shown), far: group(rest), rest: rest.length, documents: new Set(shown.map((hit) => hit.document_uid)).size };
}

function group(hits) {
  const groups = new Map();
  for (const hit of hits) {
    if (!groups.has(hit.document_uid)) groups.set(hit.document_uid, []);
    groups.get(hit.document_uid).push(hit);
  }
  return [...groups.values()];
}

/** The order in which the arrow keys go through the passages. */
export function inOrder() {
  if (!state.answer) return [];
  const { near, far } = arrange(state.answer);
  return [...near, ...far].flat();
}
