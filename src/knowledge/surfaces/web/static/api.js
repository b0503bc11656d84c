/** Calls of /api/v1. Errors carry the server's message and hint as they are. */

const BASE = "/api/v1";

export class ApiError extends Error {
  constructor(status, code, message, hint = "", details = {}, retryAfter = null) {
    super(message);
    Object.assign(this, { status, code, hint, details, retryAfter });
  }
  get isGone() { return this.status === 0; }
}

let onExpired = null;
let onReached = () => {};

/** `expired` is asked to log in again when a session has ended; the call is then repeated, so nothing typed is lost. */
export function configure({ expired, reached }) {
  onExpired = expired;
  onReached = reached;
}

/** Ask for a login, for calls that do not go through `call`. */
export const askForLogin = () => onExpired?.();

function fail(status, text, headers) {
  let error = {};
  try { error = JSON.parse(text).error ?? {}; } catch { /* not from this server, such as a proxy's page */ }
  const wait = Number(headers("retry-after"));
  return new ApiError(status, error.code ?? "unknown", error.message ?? `HTTP ${status}`, error.hint ?? "", error.details ?? {}, wait > 0 ? wait : null);
}

async function call(method, path, { body, signal, login = true, match = null, tagged = false } = {}) {
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method, signal, credentials: "same-origin", cache: "no-store",
      headers: { ...(body !== undefined && { "Content-Type": "application/json" }), ...(match && { "If-Match": match }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    onReached(false);
    throw new ApiError(0, "unreachable", "", "");
  }
  if (answer.status < 500) onReached(true);
  if (answer.status === 401 && login && onExpired) {
    await onExpired();
    return call(method, path, { body, signal, login, match, tagged });
  }
  if (!answer.ok) throw fail(answer.status, await answer.text(), (name) => answer.headers.get(name));
  if (answer.status === 204) return null;
  const found = await answer.json();
  return tagged ? { found, etag: answer.headers.get("etag") } : found;
}

const get = (path, params = {}, options = {}) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== "") query.append(name, value);
  const text = query.toString();
  return call("GET", text ? `${path}?${text}` : path, options);
};
const post = (path, body = {}, options = {}) => call("POST", path, { body, ...options });

export const session = () => get("/session", {}, { login: false });
export const logIn = (given) => post("/session", given, { login: false });
export const logOut = () => call("DELETE", "/session", { login: false });
export const register = (username, password) => post("/user/register", { username, password }, { login: false });
export const sessions = () => get("/sessions");
export const tokens = () => get("/user/tokens");
export const revokeToken = (id) => call("DELETE", `/user/tokens/${id}`);
export const createKey = (name, expiresAt = null) => post("/user/api-keys", { name, expires_at: expiresAt });
export const endSession = (id) => call("DELETE", `/sessions/${id}`);

export const usage = () => get("/user/usage");
export const keys = () => get("/user/api-keys");
export const rotateKey = (id) => post(`/user/api-keys/${id}/rotate`);
export const revokeKey = (id) => call("DELETE", `/user/api-keys/${id}`);
export const changePassword = (old, wanted) => call("PUT", "/user/password", { body: { old_password: old, new_password: wanted }, login: false });
export const deleteAccount = (password) => call("DELETE", "/user", { body: { password }, login: false });

export const corpora = (params = {}) => get("/corpuses", { per_page: 100, ...params });
export const createCorpus = (about) => post("/corpuses", about);
export const editCorpus = (id, changes) => call("PATCH", `/corpuses/${id}`, { body: changes });
export const deleteCorpus = (id) => call("DELETE", `/corpuses/${id}`);
export const grants = (id) => get(`/corpuses/${id}/permissions`);
export const grant = (id, username, permission) => post(`/corpuses/${id}/permissions`, { username, permission });
export const revokeGrant = (id, username) => call("DELETE", `/corpuses/${id}/permissions`, { body: { username } });

export const pendingCorpora = () => get("/admin/corpuses/pending");
export const judgeCorpus = (id, verdict, body = {}) => post(`/admin/corpuses/${id}/${verdict}`, body);
export const reviewDocuments = (id, page) => get(`/admin/corpuses/${id}/documents`, { page, per_page: 20 });
export const reviewDocument = (id, uid, offset, limit) => get(`/admin/corpuses/${id}/documents/${uid}`, { chunk_offset: offset, chunk_limit: limit });
const accountPath = (username) => `/admin/users/${encodeURIComponent(username)}`;
export const accounts = () => get("/admin/users");
export const createAccount = (username, password) => post("/admin/users", password ? { username, password } : { username });
export const disableAccount = (username, disabled) => call("PATCH", accountPath(username), { body: { is_disabled: disabled } });
export const removeAccount = (username) => call("DELETE", accountPath(username));
export const issueKey = (username, name) => post(`${accountPath(username)}/api-keys`, { name });

