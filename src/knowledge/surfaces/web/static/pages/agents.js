/** Agents: connect one, watch it arrive, see why one was refused, and try the tools that they have. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { CLIENTS, stepsFor } from "../parts/clients.js";
import { problemView, waitingView } from "../parts/notice.js";
import { resetTools, toolsView } from "../parts/tools.js";
import { copy } from "../reading.js";
import { linkTo } from "../router.js";
import { clean } from "../snippet.js";
import { recall, remember, set, state } from "../store.js";
import { say, when } from "../words.js";

const TICK_MS = 1000, ASK_MS = 4000, KEY_PLACEHOLDER = "YOUR-KEY", RECENT_MS = 15 * 60_000;
let seen = null, refused = [], toolsets = null, problem = null, timer = 0, asked = 0, began = 0;
let chosen = { client: recall("client", "claude-code"), toolset: "", readOnly: false }, made = null, making = false;

export async function enter() {
  [seen, problem, made, making, began] = [null, null, null, false, Date.now()];
  resetTools();
  clearInterval(timer);
  timer = setInterval(tick, TICK_MS);
  await load();
  try { toolsets = (await api.toolsets()).toolsets; } catch { toolsets = []; }
  set({});
}

async function load() {
  asked = Date.now();
  try { ({ agents: seen, refused } = await api.agents()); problem = null; } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  set({});
}

/** Count the seconds on the page; accounts ask for refused attempts, of which no event tells them. */
function tick() {
  if (state.route.page !== "agents") { made = null; return clearInterval(timer); }
  if (document.hidden) return undefined;
  if (state.session?.caller === "account" && Date.now() - asked > ASK_MS) load();
  return set({});
}

export function take(kind, data) {
  if (kind === "agent" && seen) seen = [data, ...seen.filter(({ id }) => id !== data.id)];
  else if (kind === "refusal") refused = [data, ...refused.filter(({ id }) => id !== data.id)];
  else if (kind === "hello" || kind === "reset") load();
  set({});
}

export const agentsView = () => h("div.agents", { key: "agents" },
  h("header.head", null, h("h1", null, say("agents")), h("a.quiet", { href: "/insight", on: linkTo("/insight") }, say("agent.toInsight"))),
  problem && problemView(problem, load),
  connectView(),
  seen ? [statusView(), helpView(), seenView()] : !problem && waitingView(),
  toolsets?.length > 0 && toolsView(toolsets));

const nameOf = (client) => CLIENTS[client].name || say("agent.anyClient");

function connectView() {
  const { client } = chosen, isAccount = state.session?.caller === "account";
  const needsKey = isAccount || state.session?.caller === "operator", key = made?.secret ?? (needsKey ? KEY_PLACEHOLDER : "");
  return h("section.connect", { key: "connect" },
    h("div.chips", { role: "group", "aria-label": say("agent.whichAgent") }, Object.keys(CLIENTS).map((each) => h("button.chip", { key: each, type: "button", "aria-pressed": String(each === client), on: { click: () => choose({ client: each }) } }, nameOf(each)))),
    h("div.target", null,
      h("label.field", null, h("span", null, say("agent.toolset")), h("select", { value: chosen.toolset, on: { change: (event) => choose({ toolset: event.target.value }) } }, h("option", { value: "" }, say("agent.defaultTools")), (toolsets ?? []).map(({ name }) => h("option", { key: name, value: name }, name)))),
      h("label.choice", null, h("input", { type: "checkbox", checked: chosen.readOnly, on: { change: (event) => choose({ readOnly: event.target.checked }) } }), say("agent.readOnly"))),
    stepsFor(client, addressOf(chosen), key).map(({ where, code }) => codeView(where, code)),
    client === "claude-desktop" && h("p.small", null, say("agent.desktopHint")),
    client === "codex" && key && h("p.small", null, say("agent.codexHint")),
    made && h("p.note", { role: "status" }, say("agent.keyOnce", { name: made.name })),
    isAccount && !made && h("p.choices", null, h("button.primary", { type: "button", disabled: making, on: { click: makeKey } }, say("agent.makeKey")), h("span.small", null, say("agent.makeKeyHint"))),
    state.session?.caller === "operator" && h("p.small", null, say("agent.operatorKey")),
    state.session?.caller === "local" && h("p.small", null, say("agent.noKeyNeeded")));
}

function choose(changes) {
  chosen = { ...chosen, ...changes };
  if (changes.client) remember("client", changes.client);
  set({});
}

const addressOf = ({ toolset, readOnly }) => `${location.origin}/mcp${toolset && `/${toolset}`}${readOnly ? "/readonly" : ""}`;

