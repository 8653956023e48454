import assert from "node:assert/strict";
import { test } from "node:test";

import { bars, largestSum, stacked, ticks } from "../src/lib/plotting";

test("the marks of a scale are round and reach the largest value", () => {
  for (const largest of [0, 0.3, 1, 7, 99, 101, 12_345, 2e6]) {
    const marks = ticks(largest);
    assert.equal(marks[0], 0);
    assert.ok(marks.at(-1)! >= largest && marks.length <= 7, String(marks));
  }
});

test("series stand on top of one another", () => {
  const layers = stacked([{ name: "a", values: [1, 2] }, { name: "b", values: [3, 0] }]);
  assert.deepEqual(layers.map((layer) => [layer.lower, layer.upper]), [[[0, 0], [1, 2]], [[1, 2], [4, 2]]]);
  assert.equal(largestSum([{ name: "a", values: [1, 2] }, { name: "b", values: [3, 0] }]), 4);
});

test("what is nothing is not drawn", () => {
  assert.equal(bars([0, 0], [0, 0], 100, 100, 1), "");
});
