// The owner's picker of a privacy cost: first the limit, then one of three ways.
// What a look shows is exact: it comes by message, and is not part of a state that a notebook keeps.
import { drawn, keeps, largest, placed } from "./histogram.js";
import { make, pickable } from "./table.js";

/**
 * @typedef {import("./histogram.js").Level} Level
 * @typedef {import("./histogram.js").Limit} Limit
 * @typedef {{by: string, guesses: string[][], indicator: string[][], beyond: string[][][]}} Groups
 * @typedef {{levels: Level[], at: number, groups: Groups | null, noun: string}} Frames
 * @typedef {{text: string, affordable: boolean, held: boolean, accuracy: string[]}} Offer
 * @typedef {{way: string, lines: string[], marked: boolean, offer: Offer}} Settled
 * @typedef {{frames?: Frames | null, limits?: Limit[], which?: number, public?: boolean, body?: string,
 *   token?: string, at?: number, offers?: Offer[], settled?: Settled, target?: string,
 *   buyable?: boolean, counts?: {html: string, at: number, names: string[]} | null,
 *   answered?: {text: string, losses: string} | null, failed?: string}} Message
 */

/** A level with what it means beside it. @param {Level} level */
export const named = ({ name, epsilon, delta }) =>
  (epsilon ? `${name} (${epsilon} at ${delta})` : name);

/** What the button says, and whether it may be pressed.
 * @param {Offer} offer @param {boolean} known @param {boolean} busy */
export const offered = (offer, known, busy) =>
  ({ text: busy ? "Answering …" : offer.text, open: offer.affordable && known && !busy });

/** What must be known beside the sentence. @param {Level[]} levels @param {Limit} limit @param {Offer} offer */
export function hinted(levels, limit, offer) {
  if (offer.held) return "Already paid for, at this accuracy or a better one. The answer reveals as much as the most accurate one.";
  return largest(levels, limit.guesses) < 0 ? `No listed privacy cost stays within the limit of ${limit.text}.` : "";
}

/** The ways from a limit to a level, and whether each is open. */
export const ways = (target, free, buyable) => [
  ["rule", "Use the rule for my limit (free, publishable)", true],
  ["counts", `Pay for safe counts, then choose (publishable): ${target}`, buyable],
  ["look", free ? "Look at exact values (the table is public)"
    : "Look first (for you only; what you change afterwards is marked)", true],
];

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

function grouped(label, ...children) {
  const node = make("div", "dpnb-risk-presets", ...children);
  node.role = "group";
  node.ariaLabel = label;
  return node;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  if (!model.send) return;
  let tell = null;
  const hear = (/** @type {Message} */ message) => {
    if (message.body) {
      const pressed = el.contains(document.activeElement);
      tell = opened(model, el, message);
      if (pressed) el.querySelector("[aria-pressed=true].dpnb-risk-look")?.focus();
    } else if (tell) tell(message);
    else if (message.failed) el.replaceChildren(make("p", "", message.failed));
  };
  model.on("msg:custom", hear);
  model.send({ ask: "frames" });
  return () => model.off("msg:custom", hear);
}

/** Build the view; returns what takes further messages.
 * @param {any} model @param {HTMLElement} el @param {Message} message */
