import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const from = (path) => new URL(`../../dpnb/display/static/${path}`, import.meta.url);
const load = (path) => import(`data:text/javascript;base64,${readFileSync(from(path), "base64")}`);

const { figure, difference, verdict, picked, chosen, placed } = await load("answer.js");
const { local } = await load("record.js");
const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf-8"));

test("figures are written as Python writes them", () => {
  for (const [value, half, text] of cases.figures) {
    assert.equal(figure(value, half), text, `${value} with half-width ${half}`);
  }
  assert.equal(figure(Infinity, 1), "unknown");
});

test("differences and verdicts are those of Python, to the last digit", () => {
  for (const { aggregate, names, pairs } of cases.questions) {
    for (const [left, right, low, high, said] of pairs) {
      assert.deepEqual(difference(aggregate, left, right), [low, high]);
      assert.equal(verdict(names[left], names[right], aggregate.name, low, high, cases.sure), said);
    }
  }
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
  for (const name of ["answer.js", "record.js"]) {
    const text = readFileSync(from(name), "utf-8");
    assert.ok(text.length < 8192, `${name}: ${text.length}`);
    assert.doesNotMatch(text, /^import |https?:/m);
  }
});
