/** Controls of the settings and of the people page: a secret that is shown once, a question before something goes, bars. */
import { h } from "../dom.js";
import { set } from "../store.js";
import { number, say } from "../words.js";

/** What an error says, for `problemView`. */
export const problemOf = (error) => ({ status: error.status, message: error.message, hint: error.hint });

let copied = null;

/** A new key: shown until it is closed, never again afterwards. */
export function secretView(secret, close) {
  return h("div.secret", { key: "secret", role: "status" },
    h("p", null, h("strong", null, say("my.keyOnce", { name: secret.name })), " ", say("my.keyOnceHint")),
    h("div.line", null,
      h("code", { tabindex: 0 }, secret.api_key),
      h("button.button", { type: "button", on: { click: () => copy(secret.api_key) } }, copied === secret.api_key ? say("copied") : say("my.copy")),
      h("button.quiet", { type: "button", on: { click: close } }, say("done"))));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    copied = text;
    set({ said: say("copied") });
  } catch { /* pages without https have no clipboard; the text can be selected */ }
}

let asking = null;

/** A button that asks first: the sentence says what goes. */
export function askButton(id, label, sentence, run) {
  if (asking !== id) return h("button.quiet", { key: id, type: "button", on: { click: () => { asking = id; set({}); } } }, label);
  const end = (work) => () => { asking = null; set({}); work?.(); };
  return h("div.asking", { key: id, role: "group", "aria-label": label },
    h("p", null, sentence),
    h("button.button.danger", { type: "button", ref: (node) => queueMicrotask(() => node.focus()), on: { click: end(run) } }, label),
    h("button.quiet", { type: "button", on: { click: end(null) } }, say("my.keep")));
}

/** How much of something is used, as a bar and in words; without a limit only in words. */
export function meterView(name, used, limit, show = number) {
  const text = limit === null ? show(used) : say("my.usedOf", { used: show(used), limit: show(limit) });
  return h("div.meter", { key: name },
    h("p", null, h("span", null, name), h("span.figure", null, text)),
    limit !== null && h("progress", { max: Math.max(limit, 1), value: Math.min(used, limit), class: used >= limit * 0.9 ? "nearly" : null, "aria-label": name }));
}

/** A part of the page that loads by itself: `load` fills it, `view` draws it, errors are shown with a way to try again. */
export function makeSection(fetch) {
  const section = { data: null, problem: null, busy: false };
  section.load = async () => {
    try { [section.data, section.problem] = [await fetch(), null]; } catch (error) { section.problem = problemOf(error); }
    set({});
  };
  /** Do something, then load again; the problem of what was done is shown instead. */
  section.act = async (work) => {
    section.busy = true;
    set({});
    let failed = null, result;
    try { result = await work(); } catch (error) { failed = problemOf(error); }
    await section.load();
    Object.assign(section, { busy: false, problem: failed ?? section.problem });
    set({});
    return failed ? undefined : result ?? null;
  };
  section.clear = () => Object.assign(section, { data: null, problem: null });
  return section;
}
