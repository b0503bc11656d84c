/** Insight: how much happened, what was asked and not found, and which passages were marked. */
import * as api from "../api.js";
import { h } from "../dom.js";
import { problemView, waitingView } from "../parts/notice.js";
import { barPlot, linePlot } from "../parts/plots.js";
import { address, linkTo } from "../router.js";
import { clean } from "../snippet.js";
import { set, state } from "../store.js";
import { exactly, number, say, score, when } from "../words.js";

const PERIODS = { 24: "insight.periodDay", 168: "insight.periodWeek", 744: "insight.periodMonth" }, PER_PAGE = 50, SHOWN_RATINGS = 20;
let hours = 24, everybody = false, points = null, log = null, ratings = null, counts = null, problem = null, chosen = "unanswered", page = 1, sure = false;

const isAdmin = () => state.session?.caller !== "account" || state.session?.is_admin;

export async function enter() {
  [points, log, ratings, counts, problem, page, sure] = [null, null, null, null, null, 1, false];
  await Promise.all([loadHistory(), loadLog(), attempt(async () => { ratings = (await api.ratings()).ratings; }), isAdmin() && attempt(async () => { counts = await api.queryCounts(); })]);
}

async function attempt(work) {
  try { await work(); } catch (error) { problem = { status: error.status, message: error.message, hint: error.hint }; }
  set({});
}

const loadHistory = () => attempt(async () => { ({ points } = await api.history(hours, everybody)); });
const loadLog = () => attempt(async () => { log = await api.queries({ unanswered: chosen === "unanswered" ? "true" : null, page, per_page: PER_PAGE }); });

export const insightView = () => h("div.insight", { key: "insight" },
  h("header.head", null, h("div", null, h("a.quiet.up", { href: "/agents", on: linkTo("/agents") }, `‹ ${say("agents")}`), h("h1", null, say("insight")))),
  problem && problemView(problem, enter),
  points ? historyView() : !problem && waitingView(),
  log && logView(),
  ratings && ratingsView());

const pressed = (label, on, click) => h("button.chip", { key: label, type: "button", "aria-pressed": String(on), on: { click } }, label);

function historyView() {
  const choose = (changes) => { ({ hours = hours, everybody = everybody } = changes); loadHistory(); };
  return h("section", { key: "history" },
    h("div.head", null,
      h("div.chips", { role: "group", "aria-label": say("insight.period") }, Object.entries(PERIODS).map(([each, label]) => pressed(say(label), Number(each) === hours, () => choose({ hours: Number(each) })))),
      isAdmin() && h("div.chips", { role: "group", "aria-label": say("insight.whose") }, pressed(say("insight.mine"), !everybody, () => choose({ everybody: false })), pressed(say("insight.ofEverybody"), everybody, () => choose({ everybody: true })))),
    h("div.plots", null,
      plotView(say("insight.plotDocuments"), points.map((point) => point.documents), linePlot, lastOf),
      plotView(say("insight.plotSearches"), points.map((point) => point.searches), barPlot, sumOf),
      plotView(say("insight.plotLatency"), points.map((point) => point.mean_ms), linePlot, latencyOf),
      plotView(say("insight.plotQueue"), points.map((point) => point.queued), linePlot, lastOf)),
    h("details.small", null, h("summary", null, say("insight.asTable")), tableView()));
}

const lastOf = (values) => { const known = values.filter((value) => value !== null); return known.length ? number(known.at(-1)) : "–"; };
const sumOf = (values) => number(values.reduce((sum, value) => sum + value, 0));
const latencyOf = (values) => { const known = values.filter((value) => value !== null); return known.length ? say("insight.milliseconds", { ms: number(Math.round(known.at(-1))) }) : "–"; };

const plotView = (label, values, plot, summary) => h("figure", { key: label }, h("figcaption", null, h("span", null, label), h("strong", null, summary(values))), plot(values));

function tableView() {
  const cell = (value, decimals = false) => h("td", null, value === null ? "–" : number(decimals ? Math.round(value) : value));
  return h("div.table", { tabindex: 0, role: "region", "aria-label": say("insight.asTable") }, h("table", null,
    h("thead", null, h("tr", null, ["insight.tableFrom", "insight.plotDocuments", "insight.plotSearches", "insight.plotLatency", "insight.tableSlowest", "insight.plotQueue"].map((key) => h("th", { key, scope: "col" }, say(key))))),
    h("tbody", null, points.map((point) => h("tr", { key: point.at }, h("th", { scope: "row" }, exactly(point.at)), cell(point.documents), cell(point.searches), cell(point.mean_ms, true), cell(point.slowest_ms, true), cell(point.queued))))));
}

