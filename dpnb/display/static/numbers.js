// Numbers as dpnb/formats.py writes them.

/** Python rounds ties to even, JavaScript up. @param {number} value @param {number} places */
function fixed(value, places) {
  const size = Math.abs(value), all = size.toFixed(100), at = all.length - 100 + places;
  const kept = all.slice(0, places ? at : at - 1);
  const down = /^50*$/.test(all.slice(at)) && /[02468]$/.test(kept);
  return (value < 0 ? "-" : "") + (down ? kept : size.toFixed(places));
}

/** @param {string} text */
const grouped = (text) => text.replace(/^(-?\d+)/, (all) => all.replace(/\B(?=(\d{3})+$)/g, ","));

/** Python's ",.3g" for any number of digits. @param {number} value @param {number} digits */
function general(value, digits) {
  const near = +value.toPrecision(digits), size = Math.abs(near);
  if (size === 0) return "0";
  if (size >= 1e-4 && size < 10 ** digits) return grouped(String(near));
  const text = value.toExponential(digits - 1).replace(/\.?0*e/, "e");
  return text.replace(/e(.)(\d)$/, "e$10$2");
}

const power = (/** @type {number} */ size) => Math.floor(Math.log10(size));

/** Significant digits of a very large or very small number. @param {number} size @param {number} half */
const digits = (size, half) =>
  isFinite(half) ? Math.min(17, Math.max(3, power(size) - power(half) + 2)) : 3;

const extreme = (/** @type {number} */ size) => size >= 1e15 || size < 1e-9;
const places = (/** @type {number} */ half) => Math.min(12, Math.max(0, 1 - power(half)));

/** The digits a margin of error deserves. @param {number} value @param {number} half */
export function figure(value, half) {
  if (half === 0) return general(value, 12);
  const size = Math.max(Math.abs(value), half);
  if (extreme(size)) return general(value, digits(size, half));
  const shown = grouped(fixed(value, places(half)));
  return /[1-9]/.test(shown) ? shown : shown.replace("-", "");
}

/** From a number as shown to the next one. @param {number} value @param {number} half */
function beyond(value, half) {
  const size = Math.max(Math.abs(value), half);
  if (half === 0) return 0;
  if (extreme(size)) return 10 ** ((value ? power(Math.abs(value)) : 0) - digits(size, half) + 1);
  return 10 ** -places(half);
}

/** An end of an interval: rounded outward, and never shown as 0 when it is not.
 * @param {number} value @param {number} half @param {-1 | 1} side @returns {string} */
export function end(value, half, side) {
  if (!isFinite(value)) return value > 0 ? "∞" : "-∞";
  const slack = isFinite(half) ? Math.max(Math.abs(value), half) * 2 ** -50 : 0;
  const tells = (/** @type {string} */ text) => /[1-9]/.test(text);
  let shown = figure(value, half);
  const read = +shown.replaceAll(",", "");
  if (tells(shown) && side * (value - read) > slack) {
    shown = figure((isFinite(read) ? read : value) + side * beyond(value, half), half);
  }
  return tells(shown) || Math.abs(value) <= slack ? shown : end(value, Math.abs(value), side);
}
