// How many rows have which indicator at one level: counts and axis are logarithmic.
import { make } from "./table.js";

/**
 * @typedef {{name: string, epsilon: string, delta: string, low: number, high: number,
 *   high_text: string, most: string, ratio: number, ratio_text: string, beyond: string[],
 *   floor: number, floor_text: string, start: number, end: number, counts: number[],
 *   sentence: string}} Level what is shown of one candidate; indicators are multiples of the floor
 * @typedef {{name: string, tau: number, text: string, limit: number | null, limit_text: string}} Limit
 */

/** Round numbers above 1 on an axis that ends at `end`. @param {number} end */
export function ticks(end) {
  if (end > 3) {
    return [1, 2, 5].flatMap((unit) => [1, 10, 100, 1e3, 1e4, 1e5].map((power) => unit * power))
      .filter((value) => value > 1 && value < end).sort((a, b) => a - b).slice(-4).map(String);
  }
  const rough = (end - 1) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((unit) => unit * power >= rough * (1 - 1e-9)) * power;
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
  for (let i = 1; 1 + i * step < end; i++) found.push((1 + i * step).toFixed(places));
  return found;
}

/** The axis of one level: it holds the largest indicator, and the limit unless that is far off.
 * @param {Level} level @param {number | null} limit
 * @returns {{end: number, limit: number | null, far: boolean, ticks: [number, string][]}} places in
 * percent */
export function axis(level, limit) {
  const high = Math.log(level.high), wanted = limit === null ? 0 : Math.log(limit);
  const far = high > 1e-9 && wanted > 3 * high;
  const span = 1.08 * Math.max(high, far ? 0 : wanted) || Math.log(2), end = Math.exp(span);
  const place = (value) => 100 * Math.log(value) / span;
  return {
    end, far, limit: limit === null || far ? null : place(limit),
    ticks: ticks(end).map((text) => [place(+text), text]),
  };
}

/** Heights in percent below a power of ten at the top; one row is one step high.
 * @param {number[]} counts */
export function heights(counts) {
  const decades = Math.ceil(Math.log10(Math.max(1, ...counts)) - 1e-9);
  const height = (count) => (count ? 100 * (1 + Math.log10(count)) / (1 + decades) : 0);
  const lines = Array.from({ length: decades + 1 }, (_, i) => 10 ** i);
  return { bars: counts.map(height), lines: lines.map((count) => [height(count), count]) };
}

/** Left ends and widths of the bins in percent. @param {Level} level @param {number} end */
export function bins({ start, end: last, counts }, end) {
  const from = Math.log(start), step = Math.log(last / start) / (counts.length || 1);
  return counts.map((_, i) => [from + i * step, step].map((x) => 100 * x / Math.log(end)));
}

/** Labels above their lines, in two rows, so that no line runs through the other's label: each extends
 * to the left unless it is near that end, and the line that would cross goes up less far.
 * @param {number[]} places percents @returns {{left: boolean, upper: boolean}[]} */
export function labelled(places) {
  const left = places.map((at) => at > 35), both = left.every((way) => !way);
  const upper = places.indexOf(both ? Math.min(...places) : Math.max(...places));
  return places.map((_, i) => ({ left: left[i], upper: i === upper }));
}

/** The histogram in words. @param {Level} level @param {Limit} limit @param {string} beyond */
export function said(level, limit, beyond) {
  if (!level.floor && !level.counts.length) return "There are no rows.";
  const floor = `Rows at the floor, which add nothing: ${level.floor_text}.`;
  const most = `Largest indicator: ${level.high_text}, of ${level.most}.`;
  return `${floor} ${most} ${limit.limit ? `Rows beyond the limit ${limit.limit_text}: ${beyond}.` : ""}`;
}

const box = (name, style, ...children) => {
  const node = make("span", name, ...children);
  node.style.cssText = style;
  return node;
};

/** @param {Level} level @param {Limit} limit @param {string} beyond rows beyond the limit */
export function drawn(level, limit, beyond) {
  const scale = axis(level, limit.limit), { bars, lines } = heights([level.floor, ...level.counts]);
  const marks = [];
  if (level.counts.length) {
    const at = 100 * Math.log(level.high) / Math.log(scale.end);
    marks.push([at, "dpnb-risk-most", `max ${level.high_text}`]);
  }
  if (limit.limit) {
    const name = scale.far ? "dpnb-risk-far" : "dpnb-risk-limit";
    marks.push([scale.limit ?? 100, name, `limit ${limit.limit_text}${scale.far ? " →" : ""}`]);
  }
  const ways = labelled(marks.map(([at]) => at));
  const tops = marks.map(([at, name, text], i) => box(
    `${name} ${ways[i].upper ? "dpnb-risk-upper" : ""}`, `left:${at}%`,
    box(ways[i].left ? "dpnb-risk-left" : "", "", text)));
  const area = box("dpnb-risk-area", "", ...bins(level, scale.end).map(([left, width], i) =>
    box(`dpnb-mark ${width ? "" : "dpnb-risk-spike"}`, `left:${left}%;width:${width}%;height:${bars[i + 1]}%`)), ...tops);
  const plot = box("dpnb-risk-plot", "", ...lines.map(([at, count]) =>
    box("dpnb-risk-line", `bottom:${at}%`, box("", "", count.toLocaleString("en-US")))),
  box("dpnb-risk-floor", "", box("dpnb-mark", `height:${bars[0]}%`), box("dpnb-risk-foot", "", "floor")), area);
  area.append(...scale.ticks.map(([at, text]) => box("dpnb-risk-foot", `left:${at}%`, text)));
  const figure = make("div", "dpnb-risk-figure", plot);
  figure.ariaHidden = "true"; // the words say the same
  return [make("p", "dpnb-notes", said(level, limit, beyond)), figure];
}
