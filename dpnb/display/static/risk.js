// The picker of a level, for the owner of the data. What it shows is exact: it comes by message when
// a view asks, and is no part of a state that a notebook could keep.
import { drawn } from "./histogram.js";
import { make, pickable } from "./table.js";

/**
 * @typedef {import("./histogram.js").Level} Level
 * @typedef {import("./histogram.js").Limit} Limit
 * @typedef {{by: string, median: string[][], largest: string[][], ratio: string[]}} Groups
 * @typedef {{public: boolean, levels: Level[], thresholds: Limit[], first: number, at: number,
 *   axis: number, groups: Groups | null}} Frames
 * @typedef {{text: string, affordable: boolean, held: boolean, accuracy: string[]}} Offer
 * @typedef {{frames?: Frames, body?: string, token?: string, at?: number, offers?: Offer[],
 *   answered?: {text: string, losses: string} | null, failed?: string}} Message
 */

/** Floats make equal ratios differ; as in Python. */
const TIE = 1e-12;

/** @param {number} ratio floor / max @param {number} tau */
export const keeps = (ratio, tau) => ratio >= tau * (1 - TIE);

/** The largest level that keeps to a threshold; -1 when none does.
 * @param {Level[]} levels @param {number} tau */
export const largest = (levels, tau) =>
  levels.reduce((found, level, i) => (keeps(level.ratio, tau) ? i : found), -1);

/** A level with what it means beside it. @param {Level} level */
export const named = ({ name, epsilon, delta }) =>
  (epsilon ? `${name} (${epsilon} at ${delta})` : name);

/** Where a limit lies on the common axis, in percent. @param {number | null} limit @param {number} end */
export const placed = (limit, end) =>
  (limit === null ? -9 : 100 * Math.log(limit) / Math.log(end));

/** What the button says, and whether it may be pressed.
 * @param {Offer} offer @param {boolean} known @param {boolean} busy */
export const offered = (offer, known, busy) =>
  ({ text: busy ? "Answering …" : offer.text, open: offer.affordable && known && !busy });

/** What must be known beside the sentence. @param {Level[]} levels @param {Limit} limit @param {Offer} offer */
export function hinted(levels, limit, offer) {
  if (offer.held) return "Bought before, at this level or a finer one: the answer tells what the finest one tells.";
  return largest(levels, limit.tau) < 0 ? `No listed level keeps to ${limit.text}.` : "";
}

