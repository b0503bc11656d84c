/** Lines that say what is the matter, and grey bars while something loads. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const note = (...children) => h("p.note", null, ...children);

/** A problem with the server's message and hint. */
export function problemView(problem, again = null) {
  const gone = problem.status === 0;
  return h("div.problem", { role: "alert" },
    h("strong", null, gone ? say("gone") : problem.message),
    (gone || problem.hint) && h("p", null, gone ? say("goneHint") : problem.hint),
    again && h("button.quiet", { type: "button", on: { click: again } }, say("again")));
}

export const waitingView = () => h("div.waiting", { "aria-hidden": "true" }, h("i", null), h("i", null), h("i", null));
