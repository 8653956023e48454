// Where the reader is. The state of a page that is worth a link stands in its address.

import { changed, href, placeOf, type Place, type QueryPatch } from "./routing";

class Router {
  place: Place = $state.raw(placeOf(location.hash));

  constructor() {
    window.addEventListener("hashchange", () => {
      this.place = placeOf(location.hash);
    });
  }

  get path(): string {
    return this.place.path;
  }

  get query(): URLSearchParams {
    return this.place.query;
  }

  go(path: string, query: QueryPatch = {}): void {
    location.hash = href(path, query);
  }

  /** Changes what stands behind the `?`, without a new entry in the history of the browser. */
  set(patch: QueryPatch): void {
    const query = changed(this.query, patch);
    const text = query.toString();
    history.replaceState(history.state, "", `#${this.path}${text ? `?${text}` : ""}`);
    this.place = { path: this.path, query };
  }

  number(name: string, otherwise: number): number {
    const found = Number(this.query.get(name));
    return Number.isInteger(found) && found > 0 ? found : otherwise;
  }
}

export const router = new Router();
export { href };
