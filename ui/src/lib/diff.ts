// A unified diff, as `diff -u` writes it, as two columns.

export interface Side {
  number: number;
  text: string;
}

export interface Row {
  kind: "same" | "changed" | "gap";
  left: Side | null;
  right: Side | null;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** What two lines that stand beside each other have in common at both ends, and what differs between. */
export function between(left: string, right: string): { before: string; left: string; right: string; after: string } {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  let end = 0;
  while (end < Math.min(left.length, right.length) - start && left.at(-1 - end) === right.at(-1 - end)) end++;
  // Whole words: half of one says less.
  const isWord = (sign: string | undefined) => sign !== undefined && /[\p{L}\p{N}]/u.test(sign);
  if (start < left.length || start < right.length) {
    while (start > 0 && isWord(left[start - 1])) start--;
    while (end > 0 && isWord(left.at(-end))) end--;
  }
  return {
    before: left.slice(0, start),
    left: left.slice(start, left.length - end),
    right: right.slice(start, right.length - end),
    after: end ? left.slice(-end) : "",
  };
}

/** Rows of two columns: lines that were removed stand beside those that came for them. */
export function sideBySide(unified: string): Row[] {
  const rows: Row[] = [];
  let left = 1;
  let right = 1;
  let removed: Side[] = [];
  let added: Side[] = [];
  const flush = (): void => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      rows.push({ kind: "changed", left: removed[index] ?? null, right: added[index] ?? null });
    }
    removed = [];
    added = [];
  };
  let inside = false;
  for (const line of unified.split("\n")) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      flush();
      if (inside) rows.push({ kind: "gap", left: null, right: null });
      left = Number(hunk[1]);
      right = Number(hunk[2]);
      inside = true;
    } else if (!inside) {
      continue; // the names of the two files
    } else if (line.startsWith("-")) {
      removed.push({ number: left++, text: line.slice(1) });
    } else if (line.startsWith("+")) {
      added.push({ number: right++, text: line.slice(1) });
    } else if (line.startsWith(" ")) {
      flush();
      rows.push({ kind: "same", left: { number: left++, text: line.slice(1) }, right: { number: right++, text: line.slice(1) } });
    }
  }
  flush();
  return rows;
}
