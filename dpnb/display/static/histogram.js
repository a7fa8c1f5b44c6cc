// How easily rows are guessed at one rho or epsilon: guesses right of 100, from 50, a coin toss, to 100.
// Counts are logarithmic.
import { make } from "./table.js";

/**
 * @typedef {{name: string, epsilon: string, delta: string, guesses: number, guesses_text: string,
 *   most: string, indicator: string, beyond: string[], floor: number, floor_text: string,
 *   counts: number[], sentence: string}} Level what is shown of one candidate
 * @typedef {{name: string, guesses: number, text: string}} Limit
 */

/** Guesses right of 100 by somebody who knows nothing. */
const COIN = 50;

/** Floats make equal numbers differ; as in Python. */
const TIE = 1e-12;

/** @param {number} found guesses right of 100 @param {number} limit */
export const keeps = (found, limit) => found <= limit * (1 + TIE);

/** The largest level that keeps to a limit; -1 when none does.
 * @param {Level[]} levels @param {number} limit */
export const largest = (levels, limit) =>
  levels.reduce((found, level, i) => (keeps(level.guesses, limit) ? i : found), -1);

/** Where a number of guesses lies on the axis, in percent. @param {number} guesses */
export const placed = (guesses) => 100 * (guesses - COIN) / (100 - COIN);

/** Heights in percent below a power of ten at the top; one row is one step high.
 * @param {number[]} counts */
export function heights(counts) {
  const decades = Math.ceil(Math.log10(Math.max(1, ...counts)) - 1e-9);
  const height = (count) => (count ? 100 * (1 + Math.log10(count)) / (1 + decades) : 0);
  const lines = Array.from({ length: decades + 1 }, (_, i) => 10 ** i);
  return { bars: counts.map(height), lines: lines.map((count) => [height(count), count]) };
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
  if (!level.floor && level.counts.every((count) => !count)) return "There are no rows.";
  return `Rows whose presence does not change the answer: ${level.floor_text}. Most easily guessed: `
    + `${level.guesses_text} of 100, ${level.most}. Rows above your limit of ${limit.text}: ${beyond}.`;
}

const box = (name, style, ...children) => {
  const node = make("span", name, ...children);
  node.style.cssText = style;
  return node;
};

/** @param {Level} level @param {Limit} limit @param {string} beyond rows above the limit */
export function drawn(level, limit, beyond) {
  const { bars, lines } = heights([level.floor, ...level.counts]), width = 100 / level.counts.length;
  const marks = [[placed(limit.guesses), "dpnb-risk-limit", `limit ${limit.text}`]];
  if (level.guesses > COIN) marks.push([placed(level.guesses), "dpnb-risk-most", `most ${level.guesses_text}`]);
  const sides = labelled(marks.map(([at]) => at));
  const tops = marks.map(([at, name, text], i) => box(
    `${name} ${sides[i].upper ? "dpnb-risk-upper" : ""}`, `left:${at}%`,
    box(sides[i].left ? "dpnb-risk-left" : "", "", text)));
  const area = box("dpnb-risk-area", "", ...level.counts.map((_, i) =>
    box("dpnb-mark", `left:${i * width}%;width:${width}%;height:${bars[i + 1]}%`)), ...tops);
  const plot = box("dpnb-risk-plot", "", ...lines.map(([at, count]) =>
    box("dpnb-risk-line", `bottom:${at}%`, box("", "", count.toLocaleString("en-US")))),
  box("dpnb-risk-floor", "", box("dpnb-mark", `height:${bars[0]}%`), box("dpnb-risk-foot", "", "none")), area);
  area.append(...[60, 70, 80, 90, 100].map((guesses) =>
    box("dpnb-risk-foot", `left:${placed(guesses)}%`, String(guesses))));
  const figure = make("div", "dpnb-risk-figure", plot);
  figure.ariaHidden = "true"; // the words say the same
  return [make("p", "dpnb-notes", said(level, limit, beyond)), figure];
}
