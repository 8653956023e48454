import assert from "node:assert/strict";
import { test } from "node:test";

import { plain, safeAddress, tokensOf } from "../src/lib/markdown";

test("a link leads to the web or to mail, and to nothing else", () => {
  assert.equal(safeAddress(" https://example.org/a"), "https://example.org/a");
  for (const address of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//example.org", "vbscript:x", "file:///etc/passwd"]) {
    assert.equal(safeAddress(address), null);
  }
});

test("HTML in Markdown is a token of its own, to be shown as it is written", () => {
  const kinds = tokensOf("<script>alert(1)</script>\n\nplain").map((token) => token.type);
  assert.equal(kinds[0], "html");
});

test("entities stand for letters", () => {
  assert.equal(plain("a &lt;b&gt; &amp;amp; &#65;&#x42; &unknown; &#9999999;"), "a <b> &amp; AB &unknown; &#9999999;");
});
