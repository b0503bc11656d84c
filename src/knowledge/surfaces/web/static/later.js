/** Modules that the first page does not need. They load when they are, and draw the page again. */
import { set } from "./store.js";
import { loadTexts } from "./words.js";

const MODULES = {
  reader: withTexts("reader", () => import("./parts/reader.js")),
  tray: () => import("./parts/tray.js"),
  add: () => import("./pages/add.js"),
  activity: () => import("./pages/activity.js"),
  crawl: withTexts("crawl", () => import("./pages/crawl.js")),
  settings: withTexts("settings", () => import("./pages/settings.js")),
  login: () => import("./pages/login.js"),
  library: withTexts("library", () => import("./pages/library.js")),
  edit: withTexts("edit", () => import("./pages/edit.js")),
  map: withTexts("map", () => import("./pages/map.js")),
  agents: withTexts("agents", () => import("./pages/agents.js")),
  people: withTexts("people", () => import("./pages/people.js")),
  insight: withTexts("insight", () => import("./pages/insight.js")),
};
const loaded = {};

/** Load a module with its texts and its styles, which have the same name: words/en/NAME.js and styles/NAME.css. */
function withTexts(name, load) {
  return async () => {
    const [module] = await Promise.all([load(), loadTexts(name), loadStyles(name)]);
    return module;
  };
}

/** Load a file of styles/. */
export function loadStyles(name) {
  return new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL(`./styles/${name}.css`, import.meta.url).pathname;
    link.addEventListener("load", resolve);
    link.addEventListener("error", resolve);
    document.head.append(link);
  });
}

/** Return a module, or null while it loads; `enter` of a page runs when it is there. */
export function need(name) {
  if (loaded[name] === undefined) {
    loaded[name] = null;
    MODULES[name]().then((module) => {
      loaded[name] = module;
      module.enter?.();
      set({});
    });
  }
  return loaded[name];
}
