import assert from "node:assert/strict";
import { test } from "node:test";

import { changed, href, match, placeOf } from "../src/lib/routing";

test("an address behind the # is a path and a query", () => {
  const place = placeOf("#/runs/12?status=FAILED&page=2");
  assert.deepEqual([place.path, Object.fromEntries(place.query)], ["/runs/12", { status: "FAILED", page: "2" }]);
  assert.equal(placeOf("").path, "/");
});

test("a pattern finds the names in a path, and fits whole paths only", () => {
  assert.deepEqual(match("/runs/:id", "/runs/12"), { id: "12" });
  assert.equal(match("/runs/:id", "/runs"), null);
  assert.equal(match("/runs/:id", "/runs/12/steps"), null);
  assert.equal(match("/runs/:id", "/runs/"), null);
  assert.deepEqual(match("/documents/:uri*", "/documents/a%20b/c"), { uri: "a b/c" });
  assert.deepEqual(match("/x/:name", "/x/100%"), { name: "100%" });
});

test("an address without values has no question mark", () => {
  assert.equal(href("/runs", { status: null, page: "" }), "#/runs");
  assert.equal(changed(new URLSearchParams("a=1&b=2"), { a: null, c: 3 }).toString(), "b=2&c=3");
});
