/** People. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const peopleView = () => h("div.page", { key: "people" }, h("h1", null, say("people")));
