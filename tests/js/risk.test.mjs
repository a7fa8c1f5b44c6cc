import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { from, load } from "./load.mjs";

const { hinted, keeps, largest, named, offered, placed } = await load("risk.js");
const { axis, bins, heights, labelled, said, ticks } = await load("histogram.js");

const near = (found, wanted) => assert.ok(Math.abs(found - wanted) < 1e-9, `${found} is not ${wanted}`);
const ratios = (...found) => found.map((ratio) => ({ ratio }));
const level = {
  name: "rho 0.05", epsilon: "epsilon 1.472", delta: "delta 1e-06", high: 1.05, high_text: "1.050",
  most: "159 rows (0.49 %)", floor: 29849, floor_text: "29,849 (91.7 %)",
  start: 1.01, end: 1.05, counts: [2496, 0, 0, 159],
};
const strict = { name: "strict", tau: 0.95, text: "0.95", limit: 1 / 0.95, limit_text: "1.053" };

test("a ratio equal to the threshold keeps to it, however floats round", () => {
  assert.ok(keeps(1 / (1 + 0.1 + 0.2), 1 / 1.3));
  assert.ok(keeps(0.95, 0.95));
  assert.ok(!keeps(0.9499, 0.95));
});

test("a preset takes the largest level that keeps to it", () => {
  assert.equal(largest(ratios(0.99, 0.96, 0.95, 0.7), 0.95), 2);
  assert.equal(largest(ratios(0.99, 0.96), 0.5), 1);
  assert.equal(largest(ratios(0.9, 0.8), 0.95), -1);
});

test("a level is told in the session's currency, epsilon and delta beside it", () => {
  assert.equal(named(level), "rho 0.05 (epsilon 1.472 at delta 1e-06)");
  assert.equal(named({ name: "epsilon 0.5", epsilon: "", delta: "" }), "epsilon 0.5");
});

test("the limit lies on a logarithmic axis, and beside it when there is none", () => {
  near(placed(2, 4), 50);
  near(placed(1, 4), 0);
  assert.ok(placed(null, 4) < 0);
});

test("the button opens when it is known what the choice means, and the budget allows", () => {
  const offer = { text: "Answer with rho 0.05", affordable: true };
  assert.deepEqual(offered(offer, true, false), { text: "Answer with rho 0.05", open: true });
  assert.equal(offered(offer, false, false).open, false);
  assert.equal(offered({ ...offer, affordable: false }, true, false).open, false);
  assert.deepEqual(offered(offer, true, true), { text: "Answering …", open: false });
});

test("what was bought before, and a limit that no level keeps to, are told", () => {
  assert.match(hinted(ratios(0.99), strict, { held: true }), /Bought before/);
  assert.equal(hinted(ratios(0.9), strict, { held: false }), "No listed level keeps to 0.95.");
  assert.equal(hinted(ratios(0.99), strict, { held: false }), "");
});

test("ticks are round and inside the axis", () => {
  assert.deepEqual(ticks(1.055), ["1.02", "1.04"]);
  assert.deepEqual(ticks(1.0011), ["1.0005", "1.0010"]);
  assert.deepEqual(ticks(2), ["1.5"]);
  assert.deepEqual(ticks(1.36), ["1.1", "1.2", "1.3"]);
  assert.deepEqual(ticks(3), ["1.5", "2.0", "2.5"]);
  assert.deepEqual(ticks(12), ["2", "5", "10"]);
  assert.deepEqual(ticks(4000), ["200", "500", "1000", "2000"]);
});

test("the axis holds the largest indicator and the limit", () => {
  const found = axis(level, strict.limit);
  assert.ok(found.end > strict.limit && found.end < 1.06);
  near(found.limit, 100 / 1.08);
  assert.equal(found.far, false);
});

test("a limit far beyond every row is not drawn to scale", () => {
  const found = axis({ ...level, high: 1.001 }, strict.limit);
  assert.equal(found.limit, null);
  assert.equal(found.far, true);
  assert.ok(found.end < 1.0012);
});

test("there is an axis where nobody stands out, and where there is no limit", () => {
  near(axis({ ...level, high: 1 }, strict.limit).limit, 100 / 1.08);
  assert.equal(axis({ ...level, high: 1 }, null).end, 2);
  assert.equal(axis(level, null).limit, null);
});

test("counts are drawn logarithmically, one row visibly and none not at all", () => {
  const { bars, lines } = heights([0, 1, 10, 100]);
  assert.equal(bars[0], 0);
  near(bars[1], 100 / 3);
  near(bars[2], 200 / 3);
  near(bars[3], 100);
  assert.deepEqual(lines.map(([, count]) => count), [1, 10, 100]);
  assert.deepEqual(heights([0, 0]), { bars: [0, 0], lines: [[100, 1]] });
});

test("bins lie side by side up to the largest indicator", () => {
  const found = bins({ start: 2, end: 8, counts: [1, 1] }, 16);
  assert.deepEqual(found.map((pair) => pair.map(Math.round)), [[25, 25], [50, 25]]);
  assert.deepEqual(bins({ start: 1, end: 1, counts: [] }, 2), []);
  assert.deepEqual(bins({ start: 4, end: 4, counts: [50] }, 16), [[50, 0]]);
});

test("no line runs through the other's label", () => {
  // both to the left: the one farther right is above; both to the right: the other way round
  assert.deepEqual(labelled([80, 93]), [{ left: true, upper: false }, { left: true, upper: true }]);
  assert.deepEqual(labelled([93, 80]), [{ left: true, upper: true }, { left: true, upper: false }]);
  assert.deepEqual(labelled([10, 20]), [{ left: false, upper: true }, { left: false, upper: false }]);
  assert.deepEqual(labelled([10, 93]), [{ left: false, upper: false }, { left: true, upper: true }]);
  assert.deepEqual(labelled([]), []);
});

test("the histogram is told in words", () => {
  const told = said(level, strict, "none");
  assert.match(told, /add nothing: 29,849 \(91\.7 %\)\./);
  assert.match(told, /Largest indicator: 1\.050, of 159 rows \(0\.49 %\)\./);
  assert.match(told, /Rows beyond the limit 1\.053: none\./);
  assert.doesNotMatch(said(level, { ...strict, limit: null }, "none"), /limit/);
  assert.equal(said({ ...level, floor: 0, counts: [] }, strict, "none"), "There are no rows.");
});

test("modules and styles are below 10 KB and need nothing else", () => {
  for (const name of ["risk.js", "histogram.js", "notice.js", "risk.css", "answer.css"]) {
    const text = readFileSync(from(name));
    assert.ok(text.length < 10240, `${name}: ${text.length}`);
    assert.doesNotMatch(String(text), /^import (?!.* from "\.\/(table|histogram)\.js";$)|https?:/m);
  }
});
