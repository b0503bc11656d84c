/** The page: draws the state, follows the address, and keeps both in step with the server. */
import * as api from "./api.js";
import { isRunning } from "./api.js";
import { arrange, ask, FILTERS } from "./asking.js";
import { h, render } from "./dom.js";
import { applyTheme, barView, listenToDrops, overlayView } from "./frame.js";
import { listenToKeys } from "./keys.js";
import { need } from "./later.js";
import { follow, restart } from "./live.js";
import { waitingView } from "./parts/notice.js";
import { foundLine, searchView } from "./pages/search.js";
import { arrive as arriveAtReader } from "./reading.js";
import { here, start } from "./router.js";
import { clean } from "./snippet.js";
import { listen, recall, set, state } from "./store.js";
import { language, say } from "./words.js";

const REST_MS = 400, REFRESH_MS = 300, RETRY_MS = 3000, AHEAD_MS = 500;
const VIEWS = { add: "addView", activity: "activityView", crawl: "crawlView", settings: "settingsView", library: "libraryView", edit: "editView", map: "mapView", agents: "agentsView", people: "peopleView", insight: "insightView" };
const root = document.getElementById("app");

function pageView() {
  const { route, reader } = state;
  if (isShut() || route.page === "login") return loginPage();
  if (route.page === "search") return h("main", { key: "search", id: "main", tabindex: -1, class: reader ? "split" : null }, searchView(), reader && readerView(false));
  if (route.page === "document") return h("main.single", { key: "document", id: "main", tabindex: -1 }, readerView(true));
  const module = allowed() && need(route.page);
  return h("main", { key: route.page, id: "main", tabindex: -1 }, module ? module[VIEWS[route.page]]() : waitingView());
}

const readerView = (alone) => need("reader")?.readerView(alone) ?? h("div.reader", { key: "reader" }, waitingView());

function loginPage() {
  const module = need("login");
  return h("main.entry", { key: "login", id: "main", tabindex: -1 }, module ? module.loginView(loggedIn) : waitingView());
}

/** Over the page when a session has ended: what was typed stays behind it. */
function loginDialog() {
  const module = state.login && !isShut() && need("login");
  if (!module) return null;
  const keep = (event) => event.preventDefault();
  return h("dialog.entry", { key: "login-dialog", "aria-label": say("logIn"), ref: (dialog) => queueMicrotask(() => dialog.isConnected && dialog.showModal()), on: { cancel: keep } }, module.loginView(loggedIn, true));
}

function draw() {
  render(root, !isShut() && barView(), pageView(), !isShut() && overlayView(), loginDialog());
  const title = titleOf(state.route);
  if (document.title !== title) document.title = title;
  announce();
}

let resting = 0, spoken = "";
/** Tell screen readers what was found, when the typing rests. */
function announce() {
  const { answer } = state, text = answer && !state.asking && state.route.page === "search" ? foundLine({ ...answer, took: undefined }, arrange(answer)) : "";
  if (!text || text === spoken) return;
  clearTimeout(resting);
  resting = setTimeout(() => { spoken = text; set({ said: text }); }, REST_MS);
}

function arrive() {
  const route = here(), changed = route.page !== state.route.page || route.path !== state.route.path;
  const question = route.params.q ?? "", filters = Object.fromEntries(FILTERS.filter((name) => route.params[name]).map((name) => [name, route.params[name]]));
  const at = route.params.at === undefined || !/^\d{1,9}$/.test(route.params.at) ? null : Number(route.params.at);
  if (route.page === "search") {
    const other = question !== state.question.trim() || JSON.stringify(filters) !== JSON.stringify(state.filters);
    set({ route, filters, ...(other && { question, chosen: -1 }) });
    if (allowed() && (other || (question && !state.answer))) ask();
    if (allowed()) arriveAtReader(route.params.d ?? null, at, question, route.params.view);
  } else if (route.page === "document") {
    set({ route, question });
    if (allowed()) arriveAtReader(route.uid, at, question, route.params.view);
  } else {
    set({ route });
    arriveAtReader(null);
    const module = allowed() && need(route.page);
    if (changed && module) module.enter?.();
  }
  if (changed) scrollTo(0, 0);
  if (!refreshed && allowed()) refresh();
}

function titleOf(route) {
  const name = { add: say("add"), activity: say("activity"), crawl: say("crawl"), settings: say("settings"), library: say("library"), map: say("map"), agents: say("agents"), people: say("people"), insight: say("insight"), edit: say("edit"), login: say("logIn"), search: route.params.q, document: state.reader?.document ? clean(state.reader.document.title, 120) : null }[route.page];
  return name ? `${name} – Knowledge` : "Knowledge";
}

