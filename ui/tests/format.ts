import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, duration, folderOf, kindOf, nameOf, percent, relative, secondsBetween } from "../src/lib/format";

test("durations are told in one or two units", () => {
  const told = [0, 0.0004, 0.25, 3.44, 59.4, 125, 3_600, 12_000, 180_000].map(duration);
  assert.deepEqual(told, ["0 s", "<1 ms", "250 ms", "3.4 s", "59 s", "2 min 5 s", "1 h", "3 h 20 min", "2 d 2 h"]);
  assert.equal(duration(null), "–");
});

test("a share is never rounded to nothing or to all", () => {
  assert.deepEqual([percent(0, 9), percent(1, 1000), percent(999, 1000), percent(9, 9), percent(1, 0)], ["0 %", "<1 %", ">99 %", "100 %", "0 %"]);
});

test("moments are told as people say them", () => {
  const now = Date.parse("2030-01-01T12:00:00Z");
  assert.equal(relative("2030-01-01T11:59:58Z", now), "just now");
  assert.equal(relative("2030-01-01T11:55:00Z", now), "5 min ago");
  assert.equal(relative("2030-01-01T14:00:00Z", now), "in 2 h");
  assert.equal(secondsBetween("2030-01-01T11:00:00Z", null, now), 3600);
});

test("sizes and names are short", () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1536), bytes(64 * 2 ** 20)], ["0 B", "1023 B", "1.5 KiB", "64 MiB"]);
  assert.deepEqual([nameOf("/a/b/c.md"), nameOf("https://example.org/x/"), nameOf("")], ["c.md", "x", ""]);
});

test("a document is of the kind that its name says, else its media type", () => {
  const told = [kindOf("/a/menu.DOCX", "application/zip"), kindOf("/a/README", "text/plain"), kindOf("/a.b/c", "application/vnd.x.sheet")];
  assert.deepEqual(told, ["docx", "plain", "sheet"]);
});

test("documents of one name are told apart by their folders", () => {
  assert.deepEqual(["a/b/c/index.md", "b/index.md", "index.md", "https://example.org/a/"].map(folderOf), ["b/c", "b", "", "https:/example.org"]);
});
