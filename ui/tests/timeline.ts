import assert from "node:assert/strict";
import { test } from "node:test";

import type { Attempt, Node } from "../src/lib/engine";
import { timelineOf } from "../src/lib/timeline";

const at = (second: number) => new Date(second * 1000).toISOString();
const step = (id: number, status: string, from: number | null, until: number | null): Node =>
  ({ step_id: id, key: `step ${id}`, status, start_date: from === null ? null : at(from), completed_date: until === null ? null : at(until) }) as Node;
const attempt = (id: number, from: number, until: number): Attempt =>
  ({ id, step_id: 1, item_index: null, attempt: id, start_date: at(from), end_date: at(until) }) as Attempt;

test("steps stand at their share of the time of the run", () => {
  const { rows } = timelineOf([step(1, "COMPLETED", 0, 5), step(2, "COMPLETED", 5, 10)], [], 0);
  assert.deepEqual(rows.map((row) => [row.last?.left, row.last?.width, row.last?.seconds]), [[0, 0.5, 5], [0.5, 0.5, 5]]);
});

test("a step that runs grows until now, and one that waits has no bar", () => {
  const { rows } = timelineOf([step(1, "RUNNING", 0, null), step(2, "PENDING", null, null)], [], 8_000);
  assert.deepEqual(rows.map((row) => row.last?.seconds ?? null), [8, null]);
});

test("the attempt that failed last is drawn once, as a failed one", () => {
  const { rows } = timelineOf([step(1, "FAILED", 4, 6)], [attempt(1, 0, 2), attempt(2, 4, 6)], 0);
  assert.deepEqual(rows[0]?.failed.map((each) => each.seconds), [2, 2]);
  assert.equal(rows[0]?.last, null);
});

test("an attempt that succeeds after one that failed is drawn after it", () => {
  const { rows } = timelineOf([step(1, "COMPLETED", 4, 6)], [attempt(1, 0, 2)], 0);
  assert.deepEqual([rows[0]?.failed.length, rows[0]?.last?.seconds], [1, 2]);
});
