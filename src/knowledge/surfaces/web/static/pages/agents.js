/** Agents. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const agentsView = () => h("div.page", { key: "agents" }, h("h1", null, say("agents")));