function logView() {
  const pages = Math.max(1, Math.ceil(log.total / PER_PAGE));
  return h("section", { key: "log" },
    h("div.head", null, h("h2", null, say(chosen === "unanswered" ? "insight.notFoundTitle" : "insight.askedTitle")),
      log.enabled && h("div.chips", { role: "group", "aria-label": say("insight.whichQuestions") }, pressed(say("insight.notFoundOnly"), chosen === "unanswered", () => show("unanswered")), pressed(say("insight.allQuestions"), chosen !== "unanswered", () => show("all")))),
    counts && h("p.small", null, say("insight.everybodyAsked", { n: counts.questions, searches: counts.searches, unanswered: counts.unanswered })),
    !log.enabled && h("p.note", null, say("insight.logOff"), " ", h("code", null, "KNOWLEDGE_QUERY_LOG=1")),
    log.enabled && log.queries.length === 0 && h("p.none", null, say(chosen === "unanswered" ? "insight.allFound" : "insight.noQuestions")),
    h("ul.rows", null, log.queries.map(queryView)),
    pages > 1 && h("nav.turn", { "aria-label": say("insight.logPages") },
      h("button.quiet", { type: "button", disabled: page <= 1, on: { click: () => turn(page - 1) } }, say("insight.logNewer")), `${number(page)} / ${number(pages)}`,
      h("button.quiet", { type: "button", disabled: page >= pages, on: { click: () => turn(page + 1) } }, say("insight.logOlder"))),
    (log.enabled || log.total > 0) && h("p.small.forget", null, say("insight.logKept", { n: log.kept_days }), " ",
      sure ? [h("button.quiet", { key: "yes", type: "button", on: { click: forget } }, say("insight.forgetSure")), h("button.quiet", { key: "no", type: "button", on: { click: () => { sure = false; set({}); } } }, say("insight.keepLog"))]
        : h("button.quiet", { key: "ask", type: "button", on: { click: () => { sure = true; set({}); } } }, say("insight.forgetLog"))));
}

function show(which) { [chosen, page] = [which, 1]; loadLog(); }
function turn(to) { page = to; loadLog(); }
async function forget() { sure = false; await attempt(() => api.forgetQueries()); loadLog(); }

function queryView(each) {
  const search = address("/", { q: each.query }), add = address("/add", { what: "note", title: each.query.slice(0, 300) });
  return h("li", { key: each.query, class: each.answered ? "row good" : "row part" },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null, h("p.name", { dir: "auto" }, h("a.out", { href: search, on: linkTo(search) }, clean(each.query, 200))),
      h("p.text", null, say("insight.askedTimes", { n: each.count }), " · ", each.best === null ? say("insight.nothingNear") : say("insight.bestScore", { score: score(each.best) }))),
    h("span.time", null, when(each.last_at)),
    h("div.acts", null, h("a.quiet", { href: add, "aria-label": say("insight.addAnswerTo", { query: clean(each.query, 80) }), on: linkTo(add) }, say("insight.addAnswer"))));
}

function ratingsView() {
  const good = ratings.filter((each) => each.good).length;
  return h("section", { key: "ratings" }, h("h2", null, say("insight.marksTitle")),
    h("p.small", null, ratings.length ? say("insight.marksLine", { good, bad: ratings.length - good }) : say("insight.noMarks"), ratings.length > 0 && [" ", h("code", { key: "command" }, "knowledge eval --feedback")]),
    h("ul.rows", null, ratings.slice(0, SHOWN_RATINGS).map((each) => {
      const to = `/d/${each.document_uid}`;
      return h("li", { key: `${each.query} ${each.chunk_uid}`, class: each.good ? "row good" : "row bad" }, h("i.dot", { "aria-hidden": "true" }),
        h("div.about", null, h("p.name", { dir: "auto" }, clean(each.query, 160)), h("p.hint", null, say(each.good ? "insight.markedRight" : "insight.markedWrong"), " ", h("a.out", { href: to, on: linkTo(to) }, clean(each.title, 120)))),
        h("span.time", null, when(each.rated_at)), h("div.acts", null, h("button.quiet", { type: "button", "aria-label": say("insight.unmarkIn", { title: clean(each.title, 80) }), on: { click: () => unmark(each) } }, say("insight.unmark"))));
    })));
}

const unmark = (each) => attempt(async () => {
  await api.rate(each.query, each.chunk_uid, null);
  ratings = ratings.filter((other) => other !== each);
});
