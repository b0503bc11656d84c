/** The account: password, API keys, browser sessions, quota and rate limits, and the end of it. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { set, state } from "../store.js";
import { clean } from "../snippet.js";
import { exactly, say, size, when } from "../words.js";
import { askButton, makeSection, meterView, problemOf, secretView } from "./controls.js";
import { problemView, waitingView } from "./notice.js";
import { enterTokens, tokensView } from "./tokens.js";

const isAccount = () => state.session?.caller === "account";
const hasSession = () => isAccount() || (state.session?.caller === "operator" && state.session.expires_at);
const keys = makeSection(async () => (await api.keys()).api_keys);
const sessions = makeSection(async () => (await api.sessions()).sessions);
const usage = makeSection(() => api.usage());
let secret = null, form = { problem: null };

export function enterAccount() {
  secret = null;
  form = { problem: null };
  if (hasSession()) sessions.load();
  if (isAccount()) { keys.load(); usage.load(); enterTokens(); }
}

export function accountView() {
  const { session } = state;
  return [
    h("section", { key: "account" }, h("h2", null, say("account")),
      h("p", null, session?.caller === "account" ? say("asAccount", { name: session.username }) : session?.caller === "operator" ? say("asOperator") : say("asLocal")),
      session?.caller === "operator" && h("p.small", null, say("my.operatorKey")),
      hasSession() && h("p", null, h("button.button", { type: "button", on: { click: leave } }, say("logOut")))),
    isAccount() && usageView(),
    isAccount() && keysView(),
    hasSession() && sessionsView(),
    isAccount() && h("section", { key: "tokens" }, tokensView()),
    isAccount() && passwordView(),
    isAccount() && endView(),
  ];
}

function usageView() {
  const found = usage.data;
  return h("section", { key: "usage" }, h("h2", null, say("my.usage")),
    usage.problem && problemView(usage.problem, usage.load),
    !found && !usage.problem && waitingView(),
    found && h("div.meters", null,
      meterView(say("my.documents"), found.documents, found.max_documents),
      meterView(say("my.originals"), found.bytes, found.max_bytes, size),
      found.rate_limits.map((each) => meterView(say(`my.rate.${each.name}`, { seconds: each.seconds }), each.used, each.limit))),
    found?.rate_limits.length > 0 && h("p.small", null, say("my.rateHint")));
}

function keysView() {
  return h("section", { key: "keys" }, h("h2", null, say("my.keys")), h("p.small", null, say("my.keysHint")),
    keys.problem && problemView(keys.problem, keys.load),
    secret && secretView(secret, () => { secret = null; set({}); }),
    keys.data?.length === 0 && h("p.small", null, say("my.noKeys")),
    h("ul.rows", null, (keys.data ?? []).map(keyView)),
    h("form.inline", { on: { submit: makeKey } },
      h("label.field", null, h("span", null, say("my.keyName")), h("input", { name: "name", required: true, maxlength: 100, autocomplete: "off" })),
      h("label.field", null, h("span", null, say("my.keyExpiry")), h("select", { name: "days" }, ["30", "90", "365", ""].map((days) => h("option", { key: days, value: days }, days ? say("my.days", { n: Number(days) }) : say("my.never"))))),
      h("button.button", { type: "submit", disabled: keys.busy }, say("my.makeKey"))));
}

const keyView = (key) => h("li", { key: key.id, class: "row good" },
  h("i.dot", { "aria-hidden": "true" }),
  h("div.about", null,
    h("p.name", null, h("bdi", null, clean(key.name, 100)), " ", h("code", null, `${key.prefix}…`)),
    h("p.text", null, key.last_used_at ? say("lastUsed", { when: when(key.last_used_at) }) : say("my.neverUsed"), " · ", key.expires_at ? say("until", { when: exactly(key.expires_at) }) : say("my.neverExpires"))),
  h("span.time", null),
  h("div.acts", null,
    askButton(`rotate-${key.id}`, say("my.rotate"), say("my.rotateAsk", { name: clean(key.name, 60) }), () => renew(key)),
    askButton(`revoke-${key.id}`, say("my.revoke"), say("my.revokeAsk", { name: clean(key.name, 60) }), () => keys.act(() => api.revokeKey(key.id)))));

async function makeKey(event) {
  event.preventDefault();
  const given = new FormData(event.target), days = Number(given.get("days")), made = await keys.act(() => api.createKey(given.get("name"), days ? new Date(Date.now() + days * 86_400_000).toISOString() : null));
  if (!made) return;
  secret = made;
  event.target.reset();
  set({});
}

async function renew(key) {
  secret = (await keys.act(() => api.rotateKey(key.id))) ?? secret;
  set({});
}

function sessionsView() {
  return h("section", { key: "sessions" }, h("h2", null, say("sessions")),
    sessions.problem && problemView(sessions.problem, sessions.load),
    h("ul.rows", null, (sessions.data ?? []).map(sessionView)));
}

const sessionView = (each) => h("li", { key: each.id, class: "row good" },
  h("i.dot", { "aria-hidden": "true" }),
  h("div.about", null, h("p.name", null, clean(each.user_agent || say("unknownBrowser"), 120)), h("p.text", null, each.current ? say("thisOne") : say("lastUsed", { when: when(each.last_used_at) }), " · ", say("until", { when: exactly(each.expires_at) }))),
  h("span.time", null),
  h("div.acts", null, !each.current && h("button.quiet", { type: "button", on: { click: () => sessions.act(() => api.endSession(each.id)) } }, say("endSession"))));

function passwordView() {
  return h("section", { key: "password" }, h("h2", null, say("my.password")), h("p.small", null, say("my.passwordHint")),
    form.problem && problemView(form.problem),
    h("form.inline", { on: { submit: changePassword } },
      h("label.field", null, h("span", null, say("my.oldPassword")), h("input", { type: "password", name: "old", required: true, autocomplete: "current-password" })),
      h("label.field", null, h("span", null, say("my.newPassword")), h("input", { type: "password", name: "new", required: true, minlength: 8, autocomplete: "new-password" })),
      h("button.button", { type: "submit" }, say("my.changePassword"))));
}

async function changePassword(event) {
  event.preventDefault();
  const given = new FormData(event.target), wanted = given.get("new");
  try {
    await api.changePassword(given.get("old"), wanted);
    // Every session has ended, also this one: log in again at once.
    await api.logIn({ username: state.session.username, password: wanted });
    event.target.reset();
    form = { problem: null };
    set({ said: say("my.passwordChanged") });
    sessions.load();
    keys.load();
  } catch (error) {
    form = { problem: problemOf(error) };
    set({});
  }
}

let leaving = { open: false, problem: null };
function endView() {
  return h("section", { key: "end" }, h("h2", null, say("my.deleteAccount")), h("p.small", null, say("my.deleteHint")),
    leaving.problem && problemView(leaving.problem),
    leaving.open
      ? h("form.inline", { on: { submit: deleteAccount } },
          h("label.field", null, h("span", null, say("password")), h("input", { type: "password", name: "password", required: true, autocomplete: "current-password" })),
          h("button.button.danger", { type: "submit" }, say("my.deleteNow")),
          h("button.quiet", { type: "button", on: { click: () => { leaving = { open: false, problem: null }; set({}); } } }, say("my.keep")))
      : h("p", null, h("button.button", { type: "button", on: { click: () => { leaving = { open: true, problem: null }; set({}); } } }, say("my.deleteAccount"))));
}

async function deleteAccount(event) {
  event.preventDefault();
  try {
    await api.deleteAccount(new FormData(event.target).get("password"));
    location.assign("/");
  } catch (error) {
    leaving = { open: true, problem: problemOf(error) };
    set({});
  }
}

/** Log out; the page is loaded again, so nothing of the account stays in memory. */
async function leave() {
  try { await api.logOut(); } catch { /* the session has ended already */ }
  location.assign("/");
}
