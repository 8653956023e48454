// Addresses of pages, without a browser: `/runs/12?status=failed`, as it stands behind the `#`.

export type Params = Record<string, string>;
export type QueryPatch = Record<string, string | number | boolean | null | undefined>;

export interface Place {
  path: string;
  query: URLSearchParams;
}

export function placeOf(hash: string): Place {
  const [path = "", query = ""] = splitOnce(hash.replace(/^#/, ""), "?");
  return { path: path.startsWith("/") ? path : `/${path}`, query: new URLSearchParams(query) };
}

function splitOnce(text: string, by: string): string[] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}

/** What a pattern such as `/runs/:id` finds in a path; null if it does not fit. `:name*` takes the whole rest. */
export function match(pattern: string, path: string): Params | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  const params: Params = {};
  for (const [index, part] of wanted.entries()) {
    const found = given[index];
    if (part.startsWith(":") && part.endsWith("*")) {
      params[part.slice(1, -1)] = decoded(given.slice(index).join("/"));
      return params;
    }
    if (found === undefined) return null;
    if (part.startsWith(":") && found !== "") params[part.slice(1)] = decoded(found);
    else if (part !== found) return null;
  }
  return wanted.length === given.length ? params : null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone percent sign, as somebody typed it
  }
}

/** The address of a page: `href("/runs/12", { tab: "timeline" })`. Parts of a path are encoded by the caller. */
export function href(path: string, query: QueryPatch = {}): string {
  const text = changed(new URLSearchParams(), query).toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

/** A query with some values set, and those removed that are null, undefined or empty. */
export function changed(query: URLSearchParams, patch: QueryPatch): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, String(value));
  }
  return next;
}
