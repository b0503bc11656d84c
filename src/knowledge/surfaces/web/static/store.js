/** The state of the page: one object. `set` changes it and draws once, after everything that happens at the same time. */

export const state = {
  route: { page: "search", params: {} },
  session: null,
  status: null,
  recent: null,
  question: "",
  filters: {},
  answer: null,
  asking: false,
  slow: false,
  searchProblem: null,
  chosen: -1,
  explained: new Set(),
  marked: new Map(),
  reader: null,
  jobs: new Map(),
  uploads: new Map(),
  connection: "connecting",
  gone: false,
  login: null,
  theme: "auto",
  letters: true,
  dialog: null,
  said: "",
};

const listeners = new Set();
let waiting = false;

/** Change the state and draw the page afterwards. */
export function set(changes) {
  Object.assign(state, changes);
  if (waiting) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    for (const listener of listeners) listener();
  });
}

/** Call a function after each change. */
export function listen(listener) {
  listeners.add(listener);
}

/** Remember a choice of this browser, such as the colours; private windows may refuse it. */
export function remember(name, value) {
  try { localStorage.setItem(`knowledge.${name}`, value); } catch { /* it lasts until the page is closed */ }
}

export function recall(name, otherwise) {
  try { return localStorage.getItem(`knowledge.${name}`) ?? otherwise; } catch { return otherwise; }
}
