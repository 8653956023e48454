import assert from "node:assert/strict";
import { test } from "node:test";

import { between, sideBySide } from "../src/lib/diff";
import { locate } from "../src/lib/locate";
import { blocksOf, partsOf } from "../src/lib/reading";
import { snippet, wordsOf } from "../src/lib/snippets";

const TEXT = "# Bees\n\nThe *bees* leave the [hive](https://x.org).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n# no heading\n\nbees\n```\n\nThe bees come home.\n";

test("blocks know where they stand in the text", () => {
  for (const block of blocksOf({ text: TEXT, start: 0 })) {
    assert.equal(TEXT.slice(block.start, block.end).trim(), block.token.raw.trim());
  }
  const later = blocksOf({ text: TEXT, start: 1_000 });
  assert.equal(later[0]?.start, 1_000);
});

test("a long text is cut between blocks, never within a fence, and nothing is lost", () => {
  const long = `${"Words and words.\n\n".repeat(30)}\`\`\`\n${"code\n\n".repeat(40)}\`\`\`\n\n${"More words.\n\n".repeat(30)}`;
  const parts = partsOf(long, 300);
  assert.ok(parts.length > 3);
  assert.equal(parts.map((part) => part.text).join(""), long);
  for (const part of parts) assert.equal(long.slice(part.start, part.start + part.text.length), part.text);
  assert.equal(parts.filter((part) => part.text.split("```").length === 2).length, 0);
  assert.deepEqual(partsOf(""), [{ text: "", start: 0 }]);
});

test("chunks are found by their letters, each after the one before, and one that is nowhere is none", () => {
  const places = locate(TEXT, ["The bees leave the hive", "no such words stand in this text at all", "The bees come home."]);
  assert.match(TEXT.slice(places[0]!.start, places[0]!.end), /^The \*bees\* leave the \[hive/);
  assert.equal(places[1], null);
  assert.equal(TEXT.slice(places[2]!.start, places[2]!.end), "The bees come home");
});

test("words that repeat are found where the chunk stands", () => {
  const text = "Same words.\n\nBetween.\n\nSame words.";
  assert.deepEqual(locate(text, ["Same words", "Between", "Same words"]).map((place) => place?.start), [0, 13, 23]);
});

test("a chunk is found by any of its parts, however far away, and those that are nowhere hide no others", () => {
  const numbered = (word: string, from: number, to: number) => Array.from({ length: to - from }, (_, index) => `${word}${from + index}`).join(" ");
  const text = `${numbered("first", 0, 9_000)}\n\n${numbered("table", 0, 9_000)}\n\n${numbered("last", 0, 9_000)}\n\nThe end.`;
  const nowhere = Array.from({ length: 500 }, (_, index) => numbered(`anew${index}`, 0, 40));
  const half = `${numbered("other", 0, 9)} ${numbered("last", 8_000, 8_020)}`;
  const places = locate(text, [numbered("first", 100, 120), ...nowhere, half, "The end.", numbered("table", 7, 20)]);
  const found = places.map((place) => place && text.slice(place.start, place.end));
  assert.equal(found[0], numbered("first", 100, 120));
  assert.deepEqual(found.slice(1, 501), nowhere.map(() => null));
  assert.match(found[501]!, /last8000 .* last8019$/);
  assert.deepEqual(found.slice(502), ["The end", numbered("table", 7, 20)]);
});

test("a unified diff becomes two columns", () => {
  const rows = sideBySide("--- a\n+++ b\n@@ -1,3 +1,4 @@\n one\n-two\n+TWO\n+more\n three\n@@ -9 +10 @@\n-nine\n+NINE");
  assert.deepEqual(
    rows.map((row) => [row.kind, row.left?.number, row.left?.text, row.right?.number, row.right?.text]),
    [
      ["same", 1, "one", 1, "one"],
      ["changed", 2, "two", 2, "TWO"],
      ["changed", undefined, undefined, 3, "more"],
      ["same", 3, "three", 4, "three"],
      ["gap", undefined, undefined, undefined, undefined],
      ["changed", 9, "nine", 10, "NINE"],
    ],
  );
});

test("of two lines the words that differ are told from those around them", () => {
  assert.deepEqual(between("The team meets on Monday.", "The team meets on Thursday."), {
    before: "The team meets on ",
    left: "Monday",
    right: "Thursday",
    after: ".",
  });
  assert.deepEqual(between("same", "same"), { before: "same", left: "", right: "", after: "" });
  assert.deepEqual(between("a b", "a b c"), { before: "a ", left: "b", right: "b c", after: "" });
  assert.deepEqual(between("", "x"), { before: "", left: "", right: "x", after: "" });
});

test("lines that look like the head of a diff are lines where they stand in it", () => {
  const rows = sideBySide("--- a\n+++ b\n@@ -1,2 +1,2 @@\n--- dashes\n+++ pluses");
  assert.deepEqual(rows.map((row) => [row.left?.text, row.right?.text]), [["-- dashes", "++ pluses"]]);
});

test("a snippet holds the words of the question, marks their forms, and stays text", () => {
  const content = `${"Nothing here. ".repeat(60)}The keeper <b>lights</b> the lamp at dusk. ${"Nothing there. ".repeat(60)}`;
  const pieces = snippet(content, wordsOf("When is the lamp lighted?"));
  assert.deepEqual(pieces.filter((piece) => piece.isHit).map((piece) => piece.text), ["lights", "lamp"]);
  assert.ok(pieces.map((piece) => piece.text).join("").length < 440);
  assert.deepEqual(wordsOf("is it"), ["is", "it"]);
  assert.deepEqual(snippet("plain (text", wordsOf("")), [{ text: "plain (text", isHit: false }]);
});