export const startMaintenance = (kind) => post(`/maintenance/${kind}`);
export const archive = (job) => `${BASE}/maintenance/backup/${job}`;

export const status = () => get("/status");
export const search = (body, signal) => post("/search", body, { signal });
export const documents = (params) => get("/documents", params);
export const documentPart = (id, offset, limit) => get(`/documents/${id}`, { chunk_offset: offset, chunk_limit: limit });
export const pages = (id, from, to) => get(`/documents/${id}/pages`, { from, to });
export const places = (id, from, to) => get(`/documents/${id}/places`, { from, to });
export const words = (id, page, signal) => get(`/documents/${id}/pages/${page}/words`, {}, { signal });
export const outline = (id) => get(`/documents/${id}/outline`);
export const pageImage = (id, page, width) => `${BASE}/documents/${id}/pages/${page}?width=${width}`;
export const original = (id) => `${BASE}/documents/${id}/file`;
export const thumbnail = (id) => `${BASE}/documents/${id}/thumbnail`;
export const similar = (id) => get(`/documents/${id}/similar`, { top: 6 });
export const removeDocument = (id) => call("DELETE", `/documents/${id}`);
export const changeMany = (body) => post("/documents/batch", body);

/** A document with its ETag, and changes that are refused with 412 if it has another one. */
export const documentWithTag = (id) => get(`/documents/${id}`, { chunk_limit: 0 }, { tagged: true });
export const editDocument = (id, body, match) => call("PATCH", `/documents/${id}`, { body, match, tagged: true });
export const editNote = (id, text, match) => call("PATCH", `/notes/${id}`, { body: { text }, match, tagged: true });
export async function noteText(id) {
  const answer = await fetch(original(id), { credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) throw fail(answer.status, await answer.text(), (name) => answer.headers.get(name));
  return { text: await answer.text(), sha256: (answer.headers.get("etag") ?? "").replaceAll('"', "") };
}

/** All collections, page by page. */
export async function allCollections() {
  const found = [];
  for (let page = 1; ; page++) {
    const { collections: some, total } = await get("/collections", { per_page: 200, page });
    found.push(...some);
    if (!some.length || found.length >= total) return found;
  }
}
export const map = (collection, limit) => get("/map", { collection, limit });
export const collections = () => get("/collections", { per_page: 100 });

/** Whether a job has not ended. */
export const isRunning = (job) => job.status === "queued" || job.status === "processing";

export const jobs = (params) => get("/jobs", params);
export const retry = (id) => post(`/jobs/${id}/retry`);
export const retryAll = () => post("/jobs/retry", { status: "failed" });
export const cancel = (id) => post(`/jobs/${id}/cancel`);
export const addNote = (note) => post("/jobs", note);
export const crawl = (body) => post("/crawls", body);
export const crawlReport = (id) => get(`/crawls/${id}`);
export const crawlPages = (id, params) => get(`/crawls/${id}/pages`, params);
export const cancelCrawl = (id) => post(`/crawls/${id}/cancel`);

export const agents = () => get("/agents");
export const toolsets = () => get("/toolsets");
export const callTool = (name, given) => post(`/tools/${encodeURIComponent(name)}`, { arguments: given });
export const queries = (params) => get("/queries", params);
export const forgetQueries = () => call("DELETE", "/queries");
export const queryCounts = () => get("/admin/queries");
export const rate = (query, uid, good) => post("/feedback", { query, chunk_uid: uid, good });
export const ratings = () => get("/feedback");
export const history = (hours, everybody) => get(everybody ? "/admin/status/history" : "/status/history", { hours });

export const EVENTS = `${BASE}/events`;

/** Send a file; fetch cannot report progress, XMLHttpRequest can. Returns {done: Promise, abort}. */
export function upload(file, fields, onProgress) {
  const request = new XMLHttpRequest(), form = new FormData();
  for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) if (each) form.append(name, each);
  form.append("file", file, file.name);
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => event.lengthComputable && onProgress(event.loaded / event.total));
    request.addEventListener("load", () => {
      onReached(true);
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(fail(request.status, request.responseText, (name) => request.getResponseHeader(name)));
    });
    request.addEventListener("error", () => { onReached(false); reject(new ApiError(0, "unreachable", "")); });
    request.addEventListener("abort", () => reject(new ApiError(-1, "aborted", "")));
  });
  request.open("POST", `${BASE}/jobs`);
  request.send(form);
  return { done, abort: () => request.abort() };
}

/** A random UUID; `crypto.randomUUID` is missing on pages without https on another machine. */
export function newUid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
