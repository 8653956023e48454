// A long Markdown text to read: in parts that are drawn one at a time, and in blocks of which the places are known.

import { tokensOf, type Token } from "./markdown";

export interface Block {
  token: Token;
  /** Where its text begins and ends in the whole. */
  start: number;
  end: number;
}

export interface Part {
  text: string;
  start: number;
}

const LARGEST_PART = 60_000;
/** How much of a long text is loaded before all of it is asked for. */
export const FIRST = 4 * LARGEST_PART;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** The blocks of a text in their order: headings, paragraphs, lists, tables. `start` is where the text itself begins. */
export function blocksOf(part: Part): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  for (const token of tokensOf(part.text)) {
    // The lexer turns tabs and line ends into others, so where a block stands is looked for, and not counted.
    const first = token.raw.trimStart().slice(0, 40);
    const found = first ? part.text.indexOf(first.split("\n")[0] ?? "", at) : at;
    const begin = found < 0 ? at : found;
    const end = begin + token.raw.trim().length;
    if (token.type !== "space") blocks.push({ token, start: part.start + begin, end: part.start + end });
    at = Math.min(part.text.length, Math.max(at, end));
  }
  return blocks;
}

/** The beginning of a text that was cut anywhere, up to where a block ends. */
export function upToABlock(text: string): string {
  const end = text.lastIndexOf("\n\n");
  return end > text.length / 2 ? text.slice(0, end + 2) : text;
}

/** A long text in parts that are drawn one at a time, cut where a block ends, and never inside of a fence of code. */
export function partsOf(text: string, largest = LARGEST_PART): Part[] {
  const parts: Part[] = [];
  let start = 0;
  let fence = "";
  let at = 0;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    const mark = FENCE.exec(line)?.[1];
    if (mark) fence = fence ? (mark.startsWith(fence) ? "" : fence) : mark;
    at = end < 0 ? text.length : end + 1;
    const isLong = at - start >= largest;
    if ((isLong && !fence && line.trim() === "") || at - start >= 2 * largest) {
      parts.push({ text: text.slice(start, at), start });
      start = at;
      fence = "";
    }
  }
  if (start < text.length || parts.length === 0) parts.push({ text: text.slice(start), start });
  return parts;
}
