// Where the reader is. The state of a page that is worth a link stands in its address.

import { changed, href, placeOf, type Place, type QueryPatch } from "./routing";
import { scrolling } from "./scrolling";

class Router {
  place: Place = $state.raw(placeOf(location.hash));

  constructor() {
    window.addEventListener("hashchange", () => {
      scrolling.entered();
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

  /** Changes what stands behind the `?`, in place: for what is typed, and for what nobody would go back to. */
  set(patch: QueryPatch): void {
    this.show(patch, (address) => history.replaceState(history.state, "", address));
  }

  /** The same as a step of the browser's history: Back leads to the list, the filter or the question before. */
  choose(patch: QueryPatch): void {
    this.show(patch, (address) => {
      if (address === location.hash) return;
      history.pushState(null, "", address);
      scrolling.entered();
    });
  }

  private show(patch: QueryPatch, enter: (address: string) => void): void {
    const query = changed(this.query, patch);
    enter(href(this.path, Object.fromEntries(query)));
    this.place = { path: this.path, query };
  }

  number(name: string, otherwise: number): number {
    const found = Number(this.query.get(name));
    return Number.isInteger(found) && found > 0 ? found : otherwise;
  }
}

export const router = new Router();
export { href };
