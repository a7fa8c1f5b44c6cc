// The view of an answer, for the widget and for the record that a notebook keeps.
// Verdicts equal those of dpnb/answers.
import { end } from "./numbers.js";
import { make, opened, pickable } from "./table.js";

/**
 * @typedef {{alias: string, name: string, value?: number[], half?: number, low?: number[],
 *   high?: number[], among: string, note: string}} Aggregate
 * @typedef {{groups: number[], names: string[], sure: string, aggregates: Aggregate[],
 *   body?: string}} Data
 */

/** @param {Aggregate} found @param {number} left @param {number} right */
export function difference(found, left, right) {
  if (found.low) return [found.low[left] - found.high[right], found.high[left] - found.low[right]];
  const centre = found.value[left] - found.value[right];
  return [centre - found.half, centre + found.half];
}

export function verdict(left, right, name, low, high, sure, among = "") {
  const half = (high - low) / 2, confident = `(${sure} confidence)`;
  const span = (start, stop) => `${end(start, half, -1)} to ${end(stop, half, 1)}`;
  const holds = `This holds${among} even if you picked the groups after seeing the answer.`;
  const real = `The difference is real ${confident}`;
  if (low > 0) return `${real}: ${left} is higher than ${right} by ${span(low, high)} in ${name}. ${holds}`;
  if (high < 0) {
    const by = `lower than ${right} by ${span(0 - high, 0 - low)}`;
    return `${real}, but the other way round: ${left} is ${by} in ${name}. ${holds}`;
  }
  const differ = `${left} and ${right} differ by ${span(low, high)} in ${name} ${confident}`;
  return `The difference could be noise: ${differ}. ${holds}`;
}

/** After a group was picked or given back. @param {number[]} selected @param {number} group */
export function picked(selected, group) {
  return selected.includes(group)
    ? selected.filter((other) => other !== group) : [...selected, group].slice(-2);
}

/** After a list was set; the other list's group swaps the two. @param {number[]} selected
 * @param {number} which @param {number | null} group */
export function chosen(selected, which, group) {
  if (group === null) return selected.slice(0, which);
  if (selected[1 - which] === group) return [...selected].reverse();
  return Object.assign([...selected], { [which]: group });
}

/** Percents on a line with 0 in its middle. @param {number} low @param {number} high */
export function placed(low, high) {
  const reach = 1.1 * Math.max(0, ...[low, high].map(Math.abs).filter(isFinite)) || 1;
  const [left, right] = [low, high].map((x) => 50 * Math.min(Math.max(x / reach, -1), 1));
  return { start: 50 + left, width: right - left };
}

function list(options, act) {
  const node = make("select", "", ...options.map(([value, text]) => new Option(text, value)));
  return Object.assign(node, { onchange: () => act(node.value) });
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const data = /** @type {Data} */ (model.get("data")), { table, change } = opened({ model, el });
  const which = list(data.aggregates.map((a, i) => [i, a.name]),
    (i) => change("aggregate", data.aggregates[i].alias));
  if (data.aggregates.length > 1) table.before(make("label", "dpnb-show", "Show ", which));
  const ask = data.groups.length > 1 &&
    asking(data, table, () => model.get("selected"), (to) => change("selected", to));
  const draw = () => {
    const now = Math.max(0, data.aggregates.findIndex((a) => a.alias === model.get("aggregate")));
    which.value = now;
    table.querySelectorAll("[data-agg]").forEach((cell) =>
      cell.classList.toggle("dpnb-other", +cell.dataset.agg !== now));
    if (ask) ask(data.aggregates[now]);
  };
  for (const name of ["selected", "aggregate"]) model.on(`change:${name}`, draw);
  draw();
  return () => model.off(null, draw);
}

/** Add the question; returns what redraws it. */
function asking(data, table, selected, select) {
  const mark = pickable(table, data.names, (i) => select(picked(selected(), data.groups[i])));
  const options = [["", "choose a group"], ...data.groups.map((group, i) => [group, data.names[i]])];
  const lists = [0, 1].map((which) => list(options, (value) =>
    select(chosen(selected(), which, value ? +value : null))));
  const name = make("b", ""), said = make("output", ""), line = make("div", "dpnb-line");
  said.ariaLive = "polite";
  table.after(make("div", "dpnb-ask", make("p", "", make("label", "", "Is ", lists[0]), " ",
    make("label", "", "higher than ", lists[1]), " in ", name, "?"), said, line));

  return (found) => {
    const pair = selected();
    mark(data.groups.map((group) => "AB"[pair.indexOf(group)] ?? ""));
    lists.forEach((node, which) => { node.value = pair[which] ?? ""; });
    lists[1].disabled = !pair.length;
    name.textContent = found.name;
    said.textContent = "Choose two groups, here or in the table. Comparing is free.";
    line.hidden = pair.length < 2;
    if (line.hidden) return;
    const [a, b] = pair.map((group) => data.groups.indexOf(group));
    const [low, high] = difference(found, a, b), { start, width } = placed(low, high);
    said.textContent = verdict(
      data.names[a], data.names[b], found.name, low, high, data.sure, found.among) + found.note;
    const drawn = make("span", `dpnb-mark ${low > 0 || high < 0 ? "" : "dpnb-open"}`);
    drawn.style.cssText = `left:${start}%;width:${width}%`;
    const ends = [`${data.names[b]} is higher`, "0", `${data.names[a]} is higher`];
    line.replaceChildren(make("div", "dpnb-track", drawn),
      make("div", "dpnb-ends", ...ends.map((text) => make("span", "", text))));
  };
}

export default { render };
