/** Everything that the server works on, live, with reasons for what failed. */
import * as api from "../api.js";
import { isRunning } from "../api.js";
import { h } from "../dom.js";
import { problemView, waitingView } from "../parts/notice.js";
import { rowsOf, rowView } from "../parts/job.js";
import { address, go, linkTo } from "../router.js";
import { set, state } from "../store.js";
import { isUnsent } from "../uploads.js";
import { number, say } from "../words.js";

const PER_PAGE = 50;
let older = { key: null, jobs: null, total: 0, problem: null };

/** Load the jobs of page one; events keep them current. */
export async function enter() {
  older = { key: null, jobs: null, total: 0, problem: null };
  await load();
}

export async function load() {
  const show = state.route.params.show ?? "", page = Number(state.route.params.page ?? 1), key = `${show}/${page}`;
  if (show === "running") { older = { key, jobs: [], total: 0, problem: null }; return set({}); }
  try {
    const found = await api.jobs({ per_page: PER_PAGE, page, status: show === "failed" ? "failed" : null });
    older = { key, jobs: found.jobs, total: found.total, problem: null };
    const jobs = new Map(state.jobs);
    for (const job of found.jobs) jobs.set(job.uid, job);
    set({ jobs });
  } catch (error) {
    older = { ...older, key, problem: { status: error.status, message: error.message, hint: error.hint } };
    set({});
  }
}

export function activityView() {
  const show = state.route.params.show ?? "", page = Number(state.route.params.page ?? 1), key = `${show}/${page}`;
  if (older.key !== key && older.asked !== key) { older.asked = key; load(); }
  const uploads = [...state.uploads.values()], jobs = [...state.jobs.values()], running = jobs.filter(isRunning);
  const unsent = uploads.filter((upload) => isUnsent(upload) && !state.jobs.has(upload.uid));
  const rows = rowsFor(show, page, uploads, jobs);
  const failed = state.status?.queue.failed ?? 0, ready = older.key === key && older.jobs !== null;
  return h("div.activity", { key: "activity" },
    h("header.head", null, h("h1", null, say("activity")), connectionView()),
    h("div.head", null,
      h("div.chips", { role: "group", "aria-label": say("show") },
        chip("", say("all")), chip("running", say("running"), running.length + unsent.length), chip("failed", say("failedOnes"), failed)),
      failed > 0 && show === "failed" && h("button.quiet", { type: "button", on: { click: retryAll } }, say("againAll"))),
    state.retried && h("p.note", { role: "status" }, state.retried),
    older.problem && problemView(older.problem, load),
    !ready && !older.problem && !rows.length && waitingView(),
    ready && !rows.length && h("p.none", null, say(show === "failed" ? "noneFailed" : show === "running" ? "noneRunning" : "noJobs")),
    h("ul.rows", null, rows.map(rowView)),
    ready && pagesView(show, page));
}

function rowsFor(show, page, uploads, jobs) {
  if (page > 1) return rowsOf([], (older.jobs ?? []).map((job) => state.jobs.get(job.uid) ?? job));
  const rows = rowsOf(uploads, jobs);
  if (show === "running") return rows.filter(({ upload, job }) => (job ? isRunning(job) : isUnsent(upload)));
  if (show === "failed") return rows.filter(({ upload, job }) => (job ? job.status === "failed" : upload.status === "failed" || upload.status === "refused"));
  return rows.slice(0, Math.max(PER_PAGE, uploads.length));
}

function chip(show, label, count) {
  const to = address("/activity", { show: show || null }), current = (state.route.params.show ?? "") === show;
  return h("a.chip", { key: show, href: to, "aria-current": current ? "true" : null, on: linkTo(to) }, label, count !== undefined && h("span", null, ` ${number(count)}`));
}

function connectionView() {
  const live = state.connection === "live";
  return h("p.live", { class: live ? "on" : "off", role: "status" }, h("i.dot", { "aria-hidden": "true" }), live ? say("live") : say("connecting"));
}

async function retryAll() {
  try {
    const { retried, refused } = await api.retryAll();
    set({ retried: refused.length ? `${say("retried", { n: retried })} ${say("notRetried", { n: refused.length, reason: refused[0].message })}` : say("retried", { n: retried }) });
    await load();
  } catch (error) {
    set({ retried: `${error.message} ${error.hint}` });
  }
}

function pagesView(show, page) {
  const pages = Math.ceil(older.total / PER_PAGE);
  if (pages < 2) return null;
  const to = (number) => address("/activity", { show: show || null, page: number > 1 ? number : null });
  return h("nav.turn", { "aria-label": say("pagesOf") },
    h("button.quiet", { type: "button", disabled: page <= 1, on: { click: () => go(to(page - 1)) } }, say("newer")),
    h("span", null, say("pageOf", { page: number(page), pages: number(pages) })),
    h("button.quiet", { type: "button", disabled: page >= pages, on: { click: () => go(to(page + 1)) } }, say("olderOnes")));
}
