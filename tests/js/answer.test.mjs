import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { from, load } from "./load.mjs";

const { difference, verdict, picked, chosen, placed } = await load("answer.js");
const { figure, end } = await load("numbers.js");
const { local } = await load("record.js");
const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf-8"));

test("figures are written as Python writes them", () => {
  for (const [value, half, text] of cases.figures) {
    assert.equal(figure(value, half), text, `${value} with margin of error ${half}`);
  }
});

test("ends of intervals are rounded outward as Python does", () => {
  for (const [value, half, low, high] of cases.ends) {
    const read = [value, half].map((one) => typeof one === "string" ? +one.replace("inf", "Infinity") : one);
    assert.deepEqual([end(...read, -1), end(...read, 1)], [low, high], `${value}, margin of error ${half}`);
  }
});

test("differences are those of Python but for the last bit, verdicts to the last digit", () => {
  for (const { aggregate, names, pairs } of cases.questions) {
    for (const [left, right, low, high, said] of pairs) {
      difference(aggregate, left, right).forEach((found, side) => {
        const exact = [low, high][side];
        assert.ok(Math.abs(found - exact) <= 2 ** -52 * Math.abs(exact), `${found}, not ${exact}`);
      });
      assert.equal(verdict(
        names[left], names[right], aggregate.name, low, high, cases.sure, aggregate.among), said);
    }
  }
});

test("a verdict says with which others it holds together", () => {
  for (const [low, high] of [[1, 2], [-2, -1], [-1, 1]]) {
    const said = verdict("a", "b", "n", low, high, cases.sure, " for all of these");
    assert.match(said, /This holds for all of these even if you picked the groups after seeing the answer\./);
  }
});

test("an end of an interval is not shown as 0 unless it is", () => {
  for (const [low, high, said] of cases.verdicts) {
    assert.equal(verdict("a", "b", "n", low, high, cases.sure), said);
  }
});

test("unbounded intervals are subtracted, said and drawn", () => {
  const found = { low: [0, "-Infinity"], high: [1, "Infinity"] };
  assert.deepEqual(difference(found, 0, 1), [-Infinity, Infinity]);
  assert.equal(verdict("a", "b", "n", -Infinity, Infinity, cases.sure), cases.unbounded);
  assert.deepEqual(placed(-Infinity, Infinity), { start: 0, width: 100 });
  const { start, width } = placed(5.5, Infinity);
  assert.ok(Math.abs(start - (50 + 50 / 1.1)) < 1e-9);
  assert.ok(Math.abs(start + width - 100) < 1e-9);
});

test("a third pick drops the oldest, a repeated pick gives back", () => {
  assert.deepEqual(picked([], 4), [4]);
  assert.deepEqual(picked([4], 2), [4, 2]);
  assert.deepEqual(picked([4, 2], 7), [2, 7]);
  assert.deepEqual(picked([4, 2], 4), [2]);
});

test("choosing the other list's group swaps the two", () => {
  assert.deepEqual(chosen([], 0, 3), [3]);
  assert.deepEqual(chosen([3], 1, 5), [3, 5]);
  assert.deepEqual(chosen([3, 5], 0, 5), [5, 3]);
  assert.deepEqual(chosen([3, 5], 1, 0), [3, 0]);
  assert.deepEqual(chosen([3, 5], 1, null), [3]);
  assert.deepEqual(chosen([3, 5], 0, null), []);
});

test("an interval is placed around 0 in the middle", () => {
  const { start, width } = placed(-11, 5.5);
  assert.ok(Math.abs(start - (50 - 50 / 1.1)) < 1e-9);
  assert.ok(Math.abs(width - 75 / 1.1) < 1e-9);
  assert.deepEqual(placed(0, 0), { start: 50, width: 0 });
});

test("the model without a kernel tells of changes", () => {
  const model = local({ selected: [] });
  const seen = [];
  model.on("change:selected", () => seen.push(model.get("selected")));
  model.set("selected", [1]);
  assert.deepEqual(seen, [[1]]);
});

test("each module is below 8 KB and needs nothing else", () => {
  for (const name of ["answer.js", "explanation.js", "numbers.js", "record.js", "table.js"]) {
    const text = readFileSync(from(name), "utf-8");
    assert.ok(text.length < 8192, `${name}: ${text.length}`);
    assert.doesNotMatch(text, /^import (?!.* from "\.\/(numbers|table)\.js";$)|https?:/m);
  }
});
