/** The clients of OAuth that may act for the account, with a button that revokes their tokens. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { clean } from "../snippet.js";
import { set, state } from "../store.js";
import { exactly, say, when } from "../words.js";
import { problemView } from "./notice.js";

let list = null, problem = null;

export async function enterTokens() {
  [list, problem] = [null, null];
  if (state.session?.caller !== "account") return;
  try { list = (await api.tokens()).tokens; } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  set({});
}

/** Nothing, if no client has tokens. */
export const tokensView = () => [
  problem && problemView(problem, enterTokens),
  list?.length ? h("h2", { key: "tokens-title" }, say("tokens")) : null,
  list?.length ? h("ul.rows", { key: "tokens" }, list.map(tokenView)) : null,
];

const tokenView = (each) => h("li", { key: `token-${each.id}`, class: "row good" },
  h("i.dot", { "aria-hidden": "true" }),
  h("div.about", null, h("p.name", null, clean(each.client_name || each.client_id, 120)), h("p.text", null, each.scopes.join(", "), " · ", say("lastUsed", { when: when(each.last_used_at ?? each.created_at) }), " · ", say("until", { when: exactly(each.expires_at) }))),
  h("span.time", null),
  h("div.acts", null, h("button.quiet", { type: "button", on: { click: () => revoke(each.id) } }, say("revokeTokens"))));

async function revoke(id) {
  try { await api.revokeToken(id); } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  enterTokens();
}
