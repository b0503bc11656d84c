/**
 * Draws a page from a description of it. `h` describes an element, `render` changes the document to match.
 *
 * Strings only ever become text nodes and attribute values, so nothing that a document contains is parsed as HTML.
 * Attributes that could run a script are refused: event attributes, `style` as text, `srcdoc`, and links with a scheme
 * other than http, https or an address of this server.
 */

const SVG = "http://www.w3.org/2000/svg";
const LINK_ATTRIBUTES = new Set(["href", "src", "action", "formaction", "xlink:href"]);
const PROPERTIES = new Set(["value", "checked", "indeterminate", "scrollTop", "open"]);
const NOT_ATTRIBUTES = new Set(["key", "on", "ref"]);
const DRAWN = Symbol("drawn");

/**
 * Describe an element.
 * @param {string} tag Name, with classes: "p", "button.quiet", "svg".
 * @param {object|null} props Attributes; `key`, `on: {event: listener}`, `css: {property: value}`, `ref: function`.
 * @param {...*} children Descriptions, strings, numbers, lists of them; null, undefined, true and false draw nothing.
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const given = props ?? {};
  const all = [...classes, given.class].filter(Boolean).join(" ");
  return { name, key: given.key ?? null, props: all ? { ...given, class: all } : given, children: flatten(children) };
}

/** Make the children of an element match descriptions. */
export function render(parent, ...children) {
  patchChildren(parent, flatten(children), parent.namespaceURI === SVG);
}

/** Whether an address may be put into a link: http, https, or a path on this server. */
export function isSafeAddress(address) {
  const text = String(address);
  if (/[\u0000-\u0020]/.test(text)) return false;
  if (/^[/?#](?![/\\])/.test(text) || text === "") return true;
  return /^https?:\/\/[^\s\\]+$/i.test(text);
}

function flatten(children, into = []) {
  for (const child of children) {
    if (Array.isArray(child)) flatten(child, into);
    else if (child === null || child === undefined || child === true || child === false) continue;
    else into.push(typeof child === "object" ? child : String(child));
  }
  return into;
}

function patchChildren(parent, wanted, inSvg) {
  const keyed = new Map(), free = [];
  for (const node of [...parent.childNodes]) {
    const key = node[DRAWN]?.key ?? null;
    if (key !== null) keyed.set(key, node);
    else free.push(node);
  }
  const placed = new Set();
  let next = 0, before = null;
  for (const child of wanted) {
    let node = null;
    if (typeof child === "object" && child.key !== null) {
      node = keyed.get(child.key) ?? null;
      if (node && (placed.has(node) || !fits(node, child))) node = null;
    } else {
      const at = free.findIndex((other, index) => index >= next && fits(other, child));
      if (at >= 0) { node = free[at]; next = at + 1; }
    }
    node = node ? patch(node, child, inSvg) : create(child, inSvg);
    placed.add(node);
    const at = before ? before.nextSibling : parent.firstChild;
    if (node !== at) parent.insertBefore(node, at);
    before = node;
  }
  for (const node of [...parent.childNodes]) if (!placed.has(node)) node.remove();
}

function fits(node, child) {
  if (typeof child === "string") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === child.name && (node[DRAWN]?.key ?? null) === child.key;
}

function create(child, inSvg) {
  if (typeof child === "string") return document.createTextNode(child);
  const svg = inSvg || child.name === "svg";
  const node = svg ? document.createElementNS(SVG, child.name) : document.createElement(child.name);
  node[DRAWN] = { key: child.key, props: {}, listeners: {} };
  patch(node, child, svg);
  child.props.ref?.(node);
  return node;
}

function patch(node, child, inSvg) {
  if (typeof child === "string") {
    if (node.data !== child) node.data = child;
    return node;
  }
  node[DRAWN] ??= { key: child.key, props: {}, listeners: {} };
  const drawn = node[DRAWN], props = child.props;
  listen(node, drawn.listeners, props.on ?? {});
  patchChildren(node, child.children, inSvg || child.name === "svg");
  for (const name of Object.keys(drawn.props)) if (!(name in props) && !NOT_ATTRIBUTES.has(name)) setAttribute(node, name, null);
  for (const [name, value] of Object.entries(props)) {
    if (NOT_ATTRIBUTES.has(name)) continue;
    if (name === "css") setStyles(node, drawn.props.css ?? {}, value);
    else if (PROPERTIES.has(name)) setProperty(node, name, value);
    else if (drawn.props[name] !== value) setAttribute(node, name, value);
  }
  drawn.props = props;
  return node;
}

/** One listener per event stays on the element and calls the newest function, so that drawing again costs nothing. */
function listen(node, listeners, wanted) {
  for (const [event, listener] of Object.entries(wanted)) {
    if (!(event in listeners)) node.addEventListener(event, (given) => listeners[event]?.(given));
    listeners[event] = listener;
  }
  for (const event of Object.keys(listeners)) if (!(event in wanted)) listeners[event] = null;
}

function setProperty(node, name, value) {
  if (name === "open" && node.localName === "dialog") return;
  if (node[name] !== value) node[name] = value ?? "";
}

function setStyles(node, before, wanted) {
  for (const name of Object.keys(before)) if (!(name in wanted)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(wanted)) if (before[name] !== value) node.style.setProperty(name, value);
}

function setAttribute(node, name, value) {
  const lower = name.toLowerCase();
  if (lower.startsWith("on") || lower === "style" || lower === "srcdoc") throw new TypeError(`The attribute ${name} is refused`);
  if (name === "css") return node.removeAttribute("style");
  if (value === null || value === undefined || value === false) return node.removeAttribute(name);
  if (LINK_ATTRIBUTES.has(lower) && !isSafeAddress(value)) return node.removeAttribute(name);
  return node.setAttribute(name, value === true ? "" : String(value));
}
