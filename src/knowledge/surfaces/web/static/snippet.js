/** Short texts of others: titles, marked words, and the part of a passage that a result shows. Linear in time. */
import { h } from "./dom.js";

const MAX_CHARS = 200_000;
const MAX_TITLE_CHARS = 300;
const SNIPPET_CHARS = 340;
const WORD = /[\p{L}\p{N}]+/gu;

/** Show control characters as signs, and cut what is too long for a title. */
export function clean(text, max = MAX_TITLE_CHARS) {
  const shown = String(text ?? "").slice(0, max + 1).replace(/[\u0000-\u001f\u007f]/g, (sign) => String.fromCharCode(sign === "\u007f" ? 0x2421 : 0x2400 + sign.charCodeAt(0)));
  return shown.length > max ? `${shown.slice(0, max)}…` : shown;
}

/** A title, name or tag that somebody else wrote: isolated, so that its direction does not change the text around it. */
export function title(text, max) {
  return h("bdi", null, clean(text, max));
}

/** The words of all highlights of a hit, in lower case. */
export function highlightedWords(hit, into = new Set()) {
  for (const [start, end] of hit?.highlights ?? []) {
    for (const [word] of hit.text.slice(start, end).matchAll(WORD)) into.add(word.toLowerCase());
  }
  return into;
}

/** Split a text into strings and marks, by whole words. */
export function markWords(text, words) {
  if (!words?.size) return [text];
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(WORD)) {
    if (!words.has(found[0].toLowerCase())) continue;
    if (found.index > at) parts.push(text.slice(at, found.index));
    parts.push(h("mark", null, found[0]));
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/** The part of a hit's text that shows most of its marked words, without the signs of Markdown. */
export function snippet(hit, max = SNIPPET_CHARS) {
  const text = hit.text.slice(0, MAX_CHARS), kept = keepMask(text), marks = (hit.highlights ?? []).filter(([start, end]) => end <= text.length && start < end);
  const begin = bestStart(text, preferBest(hit, text, marks), max), parts = [];
  let run = "", marked = false, count = 0, at = begin, mark = marks.findIndex(([, end]) => end > begin);
  if (mark < 0) mark = marks.length;
  const flush = () => { if (run) parts.push(marked ? h("mark", null, run) : run); run = ""; };
  for (; at < text.length && count < max; at++) {
    while (mark < marks.length && marks[mark][1] <= at) mark++;
    const inside = mark < marks.length && marks[mark][0] <= at;
    if (inside !== marked) { flush(); marked = inside; }
    if (!kept[at]) continue;
    const sign = /\s/.test(text[at]) ? " " : text[at];
    if (sign === " " && (run.endsWith(" ") || (!run && count === 0))) continue;
    run += sign;
    count++;
  }
  if (at < text.length && !marked) run = run.replace(/\s+\S*$/, "");
  flush();
  return [begin > 0 && "… ", parts, at < text.length && " …"];
}

/** The marks in the best of several joined passages; all marks if it has none. */
function preferBest(hit, text, marks) {
  const begin = hit.chunk_text ? text.indexOf(hit.chunk_text) : -1;
  const inside = begin < 0 ? [] : marks.filter(([start, end]) => start >= begin && end <= begin + hit.chunk_text.length);
  return inside.length ? inside : marks;
}

function keepMask(text) {
  const kept = new Uint8Array(text.length).fill(1);
  const drop = (pattern) => { for (const found of text.matchAll(pattern)) kept.fill(0, found.index, found.index + found[0].length); };
  drop(/^[ \t]*#{1,6}[ \t]/gm);
  drop(/^[ \t]*\|[ \t:|-]*$/gm);
  drop(/^[ \t]*-{3,}[ \t]*$/gm);
  drop(/[*`|]+/g);
  drop(/(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu);
  return kept;
}

/** Where to begin so that the window has the most marks; at the start of a sentence or a word. */
function bestStart(text, marks, max) {
  if (text.length <= max || !marks.length) return 0;
  let best = 0, most = 0, last = 0;
  for (let first = 0; first < marks.length; first++) {
    while (last < marks.length && marks[last][1] < marks[first][0] + max - 60) last++;
    if (last - first > most) { most = last - first; best = marks[first][0]; }
  }
  if (best < 60) return 0;
  const before = text.slice(best - 60, best), sentence = before.search(/[.!?\n]\s+(?=\S[^.!?\n]*$)/);
  if (sentence >= 0) return best - 60 + sentence + /^[.!?\n]\s+/.exec(before.slice(sentence))[0].length;
  const space = before.search(/\s/);
  return space >= 0 ? best - 60 + space + 1 : best;
}
