// The view of a decision, for the widget and for the record that a notebook keeps. The record's tables
// and number lines are filtered in place; the next step, which costs, needs a kernel.
import { make, opened, step } from "./table.js";

/**
 * @typedef {{after: number, cost: string, text: string, closed: string}} Step
 * @typedef {{tests: string[], offers: string[][], step?: Step, body?: string}} Data
 * @typedef {"ready" | "asked" | "busy"} Stage
 */

/** What can be shown, each with its name. */
export const SHOWS = [["all", "all"], ["selected", "selected"], ["yes", "surely yes"],
  ["doubt", "unknown"], ["no", "surely no"]];

/** Whether a group is shown. @param {string} show @param {number} verdict @param {boolean} chosen */
export const keeps = (show, verdict, chosen) =>
  ({ all: true, selected: chosen, yes: verdict === 1, doubt: verdict === 0, no: verdict === -1 })[show];

/** What the button says, and whether it may be pressed. @param {Step} offer @param {Stage} stage */
export function offered(offer, stage) {
  if (offer.closed) return { text: "Refine", said: offer.closed, open: false };
  if (stage === "busy") return { text: "Taking one more step …", said: "", open: false };
  if (stage === "asked") {
    return { text: `Spend ${offer.cost} on one more step`, said: `${offer.text} Press again to spend it.`, open: true };
  }
  return { text: "Refine …", said: "The first press shows the cost, the second one spends it.", open: true };
}

/** Where a press leads. A double click is one press: nobody has read the cost in between.
 * @param {Stage} stage @param {number} clicks */
export const pressed = (stage, clicks) =>
  (clicks > 1 || stage === "busy" ? stage : stage === "asked" ? "busy" : "asked");

/** What is shown, in words. @param {number} rows @param {number} all @param {number} lanes */
export const counted = (rows, all, lanes) =>
  `Shown: ${rows} of ${all} groups in the table, ${lanes} on the number line.`;

