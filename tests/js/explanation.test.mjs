import assert from "node:assert/strict";
import test from "node:test";

import { load } from "./load.mjs";

const { FIRST, pressed, sorted } = await load("explanation.js");
const { step } = await load("table.js");

test("rows are sorted either way, and equal ones stay as they were", () => {
  assert.deepEqual(sorted([9, 8, 8, 18, 96], false), [1, 2, 0, 3, 4]);
  assert.deepEqual(sorted([9, 8, 8, 18, 96], true), [4, 3, 0, 1, 2]);
  assert.deepEqual(sorted([-0.5, 0.1, -1e-9], true), [1, 2, 0]);
  assert.deepEqual(sorted([], true), []);
});

test("predicates are sorted as a reader sorts them, numbers by size", () => {
  const names = ["sex = 'F'", "age in (40, 50]", "age in (9, 40]", "Age = 1"];
  assert.deepEqual(sorted(names, false).map((i) => names[i]),
    ["Age = 1", "age in (9, 40]", "age in (40, 50]", "sex = 'F'"]);
});

test("rows come by influence, so pressing its head leads back to where they were", () => {
  const high = [0.1012, 0.098, 0.098, 0.0781];
  assert.deepEqual(sorted(high, FIRST.falling), [0, 1, 2, 3]);
  assert.deepEqual(pressed({ column: "rank", falling: false }, "influence"), FIRST);
});

test("a head pressed twice turns the order round", () => {
  const once = pressed(FIRST, "rank");
  assert.deepEqual(once, { column: "rank", falling: false });
  assert.deepEqual(pressed(once, "rank"), { column: "rank", falling: true });
  assert.deepEqual(pressed(once, "predicate"), { column: "predicate", falling: false });
  assert.deepEqual(pressed(FIRST, "influence"), { column: "influence", falling: false });
});

test("keys lead through the rows and stop at the ends", () => {
  assert.equal(step("ArrowDown", 0, 5), 1);
  assert.equal(step("ArrowDown", 4, 5), 4);
  assert.equal(step("ArrowUp", 0, 5), 0);
  assert.equal(step("Home", 3, 5), 0);
  assert.equal(step("End", 0, 5), 4);
  assert.equal(step("x", 0, 5), null);
});
