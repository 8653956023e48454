// A colour for each type of step, the same on all pages. The shipped steps have theirs; others share the rest.

const KNOWN = ["validate", "parse", "chunk", "embed", "store", "enrich", "route", "segment", "tag", "publish"];
const SHARED = 4;

/** From 1 on, as in `--series-1`. */
export function seriesOf(type: string): number {
  const at = KNOWN.indexOf(type);
  if (at >= 0) return at + 1;
  let sum = 0;
  for (const letter of type) sum = (31 * sum + letter.charCodeAt(0)) % 997;
  return KNOWN.length + (sum % SHARED) + 1;
}

/** Types in the order in which documents meet them; others follow by name. */
export function byPlace(one: string, other: string): number {
  const place = (type: string) => (KNOWN.includes(type) ? KNOWN.indexOf(type) : KNOWN.length);
  return place(one) - place(other) || one.localeCompare(other);
}
