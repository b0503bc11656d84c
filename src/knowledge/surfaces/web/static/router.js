/** Addresses: which page an address shows, and going to another one without loading the page again. */

const UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

/** The same addresses as PAGE_PATHS in pages.py, by page. */
export const ADDRESSES = {
  search: "/",
  document: "/d/{uid:uuid}",
  edit: "/d/{uid:uuid}/edit",
  library: "/library",
  map: "/map",
  add: "/add",
  activity: "/activity",
  crawl: "/activity/crawls/{uid:uuid}",
  agents: "/agents",
  insight: "/insight",
  people: "/people",
  settings: "/settings",
  login: "/login",
};

const PATTERNS = Object.entries(ADDRESSES).map(([page, address]) => [page, new RegExp(`^${address.replace("{uid:uuid}", `(?<uid>${UUID})`)}$`)]);

/** Return the page of an address and its parameters; unknown addresses are the search. */
export function parse(url) {
  const params = Object.fromEntries(url.searchParams);
  for (const [page, pattern] of PATTERNS) {
    const found = pattern.exec(url.pathname);
    if (found) return { page, uid: found.groups?.uid ?? null, params, path: url.pathname };
  }
  return { page: "search", uid: null, params, path: "/" };
}

export function here() {
  return parse(new URL(location.href));
}

/** Build an address from a path and parameters, leaving out empty ones. */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== "") query.set(name, value);
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

let arrive = () => {};

/** Start: `arrived` runs after each change of the address, also by the browser's back and forward. */
export function start(arrived) {
  arrive = arrived;
  addEventListener("popstate", () => arrive());
  arrive();
}

export function go(to, { replace = false, state = null } = {}) {
  if (to === location.pathname + location.search) replace = true;
  history[replace ? "replaceState" : "pushState"](state, "", to);
  arrive();
}

/** Change the address without drawing another page. */
export function rewrite(to, { push = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[push ? "pushState" : "replaceState"](history.state, "", to);
}

/** The listeners of a link inside the page; a modifier key or another button leaves the click to the browser. */
export function linkTo(to, before = null) {
  return {
    click(event) {
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      before?.();
      go(to);
    },
  };
}
