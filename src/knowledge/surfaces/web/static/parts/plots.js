/** Small plots: one line or bars over time, drawn as SVG. The numbers are in the table below them. */
import { h } from "../dom.js";

const WIDTH = 240, HEIGHT = 64, PAD = 2;

const top = (values) => Math.max(1, ...values.filter((value) => value !== null));
const y = (value, most) => HEIGHT - PAD - (value / most) * (HEIGHT - 2 * PAD);

/** A line through the values; gaps where a value is null. */
export function linePlot(values) {
  const most = top(values), step = WIDTH / Math.max(1, values.length - 1);
  const runs = [];
  values.forEach((value, at) => {
    if (value === null) return runs.push([]);
    if (!runs.length) runs.push([]);
    return runs.at(-1).push([(at * step).toFixed(1), y(value, most).toFixed(1)]);
  });
  const alone = ([x, at]) => [[Math.max(0, x - step / 2), at], [Math.min(WIDTH, Number(x) + step / 2), at]];  // one value is as wide as its hour
  return frame(runs.filter((run) => run.length).map((run) => (run.length > 1 ? run : alone(run[0]))).map((run, key) => [
    h("path.area", { key: `a${key}`, d: `M${run[0][0]} ${HEIGHT}L${run.map((point) => point.join(" ")).join("L")}L${run.at(-1)[0]} ${HEIGHT}Z` }),
    h("path.line", { key: `l${key}`, d: `M${run.map((point) => point.join(" ")).join("L")}` }),
  ]));
}

/** A bar for each value. */
export function barPlot(values) {
  const most = top(values), step = WIDTH / values.length;
  return frame(values.map((value, at) => h("rect.bar-of", { key: String(at), x: (at * step + 1).toFixed(1), width: Math.max(1, step - 2).toFixed(1), y: value ? y(value, most).toFixed(1) : HEIGHT, height: value ? (HEIGHT - y(value, most)).toFixed(1) : 0, rx: 1 })));
}

const frame = (...children) => h("svg.plot", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, h("path.base", { d: `M0 ${HEIGHT}H${WIDTH}` }), children);
