// The live view of the provenance table, for the owner: what was released to any analysts together comes from
// the kernel, which computes it exactly. Nothing shown is part of a state that a notebook could keep.
import { make } from "./table.js";

/**
 * @typedef {{body?: string, heat?: Object<string, [string, string]>, analysts?: string[],
 *   chosen?: number[], renewed?: string, together?: number[], text?: string, share?: number,
 *   failed?: string}} Message
 */

const HINT = "Tick the analysts who might share their answers.";
const SILENT = "The kernel does not answer. It is busy or was stopped. If this stays, run the cell again.";
/** Milliseconds after which a kernel is called silent. */
export const PATIENCE = 4000;

/** @param {number[]} a @param {number[]} b */
export const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

/** The places that are ticked, in order. @param {boolean[]} ticks */
export const ticked = (ticks) => ticks.flatMap((tick, i) => (tick ? [i] : []));

/** Waits for one answer at a time; tells when none comes. @param {() => void} late */
export function waiting(late, patience = PATIENCE) {
  let timer;
  const stop = () => clearTimeout(timer);
  return { stop, start: () => { stop(); timer = setTimeout(late, patience); } };
}

function control(tag, name, ...children) {
  const node = make(tag, name, ...children);
  node.setAttribute("data-lm-suppress-shortcuts", "true"); // else JupyterLab takes the keys away
  return node;
}

function spoken(name) {
  const node = make("output", name);
  node.ariaLive = "polite";
  return node;
}

function group(name, label, ...children) {
  const node = make("div", name, make("span", "", label), ...children);
  node.role = "group";
  node.ariaLabel = label;
  return node;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  if (!model.send) return;
  el.classList.add("dpnb", "dpnb-on");
  let view = null;
  const wait = waiting(() => {
    if (view) view.say(SILENT);
    else el.replaceChildren(make("p", "dpnb-said", SILENT));
  });
  const ask = (content) => { wait.start(); model.send(content); };
  const hear = (/** @type {Message} */ message) => {
    wait.stop();
    if (message.body) view = opened(el, message, ask, view);
    else if (view) view.tell(message);
    else if (message.failed) el.replaceChildren(make("p", "dpnb-said", message.failed));
  };
  model.on("msg:custom", hear);
  ask({ ask: "table" });
  return () => { wait.stop(); model.off("msg:custom", hear); };
}

/** Build the view, anew after a refresh; returns what takes further messages.
 * @param {HTMLElement} el @param {Message} message @param {(content: object) => void} ask
 * @param {{state: () => {unit: string, open: boolean[], focus: boolean}} | null} before */
function opened(el, message, ask, before) {
  const kept = before && before.state();
  el.innerHTML = message.body; // written and escaped by dpnb/display/provenance.py
  const find = (name) => el.querySelector(name), names = message.analysts;
  [...el.querySelectorAll("details")].forEach((node, i) => { node.open = Boolean(kept?.open[i]); });

  const refresh = control("button", "dpnb-button", "Refresh"), news = spoken("dpnb-prov-news");
  refresh.onclick = () => { news.textContent = ""; ask({ ask: "refresh" }); };
  find(".dpnb-title").after(make("div", "dpnb-prov-bar", refresh, news));

  const map = find(".dpnb-prov-map"), unitNames = Object.keys(message.heat);
  let unit = kept && unitNames.includes(kept.unit) ? kept.unit : unitNames[0];
  const units = unitNames.map((name) => {
    const node = control("button", "dpnb-button", name);
    node.onclick = () => { unit = name; draw(); };
    return node;
  });
  const note = map?.nextElementSibling;
  if (map && units.length > 1) map.before(group("dpnb-prov-bar dpnb-prov-units", "Numbers in", ...units));
  function draw() {
    units.forEach((node, i) => { node.ariaPressed = String(unitNames[i] === unit); });
    if (!map || !message.heat[unit][0]) return;
    const left = map.firstChild.scrollLeft;
    map.innerHTML = message.heat[unit][0];
    map.firstChild.scrollLeft = left;
    note.textContent = message.heat[unit][1];
  }
  draw();

  const boxes = names.map((name) => {
    const box = control("input", "");
    box.type = "checkbox";
    box.onchange = reckon;
    return box;
  });
  const labels = names.map((name, i) => make("label", "", boxes[i], make("span", "", name)));
  const every = [["All", true], ["None", false]].map(([text, on]) => {
    const node = control("button", "dpnb-button", text);
    node.onclick = () => { boxes.forEach((box) => { box.checked = on; }); reckon(); };
    return node;
  });
  const result = spoken("dpnb-prov-result"), meter = make("div", "dpnb-meter", make("div", ""));
  const home = find(".dpnb-prov-coalitions");
  const place = home.querySelector("table");
  const calculator = make("div", "dpnb-prov-reckon",
    group("dpnb-prov-boxes", "Who might share their answers?", ...labels, ...every), result, meter);
  if (place) place.before(calculator);
  const now = () => ticked(boxes.map((box) => box.checked));
  function reckon() {
    result.textContent = now().length ? "…" : HINT;
    meter.hidden = true;
    ask({ together: now() });
  }
  const tick = (places) => boxes.forEach((box, i) => { box.checked = places.includes(i); });

  const tell = (/** @type {Message} */ told) => {
    if (told.chosen) tick(told.chosen);
    if (told.failed) say(told.failed);
    // an answer to what another view, or this one a moment ago, asked
    if (!told.together || !same(told.together, now())) return;
    result.textContent = told.text.replace(" %", "\u00a0%") || HINT;
    meter.hidden = !told.text;
    meter.firstChild.style.width = `${100 * told.share}%`;
  };
  const say = (text) => {
    news.textContent = text;
    if (result.textContent === "…") result.textContent = text;
  };
  tick(message.chosen);
  news.textContent = message.renewed;
  if (place && boxes.length) reckon();
  if (kept?.focus) refresh.focus();
  return {
    tell, say,
    state: () => ({
      unit, focus: refresh === document.activeElement,
      open: [...el.querySelectorAll("details")].map((node) => node.open),
    }),
  };
}

export default { render };
