import assert from "node:assert/strict";
import { test } from "node:test";

import { pagesOf } from "../src/lib/regions";

const page = (number: number) => ({ page_no: number, size: { width: 100, height: 200 } });
const at = (number: number, t: number, b: number, coord_origin?: string) => [{ page_no: number, bbox: { l: 10, r: 60, t, b, coord_origin } }];

test("regions stand on their page from top to bottom, whichever corner they are measured from", () => {
  const pages = pagesOf({
    pages: { "2": page(2), "1": page(1) },
    texts: [
      { label: "text", text: "below", prov: at(1, 50, 30, "BOTTOMLEFT") },
      { label: "section_header", text: "above", prov: at(1, 20, 40, "TOPLEFT") },
    ],
    tables: [{ label: "table", prov: at(2, 0, 10) }],
  });
  assert.deepEqual(pages.map((each) => [each.number, each.regions.map(({ label, text, y, height }) => [label, text, y, height])]), [
    [1, [["section header", "above", 20, 20], ["text", "below", 150, 20]]],
    [2, [["table", "", 0, 10]]],
  ]);
});

test("what stands on no page, or on one that is not there, is left out", () => {
  assert.deepEqual(pagesOf({ texts: [{ label: "text", prov: at(1, 0, 1) }] }), []);
  assert.deepEqual(pagesOf({}), []);
});
