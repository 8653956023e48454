// Where chunks stand in the Markdown that they were cut from. A chunk is not a piece of it letter by letter: tables are
// written out, and marks of emphasis and links are left out. So only letters and digits are compared.

export interface Place {
  start: number;
  end: number;
}

const PROBE = 48;
const STEP = PROBE / 2;
const NEAR = 20_000;
const WORDS = /[\p{L}\p{N}]+/gu;

/** One for one, or the places would not fit: letters of which one becomes two in lower case stay as they are. */
function lowered(word: string): string {
  const lower = word.toLowerCase();
  return lower.length === word.length ? lower : word;
}

function lettersOf(text: string): string {
  return (text.match(WORDS) ?? []).map(lowered).join("");
}

/** The letters and digits of a text, and where each of them stands. */
class Letters {
  readonly text: string;
  private readonly at: Uint32Array;

  constructor(whole: string) {
    const words: string[] = [];
    const at = new Uint32Array(whole.length);
    let count = 0;
    for (const { 0: word, index } of whole.matchAll(WORDS)) {
      words.push(lowered(word));
      for (let letter = 0; letter < word.length; letter++) at[count++] = index + letter;
    }
    this.text = words.join("");
    this.at = at;
  }

  place(index: number): number {
    return this.at[index] ?? 0;
  }
}

/** The place of each chunk, in the order of the chunks; null for one that is not found. */
export function locate(markdown: string, chunks: readonly string[]): (Place | null)[] {
  const whole = new Letters(markdown);
  const wanted = chunks.map(lettersOf);
  const where = placesOf(whole.text, wanted.flatMap(probesOf).map((each) => each.probe));
  let from = 0;
  return wanted.map((letters) => {
    // Most chunks follow the one before. One that is found nowhere after it may overlap it.
    const start =
      letters.length < PROBE
        ? nearOf(whole.text, letters, from)
        : (firstOf(letters, where, from) ?? firstOf(letters, where, 0));
    if (start === null) return null;
    const end = Math.max(lastOf(whole.text, letters, start), start + 1);
    from = start + 1;
    return { start: whole.place(start), end: whole.place(end - 1) + 1 };
  });
}

/** Pieces of one length, of which any tells where the whole stands, by what lies before each. */
function probesOf(wanted: string): { skipped: number; probe: string }[] {
  const last = wanted.length - PROBE;
  const probes: { skipped: number; probe: string }[] = [];
  for (let at = 0; at < last + STEP; at += STEP) {
    const skipped = Math.min(at, last);
    probes.push({ skipped, probe: wanted.slice(skipped, skipped + PROBE) });
  }
  return last < 0 ? [] : probes;
}

const BASE = 69_069;
const LEADING = Array.from({ length: PROBE - 1 }).reduce<number>((power) => Math.imul(power, BASE), 1);
const slot = (hash: number): number => hash >>> 10;

/**
 * Where each of the probes stands in the text, in order. One look at the text for all of them, with a hash that rolls
 * along: to look for each by itself would take as many looks as there are chunks that stand nowhere.
 */
function placesOf(text: string, probes: readonly string[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const mayBe = new Uint8Array(slot(-1) + 1);
  for (const probe of probes) {
    if (found.has(probe)) continue;
    found.set(probe, []);
    let hash = 0;
    for (let index = 0; index < PROBE; index++) hash = Math.imul(hash, BASE) + probe.charCodeAt(index);
    mayBe[slot(hash)] = 1;
  }
  let hash = 0;
  for (let index = 0; index < text.length; index++) {
    if (index >= PROBE) hash -= Math.imul(text.charCodeAt(index - PROBE), LEADING);
    hash = (Math.imul(hash, BASE) + text.charCodeAt(index)) | 0;
    const start = index - PROBE + 1;
    if (start >= 0 && mayBe[slot(hash)]) found.get(text.slice(start, index + 1))?.push(start);
  }
  return found;
}

function firstOf(wanted: string, where: Map<string, number[]>, from: number): number | null {
  for (const { skipped, probe } of probesOf(wanted)) {
    const found = firstFrom(where.get(probe) ?? [], from);
    if (found !== null) return Math.max(from, found - skipped);
  }
  return null;
}

/** Where a few letters stand, which cannot be told from the same ones far away: soon after a place, or before it. */
function nearOf(whole: string, wanted: string, from: number): number | null {
  if (!wanted) return null;
  for (const start of [from, Math.max(0, from - NEAR)]) {
    const found = whole.slice(start, start + NEAR).indexOf(wanted);
    if (found >= 0) return start + found;
  }
  return null;
}

/** The first of these ascending numbers that is no smaller. */
function firstFrom(numbers: readonly number[], from: number): number | null {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return numbers[low] ?? null;
}

function lastOf(whole: string, wanted: string, start: number): number {
  const furthest = start + 3 * wanted.length + 200;
  // Only so far: in a text of megabytes, what is nowhere would be looked for to its end, by each of its chunks.
  const near = whole.slice(start, furthest + PROBE);
  for (let left = 0; left + STEP <= wanted.length || left === 0; left += STEP) {
    const probe = wanted.slice(Math.max(0, wanted.length - left - PROBE), wanted.length - left);
    if (!probe) break;
    const found = start + near.indexOf(probe);
    if (found >= start && found <= furthest) return Math.min(whole.length, found + probe.length + left);
  }
  return Math.min(whole.length, start + wanted.length);
}
