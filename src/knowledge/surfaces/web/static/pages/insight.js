/** Insight. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const insightView = () => h("div.page", { key: "insight" }, h("h1", null, say("insight")));
