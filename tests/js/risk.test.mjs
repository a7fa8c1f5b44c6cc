import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { from, load } from "./load.mjs";

const { hinted, named, offered, ways } = await load("risk.js");
const { heights, keeps, labelled, largest, placed, said } = await load("histogram.js");

const near = (found, wanted) => assert.ok(Math.abs(found - wanted) < 1e-9, `${found} is not ${wanted}`);
const levels = (...found) => found.map((guesses) => ({ guesses }));
const level = {
  name: "rho 0.05", epsilon: "epsilon 1.472", delta: "delta 1e-06", guesses: 56.27, guesses_text: "56",
  most: "159 rows (0.49 %)", floor: 29849, floor_text: "29,849 (91.7 %)", indicator: "1.050",
  counts: [2496, 0, 0, 159],
};
const limit = { name: "55", guesses: 55, text: "55" };

test("guesses that equal the limit keep to it, however floats round", () => {
  assert.ok(keeps(50 + 0.1 + 0.2, 50.3));
  assert.ok(keeps(55, 55));
  assert.ok(!keeps(55.01, 55));
});

test("a limit takes the largest level that keeps to it", () => {
  assert.equal(largest(levels(51, 54, 55, 70), 55), 2);
  assert.equal(largest(levels(51, 54), 80), 1);
  assert.equal(largest(levels(60, 70), 55), -1);
});

test("a level is told in the session's currency, epsilon and delta beside it", () => {
  assert.equal(named(level), "rho 0.05 (epsilon 1.472 at delta 1e-06)");
  assert.equal(named({ name: "epsilon 0.5", epsilon: "", delta: "" }), "epsilon 0.5");
});

test("the axis goes from a coin toss to certainty", () => {
  near(placed(50), 0);
  near(placed(75), 50);
  near(placed(100), 100);
});

test("there are three ways to a level, two of which may be published", () => {
  const found = ways("costs rho 0.004 of the 1 left", false, true);
  assert.deepEqual(found.map(([way]) => way), ["rule", "counts", "look"]);
  assert.match(found[1][1], /publishable\): costs rho 0\.004 of the 1 left$/);
  assert.match(found[2][1], /what you change afterwards is marked/);
  assert.doesNotMatch(ways("", true, true)[2][1], /marked/);
});

test("safe counts that cannot be bought are closed, with the reason", () => {
  assert.deepEqual(ways("costs rho 0.004 of the 1 left", false, true).map(([, , open]) => open), [true, true, true]);
  const found = ways("rho 0.004 is needed, but only 0.001 is left", false, false);
  assert.deepEqual(found.map(([, , open]) => open), [true, false, true]);
  assert.match(found[1][1], /only 0\.001 is left$/);
});

test("the button opens when it is known what the choice means, and the budget allows", () => {
  const offer = { text: "Answer at rho 0.05", affordable: true };
  assert.deepEqual(offered(offer, true, false), { text: "Answer at rho 0.05", open: true });
  assert.equal(offered(offer, false, false).open, false);
  assert.equal(offered({ ...offer, affordable: false }, true, false).open, false);
  assert.deepEqual(offered(offer, true, true), { text: "Answering …", open: false });
});

test("what was bought before, and a limit that no level keeps to, are told", () => {
  assert.match(hinted(levels(51), limit, { held: true }), /Already paid for/);
  assert.equal(hinted(levels(60), limit, { held: false }), "No listed privacy cost stays within the limit of 55.");
  assert.equal(hinted(levels(51), limit, { held: false }), "");
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

test("no line runs through the other's label", () => {
  // both to the left: the one farther right is above; both to the right: the other way round
  assert.deepEqual(labelled([80, 93]), [{ left: true, upper: false }, { left: true, upper: true }]);
  assert.deepEqual(labelled([93, 80]), [{ left: true, upper: true }, { left: true, upper: false }]);
  assert.deepEqual(labelled([10, 20]), [{ left: false, upper: true }, { left: false, upper: false }]);
  assert.deepEqual(labelled([10, 93]), [{ left: false, upper: false }, { left: true, upper: true }]);
  assert.deepEqual(labelled([]), []);
});

test("the histogram is told in words", () => {
  const told = said(level, limit, "159 (0.49 %)");
  assert.match(told, /does not change the answer: 29,849 \(91\.7 %\)\./);
  assert.match(told, /Most easily guessed: 56 of 100, 159 rows \(0\.49 %\)\./);
  assert.match(told, /Rows above your limit of 55: 159 \(0\.49 %\)\./);
  assert.equal(said({ ...level, floor: 0, counts: [0, 0] }, limit, "none"), "There are no rows.");
});

test("modules and styles are below 10 KB and need nothing else", () => {
  for (const name of ["risk.js", "histogram.js", "notice.js", "risk.css", "answer.css"]) {
    const text = readFileSync(from(name));
    assert.ok(text.length < 10240, `${name}: ${text.length}`);
    assert.doesNotMatch(String(text), /^import (?!.* from "\.\/(table|histogram)\.js";$)|https?:/m);
  }
});
