// The view of an explanation, for the widget and for the record that a notebook keeps: its rows can
// be sorted, and one picked to read what may be concluded from it.
import { make, opened, pickable } from "./table.js";

/** @typedef {{predicate: string[], influence: number[], rank: number[], said: string[],
 *   body?: string}} Data what is sorted by, and a sentence for each row
 * @typedef {{column: string, falling: boolean}} Order */

/** How the rows come from Python. @type {Order} */
export const FIRST = { column: "influence", falling: true };

/** Places of values in order; equal ones stay as they were.
 * @param {(number | string)[]} values @param {boolean} falling */
export function sorted(values, falling) {
  const { compare } = new Intl.Collator("en", { numeric: true });
  const by = (a, b) => (typeof a === "string" ? compare(a, b) : a - b);
  const order = (i, j) => (falling ? by(values[j], values[i]) : by(values[i], values[j]));
  return values.map((_, i) => i).sort(order);
}

/** The order after a head was pressed: what matters most first, then the other way round.
 * @param {Order} now @param {string} column @returns {Order} */
export function pressed(now, column) {
  const again = now.column === column;
  return { column, falling: again ? !now.falling : column === FIRST.column };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const data = /** @type {Data} */ (model.get("data")), { table, change } = opened({ model, el });
  const body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.querySelectorAll("[data-sort]")];
  let now = FIRST;
  const sort = () => {
    sorted(data[now.column], now.falling).forEach((i) => body.append(rows[i]));
    for (const head of heads) {
      const way = head.dataset.sort === now.column && (now.falling ? "descending" : "ascending");
      if (way) head.ariaSort = way;
      else head.removeAttribute("aria-sort");
    }
  };
  for (const head of heads) {
    const button = make("button", "dpnb-sort", ...head.childNodes);
    button.title = `Sort by ${head.dataset.sort}`;
    button.onclick = () => { now = pressed(now, head.dataset.sort); sort(); };
    head.append(button);
  }
  sort();

  const said = make("output", "");
  said.ariaLive = "polite";
  table.after(make("div", "dpnb-ask", said));
  const mark = pickable(table, data.predicate, (i) =>
    change("selected", i === model.get("selected") ? -1 : i));
  const draw = () => {
    const at = model.get("selected");
    mark(data.predicate.map((_, i) => (i === at ? "✓" : "")));
    said.textContent = data.said[at] ?? "Pick a predicate to read what you can conclude from it.";
    said.classList.toggle("dpnb-hint", !(at in data.said));
  };
  model.on("change:selected", draw);
  draw();
  return () => model.off(null, draw);
}

export default { render };
