// A text taken apart by the chunks that were cut from it. Pure.

import type { Chunk } from "./answers";
import { locate } from "./locate";

/** A piece of the text: of a chunk, or of none, as headings and marks are. */
export interface Piece {
  text: string;
  chunk: Chunk | null;
}

export interface PlacedChunks {
  pieces: Piece[];
  /** Chunks whose words do not stand in the text in this order, such as those of tables that were written anew. */
  elsewhere: Chunk[];
}

const LETTER = /[\p{L}\p{N}]/u;

export function placeChunks(text: string, chunks: readonly Chunk[]): PlacedChunks {
  const inOrder = [...chunks].sort((one, other) => one.order - other.order);
  const places = locate(text, inOrder.map((chunk) => chunk.content));
  const pieces: Piece[] = [];
  const elsewhere: Chunk[] = [];
  let end = 0;
  for (const [index, chunk] of inOrder.entries()) {
    const place = places[index];
    // One that stands within those before it, as an overlap does, cannot be shown as a piece of its own.
    const until = place ? withPunctuation(text, place.end) : 0;
    if (!place || until <= end) {
      elsewhere.push(chunk);
      continue;
    }
    const from = Math.max(end, withMarks(text, place.start));
    if (from > end) pieces.push({ text: text.slice(end, from), chunk: null });
    pieces.push({ text: text.slice(from, until), chunk });
    end = until;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), chunk: null });
  return { pieces: pieces.filter((piece) => piece.chunk || piece.text.trim()), elsewhere };
}

/** Back to the beginning of the line, if nothing but marks stands before: `- ` of a list, `## ` of a heading. */
function withMarks(text: string, from: number): number {
  const begin = text.lastIndexOf("\n", from - 1) + 1;
  return LETTER.test(text.slice(begin, from)) ? from : begin;
}

/** On to the end of the sentence: `.`, `**`, `|`. */
function withPunctuation(text: string, until: number): number {
  let end = until;
  while (end < text.length && !/\s/.test(text[end]!) && !LETTER.test(text[end]!)) end += 1;
  return end;
}
