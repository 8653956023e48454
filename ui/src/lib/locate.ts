// Where chunks stand in the Markdown that they were cut from. A chunk is not a piece of it letter by letter: tables are
// written out, and marks of emphasis and links are left out. So only letters and digits are compared.

export interface Place {
  start: number;
  end: number;
}

const PROBE = 48;
const WORDS = /[\p{L}\p{N}]/u;

/** The letters and digits of a text, and where each of them stands. */
class Letters {
  readonly text: string;
  private readonly at: Uint32Array;

  constructor(whole: string) {
    const letters: string[] = [];
    const at = new Uint32Array(whole.length);
    let index = 0;
    for (const sign of whole) {
      if (WORDS.test(sign)) {
        const lower = sign.toLowerCase();
        // One for one, or the places would not fit: a letter that becomes two in lower case stays as it is.
        const kept = lower.length === sign.length ? lower : sign;
        for (let part = 0; part < kept.length; part++) {
          at[letters.length] = index + part;
          letters.push(kept.charAt(part));
        }
      }
      index += sign.length;
    }
    this.text = letters.join("");
    this.at = at;
  }

  place(index: number): number {
    return this.at[index] ?? 0;
  }
}

/** The place of each chunk, in the order of the chunks; null for one that is not found. */
export function locate(markdown: string, chunks: readonly string[]): (Place | null)[] {
  const whole = new Letters(markdown);
  let from = 0;
  return chunks.map((chunk) => {
    const wanted = new Letters(chunk).text;
    // Most chunks follow the one before. One that is found nowhere after it may overlap it.
    const start = firstOf(whole.text, wanted, from) ?? firstOf(whole.text, wanted, 0);
    if (start === null) return null;
    const end = Math.max(lastOf(whole.text, wanted, start), start + 1);
    from = start + 1;
    return { start: whole.place(start), end: whole.place(end - 1) + 1 };
  });
}

function firstOf(whole: string, wanted: string, from: number): number | null {
  for (let skipped = 0; skipped === 0 || skipped + PROBE / 2 <= wanted.length; skipped += PROBE / 2) {
    const probe = wanted.slice(skipped, skipped + PROBE);
    if (!probe) return null;
    const found = whole.indexOf(probe, from);
    if (found >= 0) return Math.max(from, found - skipped);
  }
  return null;
}

function lastOf(whole: string, wanted: string, start: number): number {
  const furthest = start + 3 * wanted.length + 200;
  // Only so far: in a text of megabytes, what is nowhere would be looked for to its end, by each of its chunks.
  const near = whole.slice(start, furthest + PROBE);
  for (let left = 0; left + PROBE / 2 <= wanted.length || left === 0; left += PROBE / 2) {
    const probe = wanted.slice(Math.max(0, wanted.length - left - PROBE), wanted.length - left);
    if (!probe) break;
    const found = start + near.indexOf(probe);
    if (found >= start && found <= furthest) return Math.min(whole.length, found + probe.length + left);
  }
  return Math.min(whole.length, start + wanted.length);
}
