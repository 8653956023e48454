// Where chunks stand in the Markdown that they were cut from. A chunk is not a piece of it letter by letter: tables are
// written out, and marks of emphasis and links are left out. So only letters and digits are compared.

export interface Place {
  start: number;
  end: number;
}

const PROBE = 48;
const STEP = PROBE / 2;
const NEAR = 20_000;
const LETTER = /[\p{L}\p{N}]/u;
const UTF16 = new TextDecoder("utf-16le");

/** By the code of a sign: the code of the letter or digit it is, in lower case; 0 for what is neither, NaN not known yet. */
const lowered = new Float32Array(0x10000).fill(NaN);

function lower(code: number): number {
  const sign = String.fromCharCode(code);
  if (!LETTER.test(sign)) return 0;
  const small = sign.toLowerCase();
  return small.length === 1 ? small.charCodeAt(0) : code; // one for one, or the places would not fit
}

/** The letters and digits of a text, and where each of them stands. */
class Letters {
  readonly text: string;
  private readonly at: Uint32Array;

  constructor(whole: string) {
    const codes = new Uint16Array(whole.length);
    const at = new Uint32Array(whole.length);
    let count = 0;
    for (let index = 0; index < whole.length; index++) {
      const code = whole.charCodeAt(index);
      if ((code & 0xf800) === 0xd800) {
        // Two that make one sign, such as a letter of an old script; they keep their case.
        const pair = String.fromCodePoint(whole.codePointAt(index) ?? 0);
        if (pair.length === 2) {
          for (let part = 0; part < 2 && LETTER.test(pair); part++) {
            at[count] = index + part;
            codes[count++] = pair.charCodeAt(part);
          }
          index += 1;
        }
        continue;
      }
      let letter = lowered[code]!;
      if (Number.isNaN(letter)) letter = lowered[code] = lower(code);
      if (letter) {
        at[count] = index;
        codes[count++] = letter;
      }
    }
    this.text = UTF16.decode(codes.subarray(0, count));
    this.at = at;
  }

  place(index: number): number {
    return this.at[index] ?? 0;
  }
}

/** The place of each chunk, in the order of the chunks; null for one that is not found. */
export function locate(markdown: string, chunks: readonly string[]): (Place | null)[] {
  const whole = new Letters(markdown);
  const wanted = chunks.map((chunk) => new Letters(chunk).text);
  const starts = startsOf(whole.text, wanted);
  return wanted.map((letters, index) => {
    const start = starts[index] ?? null;
    if (start === null) return null;
    const end = Math.max(lastOf(whole.text, letters, start), start + 1);
    return { start: whole.place(start), end: whole.place(end - 1) + 1 };
  });
}

/** Where each begins. Most follow the one before; only what does not is looked for everywhere. */
function startsOf(whole: string, wanted: readonly string[]): (number | null)[] {
  let from = 0;
  const soon = wanted.map((letters) => {
    const start = letters.length < PROBE ? null : nearOf(whole, letters.slice(0, PROBE), from);
    if (start !== null) from = start + 1;
    return start;
  });
  const where = placesOf(whole, wanted.filter((_, index) => soon[index] === null).flatMap(probesOf).map((each) => each.probe));
  from = 0;
  return wanted.map((letters, index) => {
    // One that is found nowhere after the one before it may overlap it. A short one is to be told from others far away.
    const start =
      soon[index] ??
      (letters.length < PROBE
        ? (nearOf(whole, letters, from) ?? nearOf(whole, letters, Math.max(0, from - NEAR)))
        : (firstOf(letters, where, from) ?? firstOf(letters, where, 0)));
    if (start !== null) from = start + 1;
    return start;
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

/** Where letters stand soon after a place. */
function nearOf(whole: string, wanted: string, from: number): number | null {
  const found = wanted ? whole.slice(from, from + NEAR).indexOf(wanted) : -1;
  return found < 0 ? null : from + found;
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
