/**
 * What the server reports while it works (server-sent events). Tabs of one browser share one connection: the tab that
 * holds the lock has it and passes the events on. A hidden tab has none.
 */
import { EVENTS } from "./api.js";

const NAME = "knowledge.events";
const KINDS = ["hello", "job", "crawl", "document", "collection", "approval", "agent", "refusal", "reset"];
const FIRST_WAIT_MS = 1000, LONGEST_WAIT_MS = 30_000;

let report = () => {}, connected = () => {}, refused = async () => true;
let source = null, release = null, waitMs = FIRST_WAIT_MS, timer = 0, asking = null, joined = false;
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(NAME) : null;

/** Follow the events: `onEvent(kind, data)`, `onState("live" | "lost")`, and `mayRetry()` before each new connection. */
export function follow(onEvent, onState, mayRetry) {
  [report, connected, refused] = [onEvent, onState, mayRetry];
  channel?.addEventListener("message", ({ data }) => {
    if (data.kind === "state") connected(data.state);
    else if (data.kind === "who") { if (source?.readyState === EventSource.OPEN) channel.postMessage({ kind: "state", state: "live" }); }
    else report(data.kind, data.data);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : join()));
  addEventListener("pagehide", leave);
  addEventListener("pageshow", () => !document.hidden && join());
  if (!document.hidden) join();
}

/** Leave and join again, after somebody else has logged in. */
export function restart() {
  leave();
  if (!document.hidden) join();
}

function join() {
  if (joined) return;
  joined = true;
  if (!navigator.locks) return open();
  asking = new AbortController();
  channel?.postMessage({ kind: "who" });
  navigator.locks.request(NAME, { signal: asking.signal }, () => {
    if (!joined) return undefined;
    open();
    return new Promise((resolve) => { release = resolve; });
  }).catch(() => {});
}

function leave() {
  if (!joined) return;
  joined = false;
  clearTimeout(timer);
  source?.close();
  source = null;
  release?.();
  release = null;
  asking?.abort();
}

function tell(state) {
  connected(state);
  channel?.postMessage({ kind: "state", state });
}

function open() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource(EVENTS);
  source.addEventListener("open", () => { waitMs = FIRST_WAIT_MS; tell("live"); });
  source.addEventListener("error", () => {
    tell("lost");
    if (source?.readyState === EventSource.CLOSED) again();
  });
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      const data = JSON.parse(event.data || "{}");
      report(kind, data);
      channel?.postMessage({ kind, data });
    });
  }
}

/** The browser tries again by itself unless the server refused; then wait longer each time. */
function again() {
  timer = setTimeout(async () => {
    if (joined && (await refused().catch(() => true)) && joined) open();
  }, waitMs);
  waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
}
