/** One row from "sending" to "ready to be found", for a file of this page or a job of the server. */
import * as api from "../api.js";
import { isRunning } from "../api.js";
import { h } from "../dom.js";
import { linkTo } from "../router.js";
import { set, state } from "../store.js";
import { clean, title } from "../snippet.js";
import { sendAgain, withdraw } from "../uploads.js";
import { exactly, number, say, when } from "../words.js";

const SENDING_SHARE = 0.15;
/** Kinds of jobs that add no document. */
export const MAINTENANCE = new Set(["verify", "reindex", "backup"]);

/** Rows of uploads and jobs, each once: an upload and its job have the same UUID. */
export function rowsOf(uploads, jobs) {
  const rows = new Map();
  for (const upload of uploads) rows.set(upload.uid, { uid: upload.uid, upload, job: null, time: upload.added });
  for (const job of jobs) rows.set(job.uid, { uid: job.uid, upload: rows.get(job.uid)?.upload ?? null, job, time: Date.parse(job.created_at) });
  return [...rows.values()].sort((one, other) => rank(one) - rank(other) || other.time - one.time);
}

const rank = ({ upload, job }) => (job ? (isRunning(job) ? 0 : 2) : upload.status === "sending" ? 0 : upload.status === "waiting" ? 1 : 2);

/** What a row says and offers. */
export function describe({ upload, job }) {
  if (!job) return describeUpload(upload);
  const sent = upload ? SENDING_SHARE : 0;
  switch (job.status) {
    case "queued": return { kind: "running", text: say("queued"), progress: sent, action: cancelAction(job) };
    case "processing": return { kind: "running", text: job.step || say("reading"), progress: sent + (1 - sent) * job.progress, action: cancelAction(job) };
    case "completed": return MAINTENANCE.has(job.kind) ? { kind: job.warnings.length ? "part" : "good", text: job.warnings[0] ?? say("done") } : { kind: "good", text: job.kind === "crawl" ? say("crawled") : say("ready", { n: job.chunk_count }), action: openAction(job) };
    case "partial": return { kind: "part", text: job.kind === "crawl" ? say("crawledPartly") : say("readyPartly", { n: job.chunk_count }), hint: job.warnings.join(" "), action: openAction(job) };
    case "failed": return { kind: "bad", text: job.error?.message ?? say("failed"), hint: job.error?.hint, action: retryAction(job) };
    default: return { kind: "off", text: say("cancelled"), action: retryAction(job) };
  }
}

function describeUpload(upload) {
  switch (upload.status) {
    case "waiting": return { kind: "running", text: state.pausedFor ? say("paused", { seconds: state.pausedFor }) : say("waiting"), progress: 0, action: { label: say("cancel"), run: () => withdraw(upload.uid) } };
    case "sending": return { kind: "running", text: say("sending", { percent: number(Math.round(100 * upload.progress)) }), progress: SENDING_SHARE * upload.progress, action: { label: say("cancel"), run: () => withdraw(upload.uid) } };
    case "sent": return { kind: "running", text: say("queued"), progress: SENDING_SHARE };
    case "duplicate": return { kind: "good", text: say("duplicate", { title: clean(upload.duplicate.title, 80) }), action: { label: say("open"), href: `/d/${upload.duplicate.document_uid}` } };
    case "cancelled": return { kind: "off", text: say("cancelled") };
    case "refused": return { kind: "bad", text: upload.error.message, hint: upload.error.hint };
    default: return { kind: "bad", text: upload.error?.message ?? say("failed"), hint: upload.error?.hint, action: { label: say("again"), run: () => sendAgain(upload.uid) } };
  }
}

const openAction = (job) => (job.kind === "crawl" ? { label: say("pagesOf"), href: `/activity/crawls/${job.uid}` } : job.document_uid ? { label: say("open"), href: `/d/${job.document_uid}` } : null);
const cancelAction = (job) => ({ label: say("cancel"), run: () => act(api.cancel, job), ...(job.kind === "crawl" && { also: { label: say("pagesOf"), href: `/activity/crawls/${job.uid}` } }) });
const retryAction = (job) => job.retryable && ({ label: say("again"), run: () => act(api.retry, job), ...(job.kind === "crawl" && { also: { label: say("pagesOf"), href: `/activity/crawls/${job.uid}` } }) });

async function act(call, job) {
  try {
    const changed = await call(job.uid);
    set({ jobs: new Map(state.jobs).set(changed.uid, changed) });
  } catch (error) {
    set({ said: error.message, actProblem: { uid: job.uid, message: error.message, hint: error.hint } });
  }
}

export function rowView(row) {
  const { upload, job } = row, shown = describe(row), name = clean(upload?.name ?? job.filename, 200), time = job?.completed_at ?? job?.created_at;
  const failed = state.actProblem?.uid === row.uid ? state.actProblem : null;
  return h("li", { key: row.uid, class: `row ${shown.kind}`, "data-job": row.uid },
    h("i.dot", { "aria-hidden": "true" }),
    h("div.about", null,
      h("p.name", { title: name }, title(name)),
      h("p.text", null, shown.text),
      shown.hint && h("p.hint", null, shown.hint),
      failed && h("p.text.bad", { role: "alert" }, failed.message, " ", failed.hint),
      shown.progress !== undefined && h("progress", { max: 1, value: shown.progress, "aria-label": say("progressOf", { name }) })),
    h("span.time", { title: exactly(time) }, job && !isRunning(job) ? when(time) : ""),
    h("div.acts", null, shown.action?.also && actView(shown.action.also, name), shown.action && actView(shown.action, name)));
}

const actView = ({ label, run, href }, name) => (href
  ? h("a.quiet", { key: label, href, "aria-label": `${label}: ${name}`, on: linkTo(href) }, label)
  : h("button.quiet", { key: label, type: "button", "aria-label": `${label}: ${name}`, on: { click: run } }, label));