function codeView(where, code) {
  const id = `code-${where}`;
  return h("figure.code", { key: where },
    h("figcaption", null, where === "terminal" ? say("agent.inTerminal") : where === "address" ? say("agent.theAddress") : say("agent.inFile", { file: where })),
    h("pre", { tabindex: 0, id, dir: "ltr", "aria-label": say("agent.linesFor", { name: nameOf(chosen.client) }) }, code),
    h("button.button", { type: "button", on: { click: () => copy(code, id) } }, state.copied === id ? say("copied") : say("agent.copyLines")));
}

async function makeKey() {
  making = true;
  set({});
  try {
    const name = nameOf(chosen.client), issued = await api.createKey(name);
    made = { secret: issued.api_key, name };
    problem = null;
  } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  making = false;
  set({});
}

/** Seconds, while an agent is being connected; later the same words as everywhere. */
function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  return seconds < 90 ? say("agent.secondsAgo", { n: seconds }) : when(time);
}

/** The agent that the person waits for: by its name, or whoever came since the page was opened. */
function expected() {
  const { introduces } = CLIENTS[chosen.client];
  return seen.find((agent) => introduces.test(agent.client)) ?? seen.find((agent) => Date.parse(agent.first_seen) > began);
}

function statusView() {
  const agent = expected(), name = nameOf(chosen.client);
  if (!agent) return h("p.arrival", { key: "arrival", role: "status" }, h("i.dot.waits", { "aria-hidden": "true" }), h("span", null, say("agent.waitingFor", { name })));
  const tools = (toolsets ?? []).filter(({ name: each }) => agent.toolset.split(",").includes(each)).reduce((sum, each) => sum + each.tools.length, 0);
  const facts = [say("agent.connectedAgo", { when: ago(agent.last_seen) }), tools > 0 && say("agent.toolCount", { n: tools }), agent.last_tool && say("agent.lastCalled", { tool: agent.last_tool })].filter(Boolean).join(" · ");
  return h("p.arrival.here", { key: "arrival" }, h("i.dot", { "aria-hidden": "true" }), h("span", null, h("strong", null, clean(agent.client || name, 60)), " ", h("span", null, facts)), h("span.hidden", { role: "status" }, say("agent.hasConnected", { name: clean(agent.client || name, 60) })));
}

const HELP = { no_key: "noKey", wrong_key: "wrongKey", expired_key: "expiredKey", host: "host", origin: "origin", too_many: "tooMany", toolset: "toolset", transport: "transport", other: "other" };

/** Refused attempts of the last minutes, with what to do. */
function helpView() {
  const recent = refused.filter(({ last_at: at }) => Date.now() - Date.parse(at) < RECENT_MS).slice(0, 5);
  if (!recent.length) return null;
  return h("section", { key: "help" }, h("h2", null, say("agent.refusedTitle")), h("ul.rows", null, recent.map((each) => {
    const key = HELP[each.reason] ?? "other", who = clean(each.client || say("agent.somebody"), 60), facts = [each.address, each.path, each.attempts > 1 && say("agent.attempts", { n: each.attempts })].filter(Boolean).join(" · ");
    return h("li.row.bad", { key: each.id }, h("i.dot", { "aria-hidden": "true" }),
      h("div.about", null, h("p.text", null, say(`agent.refused.${key}`, { who, detail: clean(each.detail, 80), when: ago(each.last_at) })), h("p.hint", null, say(`agent.refusedHint.${key}`)), facts && h("p.hint", null, facts)),
      h("span.time", null), h("div.acts", null));
  })));
}

function seenView() {
  return h("section", { key: "seen" }, h("h2", null, say("agent.seenTitle")),
    seen.length === 0 ? h("p.none", null, say("agent.noneSeen")) : h("ul.rows", null, seen.map((agent) => h("li", { key: agent.id, class: Date.now() - Date.parse(agent.last_seen) < RECENT_MS ? "row good" : "row off" },
      h("i.dot", { "aria-hidden": "true" }),
      h("div.about", null,
        h("p.name", null, clean(agent.client || say("agent.unnamed"), 60), " ", h("span.small", null, clean(agent.version, 30))),
        h("p.text", null, [agent.toolset, agent.transport === "http" ? null : agent.transport, agent.key_name ? say("agent.withKey", { name: clean(agent.key_name, 60) }) : agent.caller === "key" ? say("agent.withOperatorKey") : null, say("agent.calls", { n: agent.calls }), agent.last_tool && say("agent.lastCalled", { tool: agent.last_tool })].filter(Boolean).join(" · "))),
      h("span.time", null, ago(agent.last_seen)), h("div.acts", null)))));
}
