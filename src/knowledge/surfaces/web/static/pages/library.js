/** Library. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const libraryView = () => h("div.page", { key: "library" }, h("h1", null, say("library")));
