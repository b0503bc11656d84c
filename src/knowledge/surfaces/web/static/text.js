/**
 * Markdown of documents, as descriptions for dom.js.
 *
 * It knows headings, paragraphs, lists, tables, code, emphasis and links with http and https; everything else stays the
 * text that it is. The time is linear in the length of the text.
 */
import { h, isSafeAddress } from "./dom.js";
import { markWords } from "./snippet.js";

const MAX_CHARS = 200_000, WRAPPED_CHARS = 60;
const FENCE = /^ {0,3}(```|~~~)/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const RULER = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-*:?[ \t]*)*$/;

/** Describe Markdown; `words` are marked. */
export function markdown(text, words = null) {
  const lines = text.slice(0, MAX_CHARS).split(/\r\n|[\n\r\u2028\u2029]/), blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at], heading = HEADING.exec(line);
    if (!line.trim()) at++;
    else if (FENCE.test(line)) at = code(lines, at, blocks, words);
    else if (heading) {
      const level = Math.min(6, heading[1].length + 2);
      blocks.push(h(`p.h.h${heading[1].length}`, { role: "heading", "aria-level": level }, inline(heading[2].replace(/[ \t]#+[ \t]*$/, ""), words)));
      at++;
    } else if (line.trimStart().startsWith("|")) at = table(lines, at, blocks, words);
    else if (ITEM.test(line)) at = list(lines, at, blocks, words);
    else at = paragraph(lines, at, blocks, words);
  }
  return blocks;
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || line.trimStart().startsWith("|");

function paragraph(lines, at, blocks, words) {
  const begin = at++;
  while (at < lines.length && lines[at].trim() && !begins(lines[at])) at++;
  blocks.push(h("p", null, inline(join(lines.slice(begin, at)), words)));
  return at;
}

/** Lines that an editor wrapped flow together; short ones, and those with two blanks at the end, stay apart. */
const join = (lines) => lines.map((line, at) => (at === lines.length - 1 ? line : line + (line.length < WRAPPED_CHARS || line.endsWith("  ") ? "\n" : " "))).join("");

function code(lines, at, blocks, words) {
  const fence = FENCE.exec(lines[at])[1], begin = ++at;
  while (at < lines.length && !lines[at].trimStart().startsWith(fence)) at++;
  blocks.push(h("pre", { tabindex: 0 }, h("code", null, markWords(lines.slice(begin, at).join("\n"), words))));
  return at + 1;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.replaceAll("\\|", "|").trim());
}

function table(lines, at, blocks, words) {
  const begin = at;
  while (at < lines.length && lines[at].trimStart().startsWith("|")) at++;
  const rows = lines.slice(begin, at), headed = rows.length > 1 && RULER.test(rows[1]);
  const row = (line, tag) => h("tr", null, cells(line).map((cell) => h(tag, tag === "th" ? { scope: "col" } : null, inline(cell, words))));
  const body = rows.filter((line, index) => !(headed && index < 2) && !RULER.test(line));
  blocks.push(h("div.table", { tabindex: 0 }, h("table", null, headed && h("thead", null, row(rows[0], "th")), h("tbody", null, body.map((line) => row(line, "td"))))));
  return at;
}

function list(lines, at, blocks, words) {
  const items = [];
  for (; at < lines.length; at++) {
    const found = ITEM.exec(lines[at]);
    if (found) items.push({ depth: found[1].replaceAll("\t", "    ").length, ordered: /\d/.test(found[2]), number: parseInt(found[2], 10), text: found[3] });
    else if (lines[at].trim() && /^[ \t]/.test(lines[at]) && items.length) items.at(-1).text += `\n${lines[at].trim()}`;
    else break;
  }
  blocks.push(...nest(items, words));
  return at;
}

/** Items by indentation, as lists in lists; the stack holds the lists that are open. */
function nest(items, words) {
  const roots = [], open = [];
  for (const item of items) {
    while (open.length && open.at(-1).depth > item.depth) open.pop();
    const last = open.at(-1);
    if (!last || (item.depth > last.depth + 1 && open.length < 6) || (last.depth === item.depth && last.ordered !== item.ordered)) {
      if (last?.depth === item.depth) open.pop();
      const made = { depth: item.depth, ordered: item.ordered, view: h(item.ordered ? "ol" : "ul", item.ordered && item.number > 1 ? { start: item.number } : null) };
      const parent = open.at(-1)?.view.children.at(-1);
      (parent ? parent.children : roots).push(made.view);
      open.push(made);
    }
    open.at(-1).view.children.push(h("li", null, inline(item.text, words)));
  }
  return roots;
}

/** Emphasis, code and links of one block, in one pass with a stack of what is open. */
export function inline(text, words = null) {
  const parts = [], open = [], missing = new Set();
  let plain = "", at = 0;
  const flush = () => { if (plain) parts.push(...markWords(plain, words)); plain = ""; };
  const close = (sign, tag) => {
    const index = open.findLastIndex((each) => each.sign === sign);
    if (index < 0) return false;
    flush();
    const begin = open[index].at;
    open.length = index;
    const inside = parts.splice(begin + 1);
    parts[begin] = h(tag, null, inside);
    return true;
  };
  while (at < text.length) {
    const sign = text[at];
    if (sign === "\\" && /[\\`*_[\]|#]/.test(text[at + 1] ?? "")) { plain += text[at + 1]; at += 2; continue; }
    if (sign === "`") {
      const run = text[at + 1] === "`" ? "``" : "`", end = missing.has(run) ? -1 : text.indexOf(run, at + run.length);
      if (end > 0) { flush(); parts.push(h("code", null, markWords(text.slice(at + run.length, end).trim(), words))); at = end + run.length; continue; }
      missing.add(run);
    } else if (sign === "*" || sign === "_") {
      const run = text[at + 1] === sign ? sign + sign : sign, before = text[at - 1] ?? " ", after = text[at + run.length] ?? " ";
      const wordish = sign === "_" && /[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after);
      if (!wordish) {
        if (!/\s/.test(before) && close(run, run.length === 2 ? "strong" : "em")) { at += run.length; continue; }
        if (!/\s/.test(after) && open.length < 20) { flush(); open.push({ sign: run, at: parts.length }); parts.push(run); at += run.length; continue; }
      }
      plain += run; at += run.length; continue;
    } else if (sign === "[" && !missing.has("](")) {
      const middle = text.indexOf("](", at);
      if (middle < 0) missing.add("](");
      const end = middle < 0 || middle - at > 500 ? -1 : text.slice(middle + 2, middle + 2002).search(/[)\s]/);
      if (end > 0 && text[middle + 2 + end] === ")") {
        const target = text.slice(middle + 2, middle + 2 + end), label = text.slice(at + 1, middle);
        if (/^https?:/i.test(target) && isSafeAddress(target) && !label.includes("[")) { flush(); parts.push(...outward(target, label, words)); at = middle + 3 + end; continue; }
      }
    } else if (sign === "h" && /^https?:\/\//i.test(text.slice(at, at + 8)) && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? " ")) {
      const found = /^[^\s<>"'`|\\^{}]+/.exec(text.slice(at, at + 2000))[0].replace(/[.,;:!?)\]*_]+$/, "");
      if (isSafeAddress(found) && found.length > 8) { flush(); parts.push(...outward(found, found, words)); at += found.length; continue; }
    }
    plain += sign;
    at++;
  }
  flush();
  return parts;
}

/** A link to another server: it shows its host, and the other server learns nothing of this page. */
export function outward(target, label, words = null) {
  let host;
  try { host = new URL(target).host; } catch { return [label]; }
  const link = h("a.out", { href: target, rel: "noopener noreferrer nofollow", target: "_blank" }, markWords(label, words));
  return label.includes(host) ? [link] : [link, h("span.host", null, ` (${host})`)];
}
