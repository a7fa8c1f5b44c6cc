import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { from, load } from "./load.mjs";

const { read, told, placed, shaded, split } = await load("inference.js");

test("a number is read as it was typed, and nothing else is", () => {
  assert.equal(read("1000"), 1000);
  assert.equal(read(" -2.5e3 "), -2500);
  for (const text of ["", "  ", "many", "1,000", "Infinity", "NaN", "1e999"]) {
    assert.equal(read(text), null, text);
  }
});

test("an interval is told with its confidence, and of which value it is where there are several", () => {
  const point = ["95 %", "10 to 20", 250, 750];
  assert.equal(told(point, ""), "95 % confidence interval: 10 to 20");
  assert.equal(told(point, "of this value on its own"),
    "95 % confidence interval of this value on its own: 10 to 20");
});

test("a bar is placed in percent of the widest interval", () => {
  assert.deepEqual(placed(["95 %", "", 250, 750]), { start: 25, width: 50 });
  assert.deepEqual(placed(["99.99 %", "", 0, 1000]), { start: 0, width: 100 });
});

test("the shading of a curve ends where the interval does, and follows the curve between", () => {
  const curve = "0,84 120,44 240,4 360,44 480,84";
  assert.equal(shaded(curve, ["70 %", "", 375, 625], 84), "180,84 180,24 240,4 300,24 300,84");
  assert.equal(shaded(curve, ["95 %", "", 250, 750], 84), "120,84 120,44 240,4 360,44 360,84");
  assert.equal(shaded(curve, ["99.99 %", "", 0, 1000], 84),
    "0,84 0,84 120,44 240,4 360,44 480,84 480,84");
});

test("values come one aggregate after the other", () => {
  const places = [0, 2, 3, 5].map((at) => split(at, 3));
  assert.deepEqual(places, [
    { aggregate: 0, group: 0 }, { aggregate: 0, group: 2 },
    { aggregate: 1, group: 0 }, { aggregate: 1, group: 2 },
  ]);
});

test("the module is below 8 KB and needs nothing but the table", () => {
  const text = readFileSync(from("inference.js"), "utf-8");
  assert.ok(text.length < 8192, `${text.length}`);
  assert.doesNotMatch(text, /^import (?!.* from "\.\/table\.js";$)|https?:/m);
});