function control(tag, name, ...children) {
  const node = make(tag, name, ...children);
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

function spoken() {
  const node = make("output", "");
  node.ariaLive = "polite";
  return node;
}

function list(options, act) {
  const node = make("select", "", ...options.map(([value, text]) => new Option(text, value)));
  return Object.assign(node, { onchange: () => act(node.value) });
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  let parts = [], tell = null;
  const draw = () => parts.forEach((part) => part());
  const build = () => {
    const { table, change } = opened({ model, el }), data = /** @type {Data} */ (model.get("data"));
    parts = [groups(el, table, data, model, change), prices(el, data, model, change)];
    if (data.step && model.send) {
      const next = refining(data.step, model, el);
      parts.push(next.draw);
      tell = next.tell;
    }
    draw();
  };
  const rebuild = () => {
    const there = el.querySelector(".dpnb-refine")?.contains(el.getRootNode().activeElement);
    build();
    if (there) el.querySelector(".dpnb-refine button").focus();
  };
  const hear = (message) => tell?.(message);
  for (const name of ["condition", "show", "at"]) model.on(`change:${name}`, draw);
  model.on("change:data", rebuild);
  model.on("msg:custom", hear);
  build();
  return () => [draw, rebuild, hear].forEach((act) => model.off(null, act));
}

/** Filter rows and lanes, and show one condition; returns what redraws. */
function groups(el, table, data, model, change) {
  const conditions = [...el.querySelectorAll(".dpnb-cond")];
  if (!conditions.length) return () => {};
  const rows = table?.closest(".dpnb-errors") ? [] : [...table?.tBodies[0].rows ?? []];
  const which = list(data.tests.map((text, i) => [i, text]), (i) => change("condition", +i));
  const show = list(SHOWS, (value) => change("show", value)), said = spoken();
  const chooser = make("p", "dpnb-choose");
  if (data.tests.length > 1) chooser.append(make("label", "", "Condition ", which), " ");
  chooser.append(make("label", "", "Show groups ", show));
  el.querySelector(".dpnb-lines").after(said);
  (rows.length ? table : el.querySelector(".dpnb-lines")).before(chooser);
  const lanes = conditions.map((one) => [...one.querySelectorAll("li")]);
  lanes.forEach(walkable);
  el.querySelectorAll("li svg").forEach((drawn) => {
    drawn.onfocus = drawn.onpointerenter = () => { said.textContent = drawn.getAttribute("aria-label"); };
  });
  return () => {
    const at = Math.min(model.get("condition"), conditions.length - 1), now = model.get("show");
    which.value = at;
    show.value = now;
    conditions.forEach((one, i) => { one.hidden = i !== at; });
    const kept = (node) => {
      node.hidden = !keeps(now, +node.dataset.verdict, node.dataset.chosen === "1");
      return !node.hidden;
    };
    const counts = [rows, lanes[at]].map((nodes) => nodes.filter(kept).length);
    reach(lanes[at].filter((lane) => !lane.hidden), 0);
    said.textContent = counted(counts[0], rows.length, counts[1]);
  };
}

/** Let keys walk the lanes of a condition, of which one can be reached by Tab. @param {HTMLElement[]} lanes */
function walkable(lanes) {
  lanes.forEach((lane) => {
    const drawn = lane.querySelector("svg");
    drawn.setAttribute("data-lm-suppress-shortcuts", "true");
    drawn.onkeydown = (event) => {
      const shown = lanes.filter((one) => !one.hidden);
      const next = step(event.key, shown.indexOf(lane), shown.length);
      if (next === null) return;
      reach(shown, next);
      shown[next].querySelector("svg").focus();
      event.preventDefault();
    };
  });
}

/** Let one of the lanes be reached by Tab. @param {HTMLElement[]} lanes @param {number} at */
function reach(lanes, at) {
  lanes.forEach((lane, i) => lane.querySelector("svg").setAttribute("tabindex", i === at ? "0" : "-1"));
}

/** What other uncertain regions would cost; returns what redraws. */
function prices(el, data, model, change) {
  const { offers } = data;
  if (!offers.length) return () => {};
  const slider = control("input", ""), said = spoken();
  Object.assign(slider, { type: "range", min: 0, max: offers.length - 1, step: 1 });
  slider.oninput = () => change("at", +slider.value);
  const label = make("label", "", make("span", "", "Uncertain regions"), slider), value = make("span", "");
  el.querySelector(".dpnb-body").append(make("div", "dpnb-price",
    make("p", "", "What would a new decision with other uncertain regions cost? Moving the slider is free."),
    make("div", "dpnb-slide", label, value), said));
  return () => {
    const [name, text] = offers[model.get("at")];
    Object.assign(slider, { value: model.get("at"), ariaValueText: name });
    value.textContent = name;
    said.textContent = text;
  };
}

/** The button for the next step; returns what redraws it, and what takes the kernel's word.
 * @param {Step} offer */
function refining(offer, model, el) {
  let stage = /** @type {Stage} */ ("ready"), told = "";
  const press = control("button", "dpnb-button dpnb-spend"), back = control("button", "dpnb-button", "Cancel");
  const said = spoken();
  el.querySelector(".dpnb-body").append(make("div", "dpnb-refine", press, " ", back, said));
  const draw = () => {
    const { text, said: words, open } = offered(offer, stage);
    press.textContent = text;
    press.ariaDisabled = String(!open); // disabled in full it would lose the focus
    back.hidden = stage !== "asked";
    said.textContent = told || words;
  };
  press.onclick = (event) => {
    if (press.ariaDisabled === "true") return;
    const next = pressed(stage, event.detail);
    if (next === "busy" && stage !== "busy") model.send({ refine: offer.after });
    [stage, told] = [next, ""];
    draw();
  };
  back.onclick = () => { [stage, told] = ["ready", ""]; draw(); press.focus(); };
  const tell = ({ failed, refined }) => { [stage, told] = ["ready", failed ?? refined ?? ""]; draw(); };
  return { draw, tell };
}

export default { render };
