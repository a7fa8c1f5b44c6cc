// The view of an inference from past answers, for the widget and for the record that a notebook keeps. The
// interval at every confidence comes with it; the kernel computes how likely a claim is.
import { make, opened, pickable } from "./table.js";

/**
 * @typedef {[string, string, number, number]} Point confidence, interval, and its ends in thousandths
 * @typedef {{groups: string[], aggregates: string[], points: Point[][], start: number,
 *   note: string, body?: string}} Data
 */

/** What a reader typed as a number; null while it is none. @param {string} text */
export function read(text) {
  const number = text.trim() === "" ? NaN : Number(text.trim());
  return Number.isFinite(number) ? number : null;
}

/** What is said of a point. @param {Point} point @param {string} note */
export const told = ([sure, interval], note) =>
  `${sure} confidence interval${note ? ` ${note}` : ""}: ${interval}`;

/** Where a bar lies, in percent. @param {Point} point */
export const placed = ([, , low, high]) => ({ start: low / 10, width: (high - low) / 10 });

/** The part of a curve between two thousandths of its width, down to the ground, as points of SVG.
 * @param {string} curve the points of the curve, from left to right
 * @param {Point} point @param {number} ground */
export function shaded(curve, [, , low, high], ground) {
  const points = curve.trim().split(/\s+/).map((pair) => pair.split(",").map(Number));
  const [first] = points[0], [last] = points.at(-1);
  const [from, to] = [low, high].map((end) => first + (last - first) * end / 1000);
  const edge = (x) => {
    const i = Math.max(1, points.findIndex(([at]) => at >= x));
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    return [x, y0 + (y1 - y0) * (x - x0) / (x1 - x0)];
  };
  const inside = points.filter(([x]) => from < x && x < to);
  return [[from, ground], edge(from), ...inside, edge(to), [to, ground]]
    .map((pair) => pair.map((x) => +x.toFixed(1)).join()).join(" ");
}

/** The value of a group and an aggregate, which come one aggregate after the other.
 * @param {number} at @param {number} groups */
export const split = (at, groups) => ({ aggregate: Math.floor(at / groups), group: at % groups });

function control(tag, type) {
  const node = make(tag, "");
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  if (type) node.type = type;
  return node;
}

function spoken() {
  const node = make("output", "");
  node.ariaLive = "polite";
  return node;
}

/** @param {string[]} options @param {(place: number) => void} act */
function list(options, act) {
  const node = make("select", "", ...options.map((text, i) => new Option(text, String(i))));
  return Object.assign(node, { onchange: () => act(+node.value) });
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const data = /** @type {Data} */ (model.get("data")), { table, change } = opened({ model, el });
  const { groups, aggregates } = data;
  if (!groups.length) return undefined;
  const now = () => split(model.get("at"), groups.length);
  const go = (to) => {
    const { aggregate, group } = { ...now(), ...to };
    change("at", aggregate * groups.length + group);
  };
  const shown = list(aggregates, (aggregate) => go({ aggregate }));
  if (aggregates.length > 1) table.before(make("label", "dpnb-show", "Show ", shown));
  const parts = [data.body && claim(model, data, change), widths(data, el)].filter(Boolean);
  const several = parts.length > 0 && groups.length > 1;
  const about = list(groups, (group) => go({ group }));
  const mark = several && pickable(table, groups, (group) => go({ group }));
  if (several) parts[0].line.prepend(make("label", "", "About ", about), ": ");
  if (parts.length) table.after(make("div", "dpnb-ask", ...parts.map((part) => part.node)));
  const draw = () => {
    const { aggregate, group } = now();
    shown.value = aggregate;
    about.value = group;
    table.querySelectorAll("[data-agg]").forEach((cell) =>
      cell.classList.toggle("dpnb-other", +cell.dataset.agg !== aggregate));
    if (mark) mark(groups.map((_, i) => (i === group ? "✓" : "")));
    parts.forEach((part) => part.draw(model.get("at")));
  };
  for (const name of ["at", "operator", "number", "said"]) model.on(`change:${name}`, draw);
  draw();
  return () => model.off(null, draw);
}

/** The claim, which needs a kernel. */
function claim(model, data, change) {
  const name = make("b", ""), said = spoken(), number = control("input", "number");
  const operator = list(["above", "below"], (place) => change("operator", "><"[place]));
  operator.ariaLabel = "above or below";
  number.step = "any";
  number.ariaLabel = "number to compare with";
  number.oninput = () => {
    const found = read(number.value);
    if (found !== null) change("number", found);
    else said.textContent = "Write a number.";
  };
  const how = `${data.groups.length > 1 ? "how" : "How"} likely is it that `;
  const line = make("p", "", how, name, " is ", operator, " ", number, "?");
  const draw = (at) => {
    name.textContent = data.aggregates[split(at, data.groups.length).aggregate];
    operator.value = "><".indexOf(model.get("operator")[0]);
    if (read(number.value) !== model.get("number")) number.value = String(model.get("number"));
    said.textContent = model.get("said");
  };
  return { node: make("div", "", line, said), line, draw };
}

/** The interval at every confidence, by a slider, which the shading of a curve follows.
 * @param {Data} data @param {HTMLElement} el */
function widths(data, el) {
  if (!data.points.some((points) => points.length)) return null;
  let level = data.start, now = 0;
  const slider = control("input", "range"), said = spoken(), mark = make("span", "dpnb-mark");
  const drawn = make("div", "dpnb-width", mark), line = make("p", "");
  const label = make("label", "", make("span", "", "Confidence"), slider);
  const node = make("div", "", line, make("div", "dpnb-sure", label, said), drawn);
  const svg = el.querySelector(".dpnb-density svg");
  const [within, outline] = [".dpnb-within", ".dpnb-outline"].map((part) => svg?.querySelector(part));
  const draw = (at) => {
    now = at;
    const points = data.points[at];
    label.hidden = drawn.hidden = !points.length;
    if (!points.length) {
      said.textContent = "Past answers do not determine this value.";
      return;
    }
    const point = points[level], { start, width } = placed(point);
    Object.assign(slider, { min: 0, max: points.length - 1, step: 1, value: level });
    slider.ariaValueText = point[0];
    said.textContent = told(point, data.note);
    mark.style.cssText = `left:${start}%;width:${width}%`;
    const area = svg && shaded(outline.getAttribute("points"), point, svg.viewBox.baseVal.height);
    within?.setAttribute("points", area);
  };
  slider.oninput = () => { level = +slider.value; draw(now); };
  return { node, line, draw };
}

export default { render };
