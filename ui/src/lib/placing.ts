// Where chunks stand in the text that they were cut from. Pure.

export interface Chunk {
  id: string;
  content: string;
  order: number;
  metadata: { headings?: string[] | null; page_numbers?: number[] | null; labels?: string[] | null };
}

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

/** Letters and digits are compared and nothing else: marks of Markdown and white space differ between the two. */
const COMPARED = /[\p{L}\p{N}]/u;
const ANCHOR = 24;

export function placeChunks(text: string, chunks: readonly Chunk[]): PlacedChunks {
  const whole = squeezed(text);
  const pieces: Piece[] = [];
  const elsewhere: Chunk[] = [];
  let at = 0; // in what is compared
  let end = 0; // in the text
  for (const chunk of [...chunks].sort((one, other) => one.order - other.order)) {
    const found = find(whole.letters, squeezed(chunk.content).letters, at);
    if (!found) {
      elsewhere.push(chunk);
      continue;
    }
    const from = Math.max(end, withMarks(text, whole.places[found.from]!));
    const until = withPunctuation(text, whole.places[found.until - 1]! + 1);
    if (from > end) pieces.push({ text: text.slice(end, from), chunk: null });
    pieces.push({ text: text.slice(from, until), chunk });
    at = found.until;
    end = until;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), chunk: null });
  return { pieces: pieces.filter((piece) => piece.chunk || piece.text.trim()), elsewhere };
}

/** Back to the beginning of the line, if nothing but marks stands before: `- ` of a list, `## ` of a heading. */
function withMarks(text: string, from: number): number {
  const begin = text.lastIndexOf("\n", from - 1) + 1;
  return COMPARED.test(text.slice(begin, from)) ? from : begin;
}

/** On to the end of the sentence: `.`, `**`, `|`. */
function withPunctuation(text: string, until: number): number {
  let end = until;
  while (end < text.length && !/\s/.test(text[end]!) && !COMPARED.test(text[end]!)) end += 1;
  return end;
}

/** The letters of a text, and where each stands in it. */
function squeezed(text: string): { letters: string; places: number[] } {
  const places: number[] = [];
  let letters = "";
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]!;
    if (!COMPARED.test(letter)) continue;
    letters += letter;
    places.push(at);
  }
  return { letters, places };
}

/** The whole chunk; or, where its middle was written anew, its beginning and its end. */
function find(whole: string, part: string, after: number): { from: number; until: number } | null {
  if (!part) return null;
  const exact = whole.indexOf(part, after);
  if (exact >= 0) return { from: exact, until: exact + part.length };
  if (part.length < 2 * ANCHOR) return null;
  const from = whole.indexOf(part.slice(0, ANCHOR), after);
  if (from < 0) return null;
  const last = whole.indexOf(part.slice(-ANCHOR), from);
  const until = last + ANCHOR;
  return last >= 0 && until - from < 2 * part.length ? { from, until } : null;
}
