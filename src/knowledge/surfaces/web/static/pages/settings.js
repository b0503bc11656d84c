/** Settings: this browser and the account, the caller's corpora, and the server. */
import { h } from "../dom.js";
import { address, linkTo } from "../router.js";
import { remember, set, state } from "../store.js";
import { setTheme } from "../frame.js";
import { accountView, enterAccount } from "../parts/account.js";
import { corporaView, enterCorpora, refreshCorpora } from "../parts/corpora.js";
import { enterServer, refreshServer, serverView } from "../parts/server.js";
import { LANGUAGES, say } from "../words.js";

const PARTS = { "": [accountView, enterAccount], corpora: [corporaView, enterCorpora], server: [serverView, enterServer] };
let shown = null;

const current = () => (state.route.params.show in PARTS ? state.route.params.show : "");

export function enter() {
  shown = current();
  PARTS[shown][1]();
}

/** Take an event of the server. */
export function take(kind, event) {
  if (current() === "corpora" && ["approval", "collection", "reset"].includes(kind)) refreshCorpora();
  if (current() === "server") refreshServer(kind, event);
}

export function settingsView() {
  const show = current();
  if (shown !== null && shown !== show) enter();
  return h("div.adding.settings", { key: "settings" },
    h("h1", null, say("settings")),
    h("nav.chips.tabs", { "aria-label": say("settings") }, tab("", say("my.you")), tab("corpora", say("corp.title")), tab("server", say("aboutServer")),
      state.session?.is_admin && h("a.chip.phone", { key: "people", href: "/people", on: linkTo("/people") }, say("people"))),
    show === "" && browserView(),
    PARTS[show][0]());
}

function tab(show, label) {
  const to = address("/settings", { show: show || null });
  return h("a.chip", { key: show, href: to, "aria-current": current() === show ? "true" : null, on: linkTo(to) }, label);
}

const browserView = () => h("section", { key: "browser" }, h("h2", null, say("thisBrowser")),
  h("label.field", null, h("span", null, say("colours")), h("select", { value: state.theme, on: { change: (event) => setTheme(event.target.value) } }, ["auto", "light", "dark"].map((theme) => h("option", { key: theme, value: theme }, say(`theme.${theme}`))))),
  h("label.field", null, h("span", null, say("language")), h("select", { value: state.language, on: { change: (event) => { remember("language", event.target.value); location.reload(); } } }, h("option", { value: "auto" }, say("theme.auto")), Object.entries(LANGUAGES).map(([code, name]) => h("option", { key: code, value: code }, name)))),
  h("label.choice", null, h("input", { type: "checkbox", checked: state.letters, on: { change: (event) => { remember("letters", event.target.checked ? "on" : "off"); set({ letters: event.target.checked }); } } }), say("singleLetters")));
