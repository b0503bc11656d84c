/** The files that were just added, in the corner of every page. */
import { h } from "../dom.js";
import { linkTo } from "../router.js";
import { set, state } from "../store.js";
import { clearTray, hasEnded } from "../uploads.js";
import { say } from "../words.js";
import { rowsOf, rowView } from "./job.js";

const SHOWN = 6;

export function trayView() {
  if (!state.uploads.size || state.route.page === "activity" || state.route.page === "login") return null;
  const uploads = [...state.uploads.values()], jobs = uploads.map((upload) => state.jobs.get(upload.uid)).filter(Boolean);
  const busy = uploads.filter((upload) => !hasEnded(upload, state.jobs.get(upload.uid))).length;
  const rows = rowsOf(uploads, jobs), heading = busy ? say("adding", { n: busy }) : say("allAdded", { n: uploads.length });
  return h("aside.tray", { key: "tray", "aria-label": say("uploads") },
    h("header", null,
      h("button.fold", { type: "button", "aria-expanded": String(state.trayOpen), on: { click: () => set({ trayOpen: !state.trayOpen }) } }, heading),
      !busy && h("button.quiet", { type: "button", on: { click: clearTray } }, say("done"))),
    state.trayOpen && h("ul", null, rows.slice(0, SHOWN).map(rowView)),
    state.trayOpen && rows.length > SHOWN && h("a.quiet.all", { href: "/activity", on: linkTo("/activity") }, say("andMore", { n: rows.length - SHOWN })));
}
