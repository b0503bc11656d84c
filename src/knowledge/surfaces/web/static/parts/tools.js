/** The tools of each toolset as agents see them, and a form to try one. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView } from "./notice.js";
import { set } from "../store.js";
import { number, say } from "../words.js";

const LONGEST_SHOWN = 60_000;
const LONG_TEXTS = new Set(["text", "note", "content", "body"]);
let tried = null;

/** Forget the form, when the page is entered. */
export const resetTools = () => { tried = null; };

export const toolsView = (toolsets) => h("section.tools-of", { key: "tools" },
  h("h2", null, say("agent.toolsTitle")),
  h("p.small", null, say("agent.toolsHint")),
  toolsets.map((toolset) => h("details.toolset", { key: toolset.name, name: "toolset" },
    h("summary", null, h("strong", null, toolset.name), h("span", null, ` ${say("agent.toolCount", { n: toolset.tools.length })}`), h("code", null, toolset.default ? "/mcp" : toolset.path)),
    toolset.instructions && h("p.small", null, toolset.instructions),
    h("ul.rows", null, toolset.tools.map((tool) => toolView(tool))))));

function toolView(tool) {
  const open = tried?.tool === tool.name;
  return h("li.tool", { key: tool.name },
    h("div.tool-head", null,
      h("code", null, tool.name),
      h("span.small", null, say(tool.destructive ? "agent.toolDeletes" : tool.read_only ? "agent.toolReads" : "agent.toolChanges")),
      h("button.quiet", { type: "button", "aria-expanded": String(open), "aria-label": say("agent.tryTool", { tool: tool.name }), on: { click: () => begin(open ? null : tool) } }, open ? say("agent.stop") : say("agent.try"))),
    h("p.small", null, tool.description),
    open && formView(tool));
}

function begin(tool) {
  tried = tool && { tool: tool.name, values: {}, agreed: !tool.destructive, busy: false, outcome: null, problem: null };
  set({});
}

/** The type of a parameter: the first one that is not null. */
function typeOf(schema) {
  if (schema.enum) return "enum";
  const named = [schema.type, ...(schema.anyOf ?? []).map((each) => each.type)].flat().filter((name) => name && name !== "null");
  return named[0] ?? "object";
}

function formView(tool) {
  const properties = Object.entries(tool.input_schema.properties ?? {}), required = new Set(tool.input_schema.required ?? []);
  return h("form.sheetform.trying", { on: { submit: (event) => { event.preventDefault(); run(tool); } } },
    properties.map(([name, schema]) => fieldView(name, schema, required.has(name))),
    tool.destructive && h("label.choice", null, h("input", { type: "checkbox", checked: tried.agreed, on: { change: (event) => { tried.agreed = event.target.checked; set({}); } } }), say("agent.agreeDelete")),
    h("div.choices", null, h("button.primary", { type: "submit", disabled: tried.busy || !tried.agreed }, say("agent.callTool"))),
    tried.problem && problemView(tried.problem),
    tried.outcome && h("div.outcome", { role: "status" },
      h("p.small", null, say(tried.outcome.is_error ? "agent.toolRefused" : "agent.toolAnswered", { ms: number(Math.round(tried.outcome.took_ms)) })),
      h("pre", { tabindex: 0, "aria-label": say("agent.toolJson"), dir: "ltr" }, shorten(JSON.stringify(tried.outcome.result, null, 2)))));
}

const shorten = (text) => (text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text);

function fieldView(name, schema, required) {
  const kind = typeOf(schema), value = tried.values[name];
  const take = (given) => { tried.values[name] = given; };
  const input = { name, required, on: { input: (event) => take(event.target.value) } };
  if (kind === "boolean") return h("label.choice", { key: name }, h("input", { type: "checkbox", name, checked: value ?? Boolean(schema.default), on: { change: (event) => take(event.target.checked) } }), name);
  const control = kind === "enum" ? h("select", { name, value: value ?? "", on: { change: (event) => take(event.target.value) } }, !required && h("option", { value: "" }, say("agent.notGiven")), schema.enum.map((each) => h("option", { key: each, value: each }, String(each))))
    : kind === "integer" || kind === "number" ? h("input", { type: "number", step: kind === "integer" ? 1 : "any", value: value ?? "", min: schema.minimum, max: schema.maximum, ...input })
      : kind === "object" || LONG_TEXTS.has(name) ? h("textarea", { rows: 3, value: value ?? "", placeholder: kind === "object" ? "{}" : null, ...input })
        : h("input", { type: "text", value: value ?? "", dir: "auto", ...input });
  return h("label.field", { key: name }, h("span", null, required ? say("agent.requiredName", { name }) : name), control, schema.description && h("small", null, schema.description), kind === "array" && h("small", null, say("agent.commas")));
}

/** The arguments as JSON; what was not filled in is left out. */
function collect(tool) {
  const given = {};
  for (const [name, schema] of Object.entries(tool.input_schema.properties ?? {})) {
    const value = tried.values[name], kind = typeOf(schema);
    if (value === undefined || value === "") continue;
    if (kind === "integer" || kind === "number") given[name] = Number(value);
    else if (kind === "array") given[name] = value.split(",").map((each) => each.trim()).filter(Boolean);
    else if (kind === "object") given[name] = JSON.parse(value);
    else given[name] = value;
  }
  return given;
}

async function run(tool) {
  const mine = tried;
  Object.assign(mine, { busy: true, outcome: null, problem: null });
  set({});
  try { mine.outcome = await api.callTool(tool.name, collect(tool)); } catch (error) {
    mine.problem = error instanceof SyntaxError ? { status: 400, message: say("agent.notJson"), hint: error.message } : { status: error.status, message: error.message, hint: error.hint };
  }
  mine.busy = false;
  set({});
}
