/** Logging in: with an account or with the operator's key; over the page when a session has ended. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { set, state } from "../store.js";
import { problemView } from "../parts/notice.js";
import { say } from "../words.js";

let form = { way: "account", problem: null, busy: false };

/** The form; `done` is called with the new session. */
export function loginView(done, expired = false) {
  const { way } = form, open = state.session?.registration_open;
  const heading = way === "register" ? say("register") : expired ? say("expired") : say("logIn");
  return h("form.login", { key: "login", on: { submit: (event) => submit(event, done) } },
    h(expired ? "h2" : "h1", null, heading),
    expired && h("p.small", null, say("expiredHint")),
    form.problem && problemView(form.problem),
    way === "key"
      ? h("label.field", { key: "key" }, h("span", null, say("operatorKey")), h("input", { type: "password", name: "key", required: true, autocomplete: "off" }))
      : [
          h("label.field", { key: "name" }, h("span", null, say("username")), h("input", { type: "text", name: "username", required: true, autocomplete: "username", autocapitalize: "off", spellcheck: "false" })),
          h("label.field", { key: "password" }, h("span", null, say("password")), h("input", { type: "password", name: "password", required: true, autocomplete: way === "register" ? "new-password" : "current-password" })),
        ],
    h("label.choice", { key: "stay" }, h("input", { type: "checkbox", name: "stay" }), say("stay")),
    h("div.choices", { key: "go" }, h("button.primary", { type: "submit", disabled: form.busy }, way === "register" ? say("register") : say("logIn"))),
    h("div.ways", { key: "ways" },
      way !== "account" && wayView("account", say("withAccount")),
      way !== "key" && wayView("key", say("withKey")),
      open && way !== "register" && wayView("register", say("newAccount"))));
}

const wayView = (way, label) => h("button.quiet", { key: way, type: "button", on: { click: () => { form = { way, problem: null, busy: false }; set({}); } } }, label);

async function submit(event, done) {
  event.preventDefault();
  const given = new FormData(event.target), stay = given.get("stay") === "on", { way } = form;
  form = { ...form, busy: true, problem: null };
  set({});
  try {
    const username = given.get("username"), password = given.get("password");
    if (way === "register") await api.register(username, password);
    const session = await api.logIn(way === "key" ? { api_key: given.get("key"), stay } : { username, password, stay });
    form = { way: way === "key" ? "key" : "account", problem: null, busy: false };
    done(session);
  } catch (error) {
    form = { ...form, busy: false, problem: { status: error.status, message: error.message, hint: error.hint } };
    set({});
  }
}
