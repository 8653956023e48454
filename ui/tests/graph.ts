import assert from "node:assert/strict";
import { test } from "node:test";

import { draw, SIZES } from "../src/lib/graph";

const nodes = (...ids: string[]) => ids.map((id) => ({ id }));
const edges = (...pairs: string[]) => pairs.map((pair) => ({ source: pair[0]!, target: pair[1]! }));
const column = (x: number) => Math.round(x / (SIZES.node.width + SIZES.between.layers));

test("a node stands right of all that it waits for", () => {
  const drawing = draw(nodes("a", "b", "c", "d"), edges("ab", "bc", "ac", "cd", "ad"));
  const x = Object.fromEntries(drawing.nodes.map((node) => [node.id, column(node.x)]));
  assert.deepEqual(x, { a: 0, b: 1, c: 2, d: 3 });
});

test("no two nodes of a layer overlap, and all are within the drawing", () => {
  const ids = Array.from({ length: 26 }, (_, at) => String.fromCharCode(97 + at));
  const pairs = ids.slice(1).map((id, at) => `${ids[Math.floor(at / 3)]}${id}`);
  const drawing = draw(nodes(...ids), edges(...pairs));
  for (const one of drawing.nodes) {
    assert.ok(one.x >= 0 && one.y >= 0);
    assert.ok(one.x + SIZES.node.width <= drawing.width && one.y + SIZES.node.height <= drawing.height);
    const overlapping = drawing.nodes.filter(
      (other) => other !== one && other.x === one.x && Math.abs(other.y - one.y) < SIZES.node.height,
    );
    assert.deepEqual(overlapping, []);
  }
});

test("parallel lines do not cross", () => {
  const drawing = draw(nodes("s", "a", "b", "c", "d", "t"), edges("sa", "sb", "ad", "bc", "ct", "dt"));
  const y = Object.fromEntries(drawing.nodes.map((node) => [node.id, node.y]));
  assert.equal(y["a"]! < y["b"]!, y["d"]! < y["c"]!);
});

test("what is drawn ends for circles, unknown names and no nodes at all", () => {
  assert.equal(draw(nodes("a", "b"), edges("ab", "ba", "aa", "ax")).nodes.length, 2);
  assert.deepEqual(draw([], []).nodes, []);
});
