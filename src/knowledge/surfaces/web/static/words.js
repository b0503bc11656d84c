/** The texts of the page in the language of the reader, and numbers, dates and sizes as that language writes them. */
import en from "./words/en.js";
import { recall } from "./store.js";

export const LANGUAGES = { en: "English", de: "Deutsch" };

const wanted = [recall("language", "auto"), ...(navigator.languages ?? [navigator.language])].map((name) => name.slice(0, 2).toLowerCase());
export const language = wanted.find((name) => name in LANGUAGES) ?? "en";

const texts = language === "en" ? { ...en } : { ...en, ...(await import("./words/de.js")).default };
const plural = new Intl.PluralRules(language);
const whole = new Intl.NumberFormat(language);
const two = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const day = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
const minute = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const ago = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });

/** Return a text; `n` chooses its plural, and names in braces are replaced. */
export function say(key, values = {}) {
  const found = texts[key];
  const text = typeof found === "object" ? found[plural.select(values.n ?? 0)] ?? found.other : found ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? whole.format(values[name]) : values[name] ?? ""));
}

/** Load the texts of a page that the first view does not need: words/en/NAME.js, and the same file of the language. */
export async function loadTexts(name) {
  const found = await Promise.all([...new Set(["en", language])].map((code) => import(`./words/${code}/${name}.js`)));
  Object.assign(texts, ...found.map((module) => module.default));
}

const conjunction = new Intl.ListFormat(language, { type: "conjunction" });

export const listed = (items) => conjunction.format(items);
export const number = (value) => whole.format(value);
export const score = (value) => two.format(value);

/** Return a size in the unit that a person would use. */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  let value = bytes, unit = 0;
  while (value >= 1000 && unit < 3) { value /= 1024; unit++; }
  return new Intl.NumberFormat(language, { style: "unit", unit: units[unit], unitDisplay: "short", maximumFractionDigits: value < 10 && unit > 0 ? 1 : 0 }).format(value);
}

/** Return how long ago a time was, or the day if that is long ago. */
export function when(time) {
  const seconds = (Date.parse(time) - Date.now()) / 1000, past = Math.abs(seconds);
  if (Number.isNaN(seconds)) return "";
  if (past < 45) return say("justNow");
  if (past < 3300) return ago.format(Math.round(seconds / 60), "minute");
  if (past < 79200) return ago.format(Math.round(seconds / 3600), "hour");
  if (past < 2_000_000) return ago.format(Math.round(seconds / 86400), "day");
  return day.format(new Date(time));
}

export const exactly = (time) => (time ? minute.format(new Date(time)) : "");
