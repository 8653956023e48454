import assert from "node:assert/strict";
import { test } from "node:test";

import type { FoundDocument } from "../src/lib/answers";
import { suggestions } from "../src/lib/suggestions";

const PAGES = [
  { path: "/runs", title: "Runs", nav: "Work" },
  { path: "/runs/:id", title: "Run" },
  { path: "/audit", title: "Audit log", nav: "Setup" },
];

test("a page is found by a part of its name, and one that needs a number is not offered", () => {
  assert.deepEqual(suggestions("RUN", PAGES, []).map((each) => each.href).slice(0, 1), ["#/runs"]);
  assert.deepEqual(suggestions("", PAGES, []).map((each) => each.name), ["Runs", "Audit log"]);
});

test("a number leads to the run, the group and the batch of that number", () => {
  assert.deepEqual(suggestions(" #12 ", PAGES, []).map((each) => each.href).slice(0, 3), ["#/runs/12", "#/groups/12", "#/batches/12"]);
});

test("documents are called by their titles, else by the ends of their paths, and what was typed can be searched for", () => {
  const found = [{ uri: "a/b & c.md", source: "s", title: null }, { uri: "d.md", source: "s", title: "Lamps" }] as FoundDocument[];
  assert.deepEqual(
    suggestions("b &", PAGES, found).map((each) => [each.name, each.href]),
    [
      ["b & c.md", "#/documents/at?source=s&uri=a%2Fb+%26+c.md"],
      ["Lamps", "#/documents/at?source=s&uri=d.md"],
      ["Search for “b &”", "#/search?q=b+%26"],
      ["Documents with “b &” in their name", "#/documents?q=b+%26"],
    ],
  );
});
