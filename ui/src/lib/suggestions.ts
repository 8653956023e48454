// Where somebody may want to go who has typed so much. Pure.

import { documentAt } from "./addresses";
import type { FoundDocument } from "./answers";
import { nameOf } from "./format";
import { href } from "./routing";

export interface Suggestion {
  name: string;
  /** What kind of place it is. */
  kind: string;
  href: string;
}

interface NamedPage {
  path: string;
  title: string;
  nav?: string;
}

/** A number is a run first, since that is what logs, traces and messages name. */
export function suggestions(typed: string, pages: readonly NamedPage[], documents: readonly FoundDocument[]): Suggestion[] {
  const text = typed.trim();
  const number = /^#?(\d{1,15})$/.exec(text)?.[1];
  const numbered = number
    ? [
        { name: `Run #${number}`, kind: "Run", href: href(`/runs/${number}`) },
        { name: `Group #${number}`, kind: "Run group", href: href(`/groups/${number}`) },
        { name: `Batch #${number}`, kind: "Batch", href: href(`/batches/${number}`) },
      ]
    : [];
  const named = pages
    .filter((page) => page.nav && page.title.toLowerCase().includes(text.toLowerCase()))
    .map((page) => ({ name: page.title, kind: "Page", href: href(page.path) }));
  const found = documents.map(({ title, uri, source }) => ({ name: title ?? nameOf(uri), kind: uri, href: documentAt(source, uri) }));
  const asked = text
    ? [
        { name: `Search for “${text}”`, kind: "Passages", href: href("/search", { q: text }) },
        { name: `Documents with “${text}” in their name`, kind: "Documents", href: href("/documents", { q: text }) },
      ]
    : [];
  return [...numbered, ...named, ...found, ...asked];
}
