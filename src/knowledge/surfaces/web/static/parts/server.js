/** The server: its health in sentences, storage, index, other servers, and the work that keeps it well. */
import * as api from "../api.js";
import { isRunning } from "../api.js";
import { h } from "../dom.js";
import { set, state } from "../store.js";
import { clean } from "../snippet.js";
import { exactly, number, say, size, when } from "../words.js";
import { makeSection } from "./controls.js";
import { MAINTENANCE } from "./job.js";
import { problemView, waitingView } from "./notice.js";

const SHARES = ["files", "database", "index"];
const status = makeSection(async () => {
  const found = await api.status();
  set({ status: found });
  return found;
});
let started = null;

const isOperator = () => state.session?.caller !== "account";

export function enterServer() {
  started = null;
  status.load();
  if (state.session?.is_admin) loadJobs();
}

async function loadJobs() {
  const kinds = isOperator() ? [...MAINTENANCE] : ["verify", "reindex"], jobs = new Map(state.jobs);
  const found = await Promise.allSettled(kinds.map((kind) => api.jobs({ kind, per_page: 3 })));
  for (const { value } of found) for (const job of value?.jobs ?? []) jobs.set(job.uid, job);
  set({ jobs });
}

/** A job has ended: what the status says may have changed. */
export function refreshServer(kind, job) {
  if (kind === "reset" || (kind === "job" && MAINTENANCE.has(job.kind) && !isRunning(job))) status.load();
}

export function serverView() {
  const found = status.data;
  return [
    h("section", { key: "health" }, h("h2", null, say("srv.health")),
      status.problem && problemView(status.problem, status.load),
      !found && !status.problem && waitingView(),
      found && h("ul.sentences", null, sentences(found).map(([kind, text]) => h("li", { key: text, class: kind }, h("i.dot", { "aria-hidden": "true" }), text)))),
    found && h("section", { key: "storage" }, h("h2", null, say("srv.storage")), storageView(found.storage), found.data_path && h("p.small", null, say("srv.folder"), " ", h("code", null, found.data_path))),
    found?.servers.length > 0 && h("section", { key: "servers" }, h("h2", null, say("srv.servers")), h("ul.rows", null, found.servers.map(memberView))),
    state.session?.is_admin && h("section", { key: "care" }, h("h2", null, say("srv.care")),
      started && problemView(started),
      careView("verify"), careView("reindex"), isOperator() && careView("backup", found)),
    h("section", { key: "about" }, h("h2", null, say("aboutServer")),
      h("p", null, say("versionLine", { version: state.session?.version ?? found?.version ?? "" }), " ", found?.storage.database && say("srv.database", { name: found.storage.database }), " ", h("a", { href: "/docs" }, say("restDocs")))),
  ];
}

/** What is the matter, most important first; the server's own sentences stand as they are. */
function sentences(found) {
  const { model, queue, health } = found, said = health.issues.map((issue) => ["bad", clean(issue, 500)]);
  if (!said.length) said.push(["good", say("srv.well")]);
  said.push(found.chunks ? ["good", say("srv.holds", { n: found.chunks, documents: say("documents", { n: found.documents }) })] : ["good", say("empty")]);
  if (health.index_ok) said.push(["good", say("srv.indexReady")]);
  if (model.name === "none") said.push(["part", say("srv.noModel")]);
  else said.push(model.loaded ? ["good", say("srv.model", { name: clean(model.name, 80) })] : ["part", say("srv.modelLoading", { name: clean(model.name, 80) })]);
  if (model.next) said.push(["part", say("srv.nextModel", { name: clean(model.next.name, 80), left: model.next.left ?? 0 })]);
  if (found.chunks_without_vectors && model.name !== "none") said.push(["part", say("srv.wordsOnly", { n: found.chunks_without_vectors })]);
  said.push(queue.queued + queue.processing ? ["part", say("srv.queue", { n: queue.queued + queue.processing })] : ["good", say("srv.noQueue")]);
  if (queue.failed) said.push(["bad", say("srv.failed", { n: queue.failed })]);
  return said;
}

