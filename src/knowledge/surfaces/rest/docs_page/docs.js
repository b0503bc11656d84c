/* Lists the calls of openapi.json. */

const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};
const resolve = (api, schema) => {
  while (schema && schema.$ref) schema = schema.$ref.split("/").slice(1).reduce((at, key) => at[key], api);
  return schema || {};
};
const typeOf = (api, schema) => {
  const found = resolve(api, schema);
  if (found.enum) return found.enum.join(" | ");
  if (found.anyOf) return found.anyOf.map(each => typeOf(api, each)).join(" | ");
  if (found.type === "array") return `list of ${typeOf(api, found.items)}`;
  return found.type || "any";
};
const table = (rows) => {
  const body = make("table");
  for (const [name, type, text] of rows) {
    body.append(make("tr", "", make("td", "", make("code", name)), make("td", type), make("td", text)));
  }
  return body;
};
const fieldsOf = (api, schema) => {
  const found = resolve(api, schema), needed = found.required || [];
  return Object.entries(found.properties || {}).map(([name, field]) => [
    name + (needed.includes(name) ? " *" : ""), typeOf(api, field), field.description || ""]);
};
const show = (api, path, method, call) => {
  const head = make("summary", "", make("span", method.toUpperCase()), make("code", path), make("span", ` — ${call.description || ""}`));
  head.firstChild.className = "method";
  const card = make("details", "", head);
  const given = (call.parameters || []).map(each => [
    each.name + (each.required ? " *" : ""), `${each.in}: ${typeOf(api, each.schema)}`, each.description || ""]);
  if (given.length) card.append(make("h4", "Parameters"), table(given));
  for (const [kind, body] of Object.entries((call.requestBody || {}).content || {})) {
    card.append(make("h4", `Body (${kind})`), table(fieldsOf(api, body.schema)));
  }
  for (const [status, reply] of Object.entries(call.responses || {})) {
    const content = Object.values(reply.content || {})[0];
    const rows = content && status < 300 ? fieldsOf(api, content.schema) : [];
    card.append(make("h4", `${status} ${reply.description || ""}`));
    if (rows.length) card.append(table(rows));
  }
  return card;
};
fetch("openapi.json").then(reply => reply.json()).then(api => {
  const calls = document.getElementById("calls");
  calls.textContent = "";
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, call] of Object.entries(methods)) calls.append(show(api, path, method, call));
  }
}).catch(() => { document.getElementById("calls").textContent = "openapi.json could not be read."; });