function opened(model, el, message) {
  const { frames, limits, public: free } = message;
  const levels = frames?.levels ?? [], groups = frames?.groups;
  let { which, offers, settled, counts, target, buyable } = message, at = frames ? frames.at : -1, busy = false;
  el.innerHTML = message.body; // written and escaped by dpnb/display/cards/risk.py
  el.classList.add("dpnb", "dpnb-on");
  el.dataset.dpnbLive = message.token;
  const find = (name) => el.querySelector(name), body = find(".dpnb-body"), table = find(".dpnb-risk-range");
  const go = (to) => { at = to; model.send({ at }); draw(); };
  const button = (name, text, act) => {
    const node = control("button", `dpnb-button ${name}`, text);
    node.onclick = act;
    return node;
  };

  const presets = limits.map((limit, i) => button("", limit.name, () => {
    which = i;
    if (at >= 0) go(Math.max(0, largest(levels, limit.guesses)));
    model.send({ limit: i });
  }));
  const paths = ways(target, free, buyable).map(([way, text], i) => button(`dpnb-risk-${way}`, text, () => {
    if (paths[i].ariaDisabled !== "true") model.send({ way });
  }));
  const limit_text = "At most this many of 100 guesses about a person's presence may be right (50 is a coin toss):";
  const sentence = spoken("dpnb-risk-sentence"), hint = make("p", "dpnb-notes"), more = make("p", "dpnb-notes");
  const bought = make("div", "dpnb-risk-counts");
  const controls = make("div", "dpnb-risk-controls",
    make("div", "", limit_text), grouped("Limit in guesses right of 100", ...presets), grouped("How to choose the privacy cost", ...paths));
  (table ?? body.lastElementChild)[table ? "before" : "after"](controls, sentence, more, bought, hint);

  let mark = null, slider = null, value = null, figure = null;
  if (frames) {
    slider = control("input", "");
    value = make("span", "dpnb-risk-value");
    Object.assign(slider, { type: "range", min: 0, max: levels.length - 1, step: 1 });
    slider.oninput = () => go(+slider.value);
    controls.append(make("div", "dpnb-risk-slide", make("label", "", make("span", "", "Privacy cost"), slider), value));
    figure = make("div", "dpnb-risk-shape");
    table.after(figure);
    mark = pickable(table, levels.map(named), go);
  }

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

  const rows = table ? [...table.tBodies[0].rows] : [];
  function draw() {
    const limit = limits[which], offer = at < 0 ? settled.offer : offers[at];
    const marked = !free && (at >= 0 || settled.marked);
    presets.forEach((node, i) => { node.ariaPressed = String(i === which); });
    ways(target, free, buyable).forEach(([way, text, open], i) => {
      paths[i].ariaPressed = String(way === (at < 0 ? settled.way : "look"));
      paths[i].ariaDisabled = String(!open);
      paths[i].textContent = text;
    });
    sentence.textContent = at < 0 ? settled.lines[0] : levels[at].sentence;
    const said = at < 0 ? settled.lines.slice(1) : [];
    if (marked) said.push("You chose this privacy cost by looking at the data. How easily people are guessed is then unknown.");
    more.innerText = said.join("\n");
    more.hidden = !said.length;
    hint.textContent = at < 0 ? "" : hinted(levels, limit, offer);
    hint.hidden = !hint.textContent;
    if (frames) look(limit);
    know.hidden = !marked;
    const { text, open } = offered(offer, !marked || box.checked, busy);
    press.textContent = text;
    press.ariaDisabled = String(!open);
  }
  function look(limit) {
    const shown = Math.max(0, at), level = levels[shown], place = placed(limit.guesses);
    Object.assign(slider, { value: shown, ariaValueText: named(level) });
    value.textContent = at < 0 ? "" : named(level);
    mark(levels.map((_, i) => (i === at ? "✓" : "")));
    const head = find("[data-limit]");
    head.textContent = `limit ${limit.text}`;
    head.style.cssText += place > 50 ? `;text-align:right;padding:0 ${100 - place}% 0 0`
      : `;text-align:left;padding:0 0 0 ${place}%`;
    rows.forEach((row, i) => {
      if (i === at) row.ariaCurrent = "true";
      else row.removeAttribute("aria-current");
      row.cells[1].style.setProperty("--dpnb-limit", `${place}%`);
      const held = keeps(levels[i].guesses, limit.guesses);
      row.querySelector("[data-kept]").textContent = held ? "✓ within" : "✗ above";
      row.classList.toggle("dpnb-risk-beyond", !held);
      row.querySelector("[data-beyond]").textContent = levels[i].beyond[which];
      row.querySelector("[data-accuracy]").innerText = offers[i].accuracy.join("\n");
    });
    const title = make("p", "dpnb-head", `How easily ${frames.noun} are guessed, at ${level.name}`);
    figure.replaceChildren(title, ...drawn(level, limit, level.beyond[which]));
    [...find(".dpnb-risk-groups")?.tBodies[0].rows ?? []].forEach((row, i) => {
      [groups.beyond[shown][which], groups.guesses[shown], groups.indicator[shown]].forEach((found, j) => {
        row.cells[2 + j].textContent = found[i];
      });
    });
  }
  function count() {
    bought.innerHTML = counts?.html ?? ""; // written and escaped by dpnb/display/cards/risk.py
    const listed = bought.querySelector("table");
    if (listed) pickable(listed, counts.names, (k) => model.send({ count: k }))(counts.names.map((_, i) => (i === counts.at ? "✓" : "")));
  }
  const tell = (/** @type {Message} */ told) => {
    if (told.at !== undefined) at = told.at;
    if (told.which !== undefined) ({ which } = told);
    if (told.offers) ({ offers } = told);
    if (told.target) ({ target, buyable } = told);
    if (told.settled) ({ settled } = told);
    if (told.counts !== undefined) { ({ counts } = told); count(); }
    if (told.answered || told.failed) {
      busy = false;
      result.textContent = told.failed ?? told.answered.text;
    }
    if (told.answered) losses.innerHTML = told.answered.losses;
    draw();
  };
  tell({ answered: message.answered, counts, failed: message.failed });
  return tell;
}

export default { render };
