/** Modules that the first page does not need. They load when they are, and draw the page again. */
import { set } from "./store.js";

const MODULES = {
  reader: () => import("./parts/reader.js"),
  tray: () => import("./parts/tray.js"),
  add: () => import("./pages/add.js"),
  activity: () => import("./pages/activity.js"),
  crawl: () => import("./pages/crawl.js"),
  settings: () => import("./pages/settings.js"),
  login: () => import("./pages/login.js"),
};
const loaded = {};

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
