/** One crawl, page by page, with the outcome of each address. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView, waitingView } from "../parts/notice.js";
import { address, go, linkTo } from "../router.js";
import { set, state } from "../store.js";
import { title } from "../snippet.js";
import { outward } from "../text.js";
import { number, say, when } from "../words.js";

const OUTCOMES = ["created", "updated", "unchanged", "skipped", "failed", "removed"];
const PER_PAGE = 50;
const EMPTY = { key: null, crawl: null, pages: [], total: 0, problem: null };
let shown = { ...EMPTY }, asked = null, turn = 0;

const keyOf = () => `${state.route.uid}/${state.route.params.outcome ?? ""}/${state.route.params.page ?? 1}`;

export const enter = () => { [shown, asked] = [{ ...EMPTY }, null]; };

/** Load the rows of the address; the answer to the newest question counts, however late the others come. */
export async function load() {
  const key = keyOf(), mine = ++turn, { uid, params } = state.route;
  asked = key;
  try {
    const [crawl, found] = await Promise.all([api.crawlReport(uid), api.crawlPages(uid, { outcome: params.outcome, page: params.page, per_page: PER_PAGE })]);
    if (mine !== turn) return;
    shown = { key, crawl, pages: found.pages, total: found.total, problem: null };
  } catch (error) {
    if (mine !== turn) return;
    const problem = { status: error.status, message: error.message, hint: error.hint };
    // rows of another filter would look like the answer
    shown = { ...shown, ...(shown.key === key ? {} : { pages: [], total: 0 }), key, problem };
  }
  set({});
}

/** Take over an event of the server. */
export function take(kind) {
  if (kind === "crawl") load();
}

export function crawlView() {
  const key = keyOf();
  if (shown.key !== key && asked !== key) load();
  const { crawl, problem } = shown, busy = shown.key !== key;
  if (problem && !crawl) return h("div.activity", { key: "crawl" }, h("h1", null, say("crawl")), problemView(problem, load));
  if (!crawl) return h("div.activity", { key: "crawl" }, h("h1", null, say("crawl")), waitingView());
  const running = crawl.status === "running" || crawl.status === "queued", page = Number(state.route.params.page ?? 1), pages = Math.ceil(shown.total / PER_PAGE);
  return h("div.activity", { key: "crawl" },
    h("a.quiet.up", { href: "/activity", on: linkTo("/activity") }, `‹ ${say("activity")}`),
    h("header.head", null, h("h1", null, say("crawl")), running ? h("button.quiet", { type: "button", on: { click: stop } }, say("cancel")) : h("button.quiet", { type: "button", on: { click: again } }, say("crawlAgain"))),
    h("p.facts", null, outward(crawl.url, crawl.url), " · ", when(crawl.created_at), crawl.collection && [" · ", say("inCollection", { name: crawl.collection.name })], " · ", limitsOf(crawl)),
    h("p.facts", { role: "status" }, running ? say("crawling", { n: crawl.pages_crawled, pending: crawl.pages_pending }) : say("crawledPages", { n: crawl.pages_crawled, failed: crawl.pages_failed, skipped: crawl.pages_skipped })),
    robotsView(crawl),
    running && h("progress", { max: 1, value: crawl.job.progress, "aria-label": say("progressOf", { name: crawl.url }) }),
    crawl.job.error && problemView(crawl.job.error),
    problem && problemView(problem, load),
    h("div.chips", { role: "group", "aria-label": say("show") }, chip("", say("all")), OUTCOMES.map((outcome) => chip(outcome, say(`outcome.${outcome}`)))),
    h("ul.rows", { "aria-busy": String(busy) }, shown.pages.map(pageView)),
    !shown.pages.length && !problem && !busy && h("p.none", null, say("noPages")),
    pages > 1 && h("nav.turn", { "aria-label": say("pagesOf") },
      h("button.quiet", { type: "button", disabled: page <= 1, on: { click: () => turnTo(page - 1) } }, say("previous")),
      h("span", null, say("pageOf", { page: number(page), pages: number(pages) })),
      h("button.quiet", { type: "button", disabled: page >= pages, on: { click: () => turnTo(page + 1) } }, say("next"))));
}

const turnTo = (page) => go(address(state.route.path, { outcome: state.route.params.outcome, page }));

function chip(outcome, label) {
  const to = address(state.route.path, { outcome: outcome || null });
  return h("a.chip", { key: outcome, href: to, "aria-current": (state.route.params.outcome ?? "") === outcome ? "true" : null, on: linkTo(to) }, label);
}

function pageView(page) {
  const kind = page.outcome === "failed" ? "bad" : page.outcome === "skipped" || page.outcome === "removed" ? "off" : "good";
  const repeats = page.detail === `HTTP ${page.http_status}`;
  const facts = [say(`outcome.${page.outcome}`), page.http_status && `HTTP ${page.http_status}`, !repeats && page.reason, page.chunk_count > 0 && say("passages", { n: page.chunk_count })].filter(Boolean).join(" · ");
  return h("li", { key: page.url, class: `row ${kind}` },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null, h("p.name", { title: page.url }, title(page.url, 200)), h("p.text", null, facts), page.detail && !repeats && h("p.hint", null, page.detail)),
    h("span.time", null),
    h("div.acts", null, page.document_uid && h("a.quiet", { href: `/d/${page.document_uid}`, on: linkTo(`/d/${page.document_uid}`) }, say("open"))));
}

const limitsOf = ({ recursive, max_pages: most, exclude_patterns: without }) => [recursive ? say("crawlLimit", { n: most }) : say("crawlOnePage"), without.length > 0 && say("crawlWithout", { patterns: without.join(", ") })].filter(Boolean).join(" · ");

/** What robots.txt said: how many addresses it forbids, and where they are listed. */
function robotsView(crawl) {
  const refused = crawl.pages.filter((page) => page.reason === "robots").length, to = address(state.route.path, { outcome: "skipped" });
  return h("p.facts", null, refused > 0 ? [say("robotsForbids", { n: refused }), " ", h("a.out", { href: to, on: linkTo(to) }, say("robotsWhich"))] : say("robotsAllows"));
}

/** Read the same site again into the same collection, with the same limits. */
async function again() {
  const { url, recursive, max_pages, exclude_patterns, collection } = shown.crawl;
  try {
    const started = await api.crawl({ url, recursive, max_pages, exclude_patterns: [...exclude_patterns], ...(collection && { source_id: collection.id }), job_uid: api.newUid() });
    go(`/activity/crawls/${started.uid}`);
  } catch (error) {
    shown = { ...shown, problem: { status: error.status, message: error.message, hint: error.hint } };
    set({});
  }
}

async function stop() {
  try { await api.cancelCrawl(state.route.uid); } catch (error) { set({ said: error.message }); }
  load();
}