let refreshed = false, refreshing = 0;
/** Load how much there is and what is new, for the home page and the counts. */
async function refresh() {
  refreshed = true;
  const [status, recent] = await Promise.allSettled([api.status(), state.route.page === "search" && !state.question ? api.documents({ per_page: 8, sort: "created_at", order: "desc" }) : null]);
  if (status.status === "fulfilled") set({ status: status.value });
  if (recent.status === "fulfilled" && recent.value) set({ recent: recent.value.documents });
  else if (recent.status === "fulfilled") refreshed = false;
}

function refreshSoon() {
  clearTimeout(refreshing);
  refreshing = setTimeout(refresh, REFRESH_MS);
}

const isShut = () => Boolean(state.session?.login_required && !state.session.caller);
const allowed = () => state.session && !isShut();

/** Take over an event of the server. */
function take(kind, data) {
  if (kind === "hello") greet(data);
  else if (kind === "reset") { reloadJobs(); refreshSoon(); }
  else if (kind === "job") {
    const before = state.jobs.get(data.uid);
    set({ jobs: new Map(state.jobs).set(data.uid, data) });
    if (!isRunning(data) && (!before || isRunning(before))) refreshSoon();
  } else if (kind === "document") refreshSoon();
  if (VIEWS[state.route.page]) need(state.route.page)?.take?.(kind, data);
}

/** A new connection: jobs that ended meanwhile are not in the list of unfinished ones, so ask for them. */
function greet({ jobs: unfinished = [] }) {
  const jobs = new Map(state.jobs), alive = new Set(unfinished.map((job) => job.uid));
  const ended = [...jobs.values()].some((job) => isRunning(job) && !alive.has(job.uid));
  for (const job of unfinished) jobs.set(job.uid, job);
  set({ jobs });
  if (ended) { reloadJobs(); refreshSoon(); }
}

async function reloadJobs() {
  try {
    const { jobs: found } = await api.jobs({ per_page: 50 }), jobs = new Map([...state.jobs].filter(([, job]) => !isRunning(job)));
    for (const job of found) jobs.set(job.uid, job);
    set({ jobs });
  } catch { /* the next connection tries again */ }
}

let waiting = null;
/** Ask for a login once, however many calls wait for it. */
function expired() {
  waiting ??= new Promise((resolve) => set({ login: { resolve } }));
  return waiting;
}

function loggedIn(session) {
  const before = state.session;
  state.login?.resolve();
  waiting = null;
  const other = before?.caller && (before.caller !== session.caller || before.username !== session.username);
  if (other) return location.assign("/");
  set({ session, login: null });
  if (!before?.caller) {
    if (state.route.page === "login") { history.replaceState(null, "", "/"); }
    refreshed = false;
    arrive();
  }
  followEvents();
}

let following = false;
function followEvents() {
  if (following) return restart();
  following = true;
  return follow(take, (connection) => set({ connection }), async () => Boolean((await api.session()).caller) || expired());
}

let trying = 0;
/** The server does not answer: say so, keep everything, and try again. */
function reached(answered) {
  if (answered === !state.gone) return;
  set({ gone: !answered });
  clearTimeout(trying);
  if (!answered) tryAgain();
  else if (state.searchProblem?.status === 0) ask();
}

function tryAgain() {
  trying = setTimeout(async () => {
    if (document.hidden) return tryAgain();
    try { await begin(); } catch { /* still gone */ }
    if (state.gone) tryAgain();
  }, RETRY_MS);
}

/** Learn who is asking and what the server takes. */
async function begin() {
  const session = await api.session();
  const first = !state.session;
  set({ session });
  if (!first || isShut()) return;
  arrive();
  followEvents();
}

const theme = recall("theme", "auto");
applyTheme(theme);
document.documentElement.lang = language;
set({ theme, letters: recall("letters", "on") === "on", language: recall("language", "auto"), target: {}, trayOpen: true });
api.configure({ expired, reached });
listen(draw);
start(arrive);
listenToKeys();
listenToDrops();
begin().catch(() => {});
setTimeout(() => need("reader"), AHEAD_MS);
if (state.route.page === "search" && !state.reader && matchMedia("(pointer: fine)").matches) requestAnimationFrame(() => document.getElementById("q")?.focus());
