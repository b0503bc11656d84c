/** One passage in the list of results, with its score and why it was found. */
import { rate } from "../api.js";
import { h } from "../dom.js";
import { inOrder } from "../asking.js";
import { openHit, passageAddress, prepare } from "../reading.js";
import { set, state } from "../store.js";
import { clean, snippet, title } from "../snippet.js";
import { number, say, score } from "../words.js";

/** All passages of one document. */
export function groupView(hits) {
  const [first] = hits;
  return h("section.group", { key: first.document_uid, "aria-label": clean(first.title, 120) },
    h("h2", null, h("a.title", { href: passageAddress(first, true), on: opens(first) }, title(first.title)), h("span.kind", null, first.doc_type)),
    h("ol", null, hits.map(hitView)));
}

export const hitKey = (hit) => `${hit.document_uid}-${hit.chunk_index}`;

function opens(hit) {
  return {
    click(event) {
      if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      openHit(hit);
    },
    pointerenter: () => prepare(hit),
  };
}

function hitView(hit) {
  const key = hitKey(hit), open = state.reader?.uid === hit.document_uid && state.reader.at === hit.chunk_index;
  const explained = state.explained.has(key), { page, section } = hit.chunk_metadata;
  return h("li", { key, class: open ? "hit here" : "hit" },
    h("a.go", {
      href: passageAddress(hit), "data-hit": key, "aria-current": open ? "true" : null,
      on: { ...opens(hit), focus: () => set({ chosen: inOrder().findIndex((other) => hitKey(other) === key) }) },
    },
      h("span.where", null,
        section.length > 0 && h("span.section", null, title(section.at(-1), 120)),
        page && h("span", null, say("page", { page })),
        hit.lines && h("span", null, say("lines", { lines: hit.lines.join("–") }))),
      h("span.text", { dir: "auto", lang: hit.language }, snippet(hit))),
    h("button.score", { type: "button", "aria-expanded": String(explained), "aria-label": say("scoreOf", { score: score(hit.score) }), title: say("why"), on: { click: () => explain(key) } },
      meter(hit.score), score(hit.score)),
    explained && whyView(hit));
}

/** Show or hide why a passage was found. */
export function explain(key) {
  const explained = new Set(state.explained);
  if (!explained.delete(key)) explained.add(key);
  set({ explained });
}

const meter = (value) => h("svg", { viewBox: "0 0 28 3", "aria-hidden": "true" },
  h("rect.bg", { width: 28, height: 3, rx: 1.5 }), h("rect.fg", { width: Math.max(1, 28 * value).toFixed(1), height: 3, rx: 1.5 }));

/** The share of words and of meaning in the relevance of a passage; together they are as long as its score. */
export function shares(hit, weight = state.answer?.explanation?.words_weight ?? 0.5) {
  const facts = hit.explanation ?? {};
  const words = facts.words ?? 0, meaning = Math.max(0, facts.cosine ?? 0);
  const fused = facts.score ?? 0, byWords = hit.matched_by === "words" || !meaning ? 1 : hit.matched_by === "meaning" || !words ? 0 : Math.min(1, (weight * words) / (fused || 1));
  return { words: hit.score * byWords, meaning: hit.score * (1 - byWords) };
}

function whyView(hit) {
  const facts = hit.explanation ?? {}, part = shares(hit);
  const moved = facts.weight !== undefined && facts.relevance !== undefined && facts.weight < facts.relevance - 0.005;
  const fact = (name, kind, value, note) => h("div", null, h("dt", null, h(`i.${kind}`, null), name), h("dd", null, value, note && h("span", null, ` ${note}`)));
  return h("div.why", null,
    h("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": say("whyBar", { words: score(part.words), meaning: score(part.meaning) }) },
      h("rect.bg", { width: 100, height: 6 }),
      h("rect.words", { width: (100 * part.words).toFixed(2), height: 6 }),
      h("rect.meaning", { x: (100 * part.words).toFixed(2), width: (100 * part.meaning).toFixed(2), height: 6 })),
    h("dl", null,
      fact(say("byWords"), "words", score(part.words), facts.words_rank > 0 ? say("rank", { rank: number(facts.words_rank) }) : say("noneOf")),
      fact(say("byMeaning"), "meaning", score(part.meaning), facts.meaning_rank > 0 ? say("rank", { rank: number(facts.meaning_rank) }) : say("noVector")),
      fact(say("relevance"), "sum", score(hit.score), relevanceWord(hit.score))),
    moved && h("p", null, say("movedDown")),
    markView(hit));
}

/** Right or wrong: marks that `knowledge eval --feedback` measures with. */
function markView(hit) {
  const question = state.answer?.question ?? state.question.trim(), key = `${question} ${hit.chunk_uid}`, marked = state.marked.get(key);
  const mark = async (good) => {
    try {
      await rate(question, hit.chunk_uid, good);
      set({ marked: new Map(state.marked).set(key, good) });
    } catch (error) { set({ searchProblem: { status: error.status, message: error.message, hint: error.hint } }); }
  };
  const button = (label, good) => h("button.quiet", { type: "button", "aria-pressed": String(marked === good), on: { click: () => mark(marked === good ? null : good) } }, label);
  return h("div.marks", { role: "group", "aria-label": say("isAnswer") }, h("span", null, say("isAnswer")), button(say("yes"), true), button(say("no"), false));
}

const relevanceWord = (value) => say(value >= 0.8 ? "aboutThat" : value >= 0.5 ? "probably" : value >= 0.3 ? "perhaps" : "hardly");
