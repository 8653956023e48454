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
