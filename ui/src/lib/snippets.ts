// A passage around the words that were asked for, with these marked: as pieces of text, never as HTML.

export interface Piece {
  text: string;
  isHit: boolean;
}

const STOP = new Set("a an and are as at be by can do does for from how i in is it of on or that the this to was what when where which who why with".split(" "));

/** The words of a question that are worth marking. */
export function wordsOf(question: string): string[] {
  const words = question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const telling = words.filter((word) => word.length > 1 && !STOP.has(word));
  return [...new Set(telling.length ? telling : words)];
}

/** The passage of at most this many letters with most of the words in it. */
export function snippet(content: string, words: readonly string[], most = 420): Piece[] {
  const text = content.replace(/\s+/g, " ").trim();
  const finds = placesOf(text, words);
  const start = text.length <= most ? 0 : nextWord(text, best(finds.map((find) => find.start), text.length, most));
  const end = start + most >= text.length ? text.length : endOfWord(text, start + most);
  const pieces: Piece[] = start > 0 ? [{ text: "… ", isHit: false }] : [];
  let at = start;
  for (const find of finds) {
    if (find.start < at || find.end > end) continue;
    if (find.start > at) pieces.push({ text: text.slice(at, find.start), isHit: false });
    pieces.push({ text: text.slice(find.start, find.end), isHit: true });
    at = find.end;
  }
  if (at < end) pieces.push({ text: text.slice(at, end), isHit: false });
  if (end < text.length) pieces.push({ text: " …", isHit: false });
  return pieces;
}

/** Where the word after this place begins; the place itself at the beginning of a text, or where no blank is near. */
function nextWord(text: string, place: number): number {
  const blank = place === 0 ? -1 : text.indexOf(" ", place);
  return blank < 0 || blank > place + 40 ? place : blank + 1;
}

/** Where the last whole word before this place ends; the place itself where no blank is near. */
function endOfWord(text: string, place: number): number {
  const blank = text.lastIndexOf(" ", place);
  return blank < place - 40 ? place : blank;
}

function placesOf(text: string, words: readonly string[]): { start: number; end: number }[] {
  if (!words.length) return [];
  // A word and its forms: what begins with it, as searches by words find stems.
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.map(stem).join("|")})[\\p{L}\\p{N}]*`, "giu");
  return [...text.matchAll(pattern)].map((found) => ({ start: found.index, end: found.index + found[0].length }));
}

const stem = (word: string): string => (word.length > 5 ? word.replace(/(?:ies|ing|ed|es|s|e)$/u, "") : word);

/** Where a window begins that holds most of the places; a little before the first of them. */
function best(places: readonly number[], length: number, most: number): number {
  let start = 0;
  let held = 0;
  for (const [index, place] of places.entries()) {
    const within = places.slice(index).filter((other) => other < place + most - 60).length;
    if (within > held) [start, held] = [place, within];
  }
  return Math.max(0, Math.min(start - 60, length - most));
}
