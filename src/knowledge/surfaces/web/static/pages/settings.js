/** Settings of this browser, and the sessions of the account. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView } from "../parts/notice.js";
import { enterTokens, tokensView } from "../parts/tokens.js";
import { remember, set, state } from "../store.js";
import { clean } from "../snippet.js";
import { setTheme } from "../frame.js";
import { exactly, LANGUAGES, say, when } from "../words.js";

let list = null, problem = null;

export async function enter() {
  [list, problem] = [null, null];
  enterTokens();
  if (!hasSession()) return;
  try { list = (await api.sessions()).sessions; } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  set({});
}

const hasSession = () => state.session?.caller === "account" || (state.session?.caller === "operator" && state.session.expires_at);

export function settingsView() {
  const { session } = state;
  return h("div.adding.settings", { key: "settings" },
    h("h1", null, say("settings")),
    h("section", null, h("h2", null, say("thisBrowser")),
      h("label.field", null, h("span", null, say("colours")), h("select", { value: state.theme, on: { change: (event) => setTheme(event.target.value) } }, ["auto", "light", "dark"].map((theme) => h("option", { key: theme, value: theme }, say(`theme.${theme}`))))),
      h("label.field", null, h("span", null, say("language")), h("select", { value: state.language, on: { change: (event) => { remember("language", event.target.value); location.reload(); } } }, h("option", { value: "auto" }, say("theme.auto")), Object.entries(LANGUAGES).map(([code, name]) => h("option", { key: code, value: code }, name)))),
      h("label.choice", null, h("input", { type: "checkbox", checked: state.letters, on: { change: (event) => { remember("letters", event.target.checked ? "on" : "off"); set({ letters: event.target.checked }); } } }), say("singleLetters"))),
    h("section", null, h("h2", null, say("account")),
      h("p", null, session?.caller === "account" ? say("asAccount", { name: session.username }) : session?.caller === "operator" ? say("asOperator") : say("asLocal")),
      hasSession() && h("p", null, h("button.button", { type: "button", on: { click: leave } }, say("logOut"))),
      problem && problemView(problem, enter),
      list && h("h3", null, say("sessions")),
      list && h("ul.rows", null, list.map(sessionView)),
      tokensView()),
    h("section", null, h("h2", null, say("aboutServer")),
      h("p", null, say("versionLine", { version: session?.version ?? state.status?.version ?? "" }), " ", h("a", { href: "/docs" }, say("restDocs")))));
}

const sessionView = (each) => h("li", { key: each.id, class: "row good" },
  h("i.dot", { "aria-hidden": "true" }),
  h("div.about", null, h("p.name", null, clean(each.user_agent || say("unknownBrowser"), 120)), h("p.text", null, each.current ? say("thisOne") : say("lastUsed", { when: when(each.last_used_at) }), " · ", say("until", { when: exactly(each.expires_at) }))),
  h("span.time", null),
  h("div.acts", null, !each.current && h("button.quiet", { type: "button", on: { click: () => end(each.id) } }, say("endSession"))));

async function end(id) {
  try { await api.endSession(id); } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  enter();
}

/** Log out; the page is loaded again, so nothing of the account stays in memory. */
async function leave() {
  try { await api.logOut(); } catch { /* the session has ended already */ }
  location.assign("/");
}
