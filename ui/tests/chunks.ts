import assert from "node:assert/strict";
import { test } from "node:test";

import type { Chunk } from "../src/lib/answers";
import { placeChunks } from "../src/lib/placing";

const chunk = (order: number, content: string): Chunk => ({ id: String(order), order, content, metadata: {} });

test("chunks stand where their words are, and every letter of the text is shown once", () => {
  const text = "# Title\n\nThe first sentence.\n\n- one\n- two\n\nThe **last** sentence.\n";
  const { pieces, elsewhere } = placeChunks(text, [chunk(1, "one\ntwo"), chunk(0, "The first sentence."), chunk(2, "The last sentence.")]);
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(
    pieces.map((piece) => [piece.chunk?.order ?? null, piece.text.trim()]),
    [
      [null, "# Title"],
      [0, "The first sentence."],
      [1, "- one\n- two"],
      [2, "The **last** sentence."],
    ],
  );
  const letters = (some: string) => some.replace(/\s/g, "");
  assert.equal(letters(pieces.map((piece) => piece.text).join("")), letters(text));
});

test("chunks that say the same stand one after the other, and not twice at one place", () => {
  const { pieces } = placeChunks("again\n\nagain\n", [chunk(0, "again"), chunk(1, "again")]);
  assert.deepEqual(pieces.map((piece) => piece.chunk?.order), [0, 1]);
});

test("a chunk that was written anew is told of, and hides no other", () => {
  const { pieces, elsewhere } = placeChunks("one\n\nthree", [chunk(0, "one"), chunk(1, "two"), chunk(2, "three")]);
  assert.deepEqual(elsewhere.map((each) => each.order), [1]);
  assert.deepEqual(pieces.map((piece) => piece.chunk?.order), [0, 2]);
});
