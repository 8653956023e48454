// Markdown as a tree of tokens. Pages make elements of them one by one: no text of a document is ever taken for HTML.

import { Lexer, type Token, type Tokens } from "marked";

export type { Token, Tokens };

export function tokensOf(text: string): Token[] {
  return new Lexer({ gfm: true }).lex(text);
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** `&lt;` in Markdown stands for `<`: as text, since nothing makes elements of it. */
export function plain(text: string): string {
  return text.replace(/&(#x[\da-f]{1,6}|#\d{1,7}|[a-z]{2,6});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = name[1]?.toLowerCase() === "x" ? parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** The address of a link, if it is one that a page may lead to. */
export function safeAddress(address: string): string | null {
  return /^(https?:|mailto:)/i.test(address.trim()) ? address.trim() : null;
}
