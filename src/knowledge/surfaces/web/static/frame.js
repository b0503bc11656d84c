/** What is around every page: the bar, dropping files anywhere, notices, the list of keys. */
import { h } from "./dom.js";
import { type } from "./asking.js";
import { isRunning } from "./api.js";
import { need } from "./later.js";
import { KEYS } from "./keys.js";
import { linkTo } from "./router.js";
import { remember, set, state } from "./store.js";
import { clean } from "./snippet.js";
import { say } from "./words.js";

const THEMES = { auto: "light", light: "dark", dark: "auto" };

export function setTheme(theme) {
  remember("theme", theme);
  applyTheme(theme);
  set({ theme });
}

export function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function navLink(path, label, busy = 0) {
  const { page } = state.route, at = page === "insight" ? "/agents" : state.route.path, here = path === "/" ? page === "search" || page === "document" : at.startsWith(path);
  const to = path === "/" && page !== "search" && state.question ? `/?q=${encodeURIComponent(state.question.trim())}` : path;
  return h("a", { key: path, href: to, "aria-current": here ? "page" : null, on: linkTo(to) }, label, busy > 0 && h("span.busy", null, String(busy), h("span.hidden", null, ` ${say("running")}`)));
}

export function barView() {
  const busy = [...state.jobs.values()].filter(isRunning).length, { session } = state;
  const account = session?.caller === "account" ? clean(session.username, 30) : say("settings");
  return h("header.bar", { key: "bar" },
    h("a.skip", { href: "#main" }, say("skip")),
    h("a.brand", { href: "/", on: linkTo("/", () => { type(""); requestAnimationFrame(() => document.getElementById("q")?.focus()); }) }, h("span", null, "Knowledge")),
    h("nav.main", { "aria-label": say("mainNav") }, navLink("/", say("search")), navLink("/library", say("library")), navLink("/map", say("map")), navLink("/activity", say("activity"), busy), navLink("/agents", say("agents"))),
    h("button.quiet.theme", { type: "button", "aria-label": say("coloursNow", { theme: say(`theme.${state.theme}`) }), title: say("coloursNow", { theme: say(`theme.${state.theme}`) }), on: { click: () => setTheme(THEMES[state.theme]) } },
      h("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, h("circle", { cx: 10, cy: 10, r: 6.5 }), h("path.half", { d: "M10 3.5a6.5 6.5 0 0 1 0 13z" }))),
    h("a.primary", { href: "/add", on: linkTo("/add") }, say("add")),
    h("nav.own", { "aria-label": say("ownNav") }, session?.is_admin && navLink("/people", say("people")), navLink("/settings", h("span.name", null, account))));
}

/** What lies over the page. */
export function overlayView() {
  return [
    state.gone && h("p.gone", { key: "gone", role: "status" }, say("goneLine")),
    state.uploads.size > 0 && need("tray")?.trayView(),
    state.dropping && h("div.drop", { key: "drop", "aria-hidden": "true" }, h("p", null, say("dropNow"))),
    state.dialog === "keys" && keysDialog(),
    h("p.hidden", { key: "said", role: "status", "aria-live": "polite" }, state.said),
  ];
}

const showModal = (dialog) => queueMicrotask(() => dialog.isConnected && dialog.showModal());
const closed = () => set({ dialog: null });

function keysDialog() {
  return h("dialog.keys", { key: "keys", "aria-labelledby": "keys-title", ref: showModal, on: { close: closed, click: (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); } } },
    h("h2", { id: "keys-title" }, say("keysTitle")),
    h("dl", null, KEYS.map(([key, what]) => h("div", { key }, h("dt", null, key.split(" ").map((each) => h("kbd", { key: each }, each))), h("dd", null, say(what))))),
    h("form.choices", { method: "dialog" }, h("button.primary", { type: "submit" }, say("done"))));
}

/** Files may be dropped anywhere on the page. */
export function listenToDrops() {
  let depth = 0;
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) { depth++; set({ dropping: true }); } });
  addEventListener("dragleave", (event) => { if (carriesFiles(event)) { depth = Math.max(0, depth - 1); if (!depth) set({ dropping: false }); } });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    set({ dropping: false });
    const entries = [...event.dataTransfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
    const { add, filesOf } = await import("./uploads.js");
    add(await filesOf(entries));
  });
}
