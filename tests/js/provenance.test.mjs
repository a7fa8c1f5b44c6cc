import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test, { mock } from "node:test";

import { from, load } from "./load.mjs";

const { PATIENCE, same, ticked, waiting } = await load("provenance.js");

test("the places of ticked boxes come in order", () => {
  assert.deepEqual(ticked([false, true, true]), [1, 2]);
  assert.deepEqual(ticked([]), []);
});

test("an answer is taken for the boxes as they are ticked now, and for no others", () => {
  assert.ok(same([0, 2], [0, 2]));
  assert.ok(same([], []));
  assert.ok(!same([0, 2], [0]));
  assert.ok(!same([0], [1]));
});

test("a silent kernel is told of once, and an answer in time is not", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let told = 0;
  const wait = waiting(() => { told += 1; });
  wait.start();
  mock.timers.tick(PATIENCE - 1);
  wait.start(); // asked again: patience begins anew
  mock.timers.tick(PATIENCE - 1);
  assert.equal(told, 0);
  mock.timers.tick(2);
  assert.equal(told, 1);
  wait.start();
  wait.stop();
  mock.timers.tick(10 * PATIENCE);
  assert.equal(told, 1);
  mock.timers.reset();
});

test("modules and styles are below 8 KB and need nothing else", () => {
  for (const name of ["provenance.js", "provenance.css"]) {
    const text = readFileSync(from(name));
    assert.ok(text.length < 8192, `${name}: ${text.length}`);
    assert.doesNotMatch(String(text), /^import (?!.* from "\.\/table\.js";$)|https?:/m);
  }
});
