/** The keyboard. Single letters work outside of fields only, and can be switched off. */
import { choose } from "./pages/search.js";
import { explain, hitKey } from "./parts/hit.js";
import { inOrder } from "./asking.js";
import { cite, close, currentView, setView, step } from "./reading.js";
import { go } from "./router.js";
import { set, state } from "./store.js";

export const KEYS = [["/", "keys.field"], ["↓ ↑", "keys.move"], ["Enter", "keys.open"], ["Esc", "keys.close"], ["e", "keys.why"], ["n p", "keys.hits"], ["t", "keys.view"], ["c", "keys.cite"], ["a", "keys.add"], ["g s", "keys.goSearch"], ["g l", "keys.goLibrary"], ["g m", "keys.goMap"], ["g a", "keys.goActivity"], ["g t", "keys.goAgents"], ["g e", "keys.goSettings"], ["?", "keys.help"]];
const PLACES = { s: "/", l: "/library", m: "/map", t: "/agents", a: "/activity", e: "/settings" };
let going = 0;

export function focusField() {
  if (state.route.page !== "search") go("/");
  requestAnimationFrame(() => document.getElementById("q")?.select());
}

const LETTERS = {
  "/": focusField,
  j: () => choose(state.chosen + 1),
  k: () => choose(Math.max(0, state.chosen - 1)),
  e: () => { const hit = inOrder()[Math.max(0, state.chosen)]; if (hit) explain(hitKey(hit)); },
  n: () => step(1),
  p: () => step(-1),
  t: () => { if (state.reader?.document) setView(currentView(state.reader) === "page" ? "text" : "page"); },
  c: () => { if (state.reader?.document) cite(); },
  a: () => go("/add"),
  g: () => { going = Date.now(); },
  "?": () => set({ dialog: "keys" }),
};

function escape() {
  if (document.querySelector("dialog[open]")) return false;
  if (state.reader) close();
  else if (state.route.page === "search") document.getElementById("q")?.focus();
  else return false;
  return true;
}

function arrow(event) {
  const inField = event.target.id === "q", inList = event.target.closest?.(".groups");
  if (!inField && !inList) return false;
  if (event.key === "ArrowDown") choose(inField ? 0 : state.chosen + 1);
  else if (inField) return false;
  else if (state.chosen <= 0) document.getElementById("q")?.focus();
  else choose(state.chosen - 1);
  return true;
}

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const done = () => { event.preventDefault(); };
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") { done(); focusField(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { if (escape()) done(); return; }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { if (arrow(event)) done(); return; }
    if (event.target.closest?.("input, textarea, select, dialog") || !state.letters) return;
    if (going && Date.now() - going < 1500 && PLACES[event.key]) { going = 0; done(); go(PLACES[event.key]); return; }
    going = 0;
    const does = LETTERS[event.key];
    if (does) { done(); does(); }
  });
}
