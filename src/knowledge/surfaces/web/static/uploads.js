/** Files on their way to the server: two at a time, waiting when the server says so, none lost. */
import * as api from "./api.js";
import { set, state } from "./store.js";
import { say, size } from "./words.js";

const AT_ONCE = 2;
const FIRST_WAIT_MS = 2000, LONGEST_WAIT_MS = 30_000;
/** A server that starts, or a proxy before a server that is away. */
const STARTING = new Set([502, 503, 504]);

let sending = 0, pausedUntil = 0, waitMs = FIRST_WAIT_MS, timer = 0;

/** Queue files; those that the server cannot read or that are too large are refused before they are sent. */
export function add(files, fields = state.target) {
  const uploads = new Map(state.uploads);
  for (const file of files) {
    const refusal = refuse(file), uid = api.newUid();
    uploads.set(uid, { uid, file, fields: { ...fields, job_uid: uid }, name: file.name, added: Date.now(), progress: 0, status: refusal ? "refused" : "waiting", error: refusal });
  }
  set({ uploads, trayOpen: true });
  pump();
}

function refuse(file) {
  const { max_file_bytes: max, formats } = state.session ?? {};
  if (max && file.size > max) return { message: say("tooLarge", { size: size(file.size), max: size(max) }), hint: say("tooLargeHint") };
  const suffixes = (formats ?? []).flatMap((format) => format.suffixes), name = file.name.toLowerCase();
  if (!suffixes.length || suffixes.some((suffix) => name.endsWith(suffix))) return null;
  const dot = name.lastIndexOf(".");
  return { message: dot > 0 ? say("wrongFormat", { suffix: name.slice(dot) }) : say("noFormat"), hint: say("wrongFormatHint") };
}

function change(uid, changes) {
  const before = state.uploads.get(uid);
  if (!before) return;
  set({ uploads: new Map(state.uploads).set(uid, { ...before, ...changes }) });
}

function pump() {
  clearTimeout(timer);
  const now = Date.now();
  if (now < pausedUntil) {
    timer = setTimeout(pump, Math.min(1000, pausedUntil - now));
    set({ pausedFor: Math.ceil((pausedUntil - now) / 1000) });
    return;
  }
  if (state.pausedFor) set({ pausedFor: 0 });
  for (const upload of state.uploads.values()) {
    if (sending >= AT_ONCE) return;
    if (upload.status === "waiting") send(upload);
  }
}

async function send(upload) {
  sending++;
  const request = api.upload(upload.file, upload.fields, (progress) => change(upload.uid, { progress }));
  change(upload.uid, { status: "sending", progress: 0, error: null, abort: request.abort });
  try {
    const job = await request.done;
    waitMs = FIRST_WAIT_MS;
    change(upload.uid, { status: "sent", progress: 1, file: null, abort: null });
    if (!state.jobs.has(job.uid)) set({ jobs: new Map(state.jobs).set(job.uid, job) });
  } catch (error) {
    await handle(upload, error);
  } finally {
    sending--;
    pump();
  }
}

async function handle(upload, error) {
  if (error.code === "aborted") return change(upload.uid, { status: "cancelled", file: null, abort: null });
  if (error.code === "duplicate") return change(upload.uid, { status: "duplicate", file: null, duplicate: error.details });
  if (error.status === 401) {
    change(upload.uid, { status: "waiting" });
    return api.askForLogin();
  }
  const away = error.status === 0 || STARTING.has(error.status);
  if (away || error.retryAfter) {
    pausedUntil = Math.max(pausedUntil, Date.now() + (error.retryAfter ? 1000 * error.retryAfter : waitMs));
    waitMs = away ? Math.min(2 * waitMs, LONGEST_WAIT_MS) : FIRST_WAIT_MS;
    return change(upload.uid, { status: "waiting", progress: 0 });
  }
  return change(upload.uid, { status: "failed", error: { message: error.message, hint: error.hint } });
}

/** Send a file once more that was refused by the server. */
export function sendAgain(uid) {
  change(uid, { status: "waiting", error: null });
  pump();
}

/** Take a file back: out of the queue, or off the wire. */
export function withdraw(uid) {
  const upload = state.uploads.get(uid);
  if (upload?.abort) upload.abort();
  else change(uid, { status: "cancelled", file: null });
}

/** Forget what has ended. */
export function clearTray() {
  const kept = [...state.uploads].filter(([uid, upload]) => !hasEnded(upload, state.jobs.get(uid)));
  set({ uploads: new Map(kept), trayOpen: kept.length > 0 });
}

export const isUnsent = (upload) => upload.status === "waiting" || upload.status === "sending";

export function hasEnded(upload, job) {
  if (isUnsent(upload)) return false;
  return upload.status !== "sent" || Boolean(job && !["queued", "processing"].includes(job.status));
}

/** The files of a drop, with everything in dropped folders; hidden files are left out. */
export async function filesOf(entries) {
  const files = [];
  for (const entry of entries) await walk(entry, files);
  return files;
}

async function walk(entry, files) {
  if (!entry) return;
  if (entry instanceof File) { files.push(entry); return; }
  if (entry.name.startsWith(".")) return;
  if (entry.isFile) { files.push(await new Promise((resolve, reject) => entry.file(resolve, reject))); return; }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const each of some) await walk(each, files);
  }
}

addEventListener("beforeunload", (event) => {
  if ([...state.uploads.values()].some(isUnsent)) event.preventDefault();
});