function storageView(storage) {
  const shares = SHARES.map((name) => [name, storage[`${name}_bytes`]]).filter(([name, bytes]) => name === "files" || bytes), used = shares.reduce((sum, [, bytes]) => sum + bytes, 0);
  let at = 0;
  return h("div.storage", null,
    shares.length > 1 && h("svg", { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" }, h("rect.bg", { x: 0, y: 0, width: 100, height: 1 }), shares.map(([name, bytes]) => {
      const width = used ? (100 * bytes) / used : 0, x = at;
      at += width;
      return h("rect", { key: name, class: name, x, y: 0, width, height: 1 });
    })),
    h("dl", null, shares.map(([name, bytes]) => h("div", { key: name }, h("dt", null, h("i", { class: name, "aria-hidden": "true" }), say(`srv.share.${name}`)), h("dd", null, size(bytes)))),
      storage.free_bytes > 0 && h("div", null, h("dt", null, say("srv.free")), h("dd", null, size(storage.free_bytes)))));
}

const memberView = (server) => h("li", { key: server.id, class: `row ${!server.live ? "bad" : server.ready ? "good" : "part"}` },
  h("i.dot", { "aria-hidden": "true" }),
  h("div.about", null,
    h("p.name", null, clean(server.address || server.id, 100)),
    h("p.text", null, !server.live ? say("srv.gone", { when: when(server.last_seen) }) : server.lag ? say("srv.lag", { n: server.lag }) : say("srv.current"), " · ", say(`srv.role.${server.role.replace("-", "")}`), " · ", server.version)),
  h("span.time", { title: exactly(server.last_seen) }, when(server.last_seen)), h("div.acts", null));

function careView(kind, found = null) {
  const jobs = [...state.jobs.values()].filter((job) => job.kind === kind).sort((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at)), last = jobs[0];
  const running = last && isRunning(last), archives = kind === "backup" ? jobs.filter((job) => job.status === "completed").slice(0, 3) : [];
  return h("div.care", { key: kind, "data-care": kind },
    h("div.about", null, h("h3", null, say(`srv.${kind}`)), h("p.small", null, say(`srv.${kind}Hint`)),
      running && h("p", null, h("progress", { max: 1, value: last.progress, "aria-label": say(`srv.${kind}`) }), h("span.small", null, `${last.step} · ${number(Math.round(100 * last.progress))} %`)),
      last && !running && resultView(kind, last),
      archives.length > 0 && h("ul.archives", null, archives.map((job) => h("li", { key: job.uid },
        h("a", { href: api.archive(job.uid), download: job.filename }, job.filename), h("span.small", null, when(job.completed_at)))), found?.data_path && h("li", null, h("span.small", null, say("srv.archiveFolder")), h("code", null, `${found.data_path}/backups`)))),
    running
      ? h("button.quiet", { type: "button", on: { click: () => act(() => api.cancel(last.uid)) } }, say("cancel"))
      : h("button.button", { type: "button", on: { click: () => act(() => api.startMaintenance(kind)) } }, say(`srv.${kind}Start`)));
}

function resultView(kind, job) {
  if (job.status === "failed") return h("div.outcome.bad", { role: "status" }, h("p", null, job.error?.message), h("p.small", null, job.error?.hint));
  if (job.status === "cancelled") return h("p.outcome", { role: "status" }, say("cancelled"));
  if (job.warnings.length) return h("div.outcome.bad", { role: "status" }, h("p", null, say("srv.found", { n: job.warnings.length })), h("ul", null, job.warnings.slice(0, 20).map((each) => h("li", { key: each }, clean(each, 500)))));
  return h("p.outcome", { role: "status" }, say(`srv.${kind}Done`, { when: when(job.completed_at) }));
}

async function act(work) {
  try {
    const job = await work();
    started = null;
    set({ jobs: new Map(state.jobs).set(job.uid, job) });
  } catch (error) {
    started = { status: error.status, message: error.message, hint: error.hint };
    set({});
  }
}
