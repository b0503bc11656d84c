/** Edit. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const editView = () => h("div.page", { key: "edit" }, h("h1", null, say("edit")));