function control(tag, name, ...children) {
  const node = make(tag, name, ...children);
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

function spoken(name) {
  const node = make("output", name);
  node.ariaLive = "polite";
  return node;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  if (!model.send) return;
  let tell = null;
  const hear = (/** @type {Message} */ message) => {
    if (message.frames) tell = opened(model, el, message);
    else if (tell) tell(message);
    else if (message.failed) el.replaceChildren(make("p", "", message.failed));
  };
  model.on("msg:custom", hear);
  model.send({ ask: "frames" });
  return () => model.off("msg:custom", hear);
}

/** Build the view; returns what takes further messages.
 * @param {any} model @param {HTMLElement} el @param {Message} message */
function opened(model, el, message) {
  const { levels, thresholds, groups, axis, noun, public: free } = message.frames;
  let { at, first: which } = message.frames, { offers } = message, busy = false;
  el.innerHTML = message.body; // written and escaped by dpnb/display/risk.py
  el.classList.add("dpnb", "dpnb-on");
  el.dataset.dpnbLive = message.token;
  const find = (name) => el.querySelector(name);
  const table = find(".dpnb-risk-range"), body = find(".dpnb-body");
  const go = (to) => { at = to; model.send({ at }); draw(); };

  const presets = thresholds.map((limit, i) => {
    const node = control("button", "dpnb-button", `${limit.name} ${limit.text}`);
    node.onclick = () => { which = i; go(Math.max(0, largest(levels, limit.tau))); };
    return node;
  });
  const choose = make("div", "dpnb-risk-presets", make("span", "", "floor / max at least"), ...presets);
  choose.role = "group";
  choose.ariaLabel = "Limit: floor / max at least";
  const slider = control("input", ""), value = make("span", "dpnb-risk-value");
  Object.assign(slider, { type: "range", min: 0, max: levels.length - 1, step: 1 });
  slider.oninput = () => go(+slider.value);
  const sentence = spoken("dpnb-risk-sentence"), hint = make("p", "dpnb-notes"), figure = make("div", "dpnb-risk-shape");
  table.before(make("div", "dpnb-risk-controls", choose,
    make("div", "dpnb-risk-slide", make("label", "", make("span", "", "Level"), slider), value)), sentence, hint);
  table.after(figure);
  const mark = pickable(table, levels.map(named), go);

  const box = control("input", ""), press = control("button", "dpnb-button dpnb-spend dpnb-risk-answer"), result = spoken("");
  const losses = make("div", "");
  box.type = "checkbox";
  box.onchange = () => draw();
  press.onclick = () => {
    if (press.ariaDisabled === "true") return; // disabled in full it would lose the focus
    busy = true;
    result.textContent = "";
    model.send({ answer: at, known: box.checked });
    draw();
  };
  const know = make("label", "dpnb-risk-know", box,
    make("span", "", "I know that this choice looked at the data; the answer will say so."));
  body.append(make("div", "dpnb-risk-release", ...(free ? [] : [know]), press, result), losses);

  const rows = [...table.tBodies[0].rows];
  function draw() {
    const level = levels[at], limit = thresholds[which], place = `${placed(limit.limit, axis)}%`;
    presets.forEach((node, i) => { node.ariaPressed = String(i === which); });
    Object.assign(slider, { value: at, ariaValueText: named(level) });
    value.textContent = named(level);
    hint.textContent = hinted(levels, limit, offers[at]);
    hint.hidden = !hint.textContent;
    sentence.textContent = level.sentence;
    mark(levels.map((_, i) => (i === at ? "✓" : "")));
    find("[data-tau]").textContent = `at least ${limit.text}`;
    const head = find("[data-limit]"), low = placed(limit.limit, axis);
    head.textContent = limit.limit ? `limit ${limit.limit_text}` : "no limit";
    head.style.cssText += low > 50 ? `;text-align:right;padding:0 ${100 - low}% 0 0`
      : `;text-align:left;padding:0 0 0 ${Math.max(0, low)}%`;
    rows.forEach((row, i) => {
      if (i === at) row.ariaCurrent = "true";
      else row.removeAttribute("aria-current");
      row.cells[1].style.setProperty("--dpnb-limit", place);
      const kept = row.querySelector("[data-kept]"), held = keeps(levels[i].ratio, limit.tau);
      kept.textContent = held ? "✓ within" : "✗ beyond";
      row.classList.toggle("dpnb-risk-beyond", !held);
      row.querySelector("[data-beyond]").textContent = levels[i].beyond[which];
      row.querySelector("[data-accuracy]").innerText = offers[i].accuracy.join("\n");
    });
    const title = make("p", "dpnb-head", `How many ${noun} have which indicator, at ${level.name}`);
    figure.replaceChildren(title, ...drawn(level, limit, level.beyond[which]));
    if (groups) {
      [...find(".dpnb-risk-groups")?.tBodies[0].rows ?? []].forEach((row, i) => {
        row.cells[2].textContent = groups.median[at][i];
        row.cells[3].textContent = groups.largest[at][i];
      });
      find("[data-ratio]").textContent = groups.ratio[at];
    }
    const { text, open } = offered(offers[at], free || box.checked, busy);
    press.textContent = text;
    press.ariaDisabled = String(!open);
  }
  const tell = (/** @type {Message} */ told) => {
    if (told.at !== undefined) at = told.at;
    if (told.offers) offers = told.offers;
    if (told.answered || told.failed) {
      busy = false;
      result.textContent = told.failed ?? told.answered.text;
    }
    if (told.answered) losses.innerHTML = told.answered.losses;
    draw();
  };
  tell({ answered: message.answered });
  return tell;
}

export default { render };
