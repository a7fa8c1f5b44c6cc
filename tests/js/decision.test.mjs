import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { from, load } from "./load.mjs";

const { SHOWS, keeps, offered, pressed, counted } = await load("decision.js");
const offer = { after: 1, cost: "epsilon 0.2", text: "One more step costs epsilon 0.2, of epsilon 0.5 left.", closed: "" };

test("groups are shown by verdict, or by whether they are selected", () => {
  const groups = [[1, true], [0, true], [0, false], [-1, false]];
  const shown = SHOWS.map(([show]) => groups.map(([verdict, chosen]) => Number(keeps(show, verdict, chosen))).join(""));
  assert.deepEqual(shown, ["1111", "1100", "1000", "0110", "0001"]);
});

test("the cost of a step is shown before it can be spent", () => {
  const ready = offered(offer, "ready"), asked = offered(offer, "asked");
  assert.equal(ready.text, "Refine …");
  assert.ok(asked.said.startsWith(offer.text));
  assert.equal(asked.text, "Spend epsilon 0.2 on one more step");
  assert.ok(ready.open && asked.open && !offered(offer, "busy").open);
});

test("it takes two presses, and a double click is one", () => {
  assert.equal(pressed("ready", 1), "asked");
  assert.equal(pressed("asked", 1), "busy");
  assert.equal(pressed("asked", 0), "busy", "a key press has no clicks");
  assert.equal(pressed("asked", 2), "asked", "the second half of a double click");
  assert.equal(pressed("busy", 1), "busy");
});

test("what cannot be taken says why, at any stage", () => {
  for (const stage of ["ready", "asked", "busy"]) {
    const { said, open } = offered({ ...offer, closed: "This decision has no more steps." }, stage);
    assert.deepEqual([said, open], ["This decision has no more steps.", false]);
  }
});

test("what is shown is counted", () => {
  assert.equal(counted(2, 10, 3), "Shown: 2 of 10 groups in the table, 3 on the number line.");
});

test("the module is below 8 KB and needs nothing but the table", () => {
  const text = readFileSync(from("decision.js"), "utf-8");
  assert.ok(text.length < 8192, `${text.length}`);
  assert.doesNotMatch(text, /^import (?!.* from "\.\/table\.js";$)|https?:/m);
});
