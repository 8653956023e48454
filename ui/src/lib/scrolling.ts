// How far each entry of the browser's history was scrolled. The browser knows it too, but asks for it before the page has
// been loaded, when there is nothing yet to scroll.

const KEPT = "scrolled";
const PATIENCE = 4_000;

class Scrolling {
  private readonly places = new Map<number, number>(stored());
  private entry = 0;
  private newest = Math.max(0, ...this.places.keys());
  private watching: ResizeObserver | null = null;

  constructor() {
    history.scrollRestoration = "manual";
    this.entered();
    // Until the place is found again, what the page does by itself is not where the reader was.
    window.addEventListener("scroll", () => this.watching || this.places.set(this.entry, window.scrollY), { passive: true });
    for (const hand of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      window.addEventListener(hand, () => this.settle(), { passive: true });
    }
    window.addEventListener("pagehide", () => sessionStorage.setItem(KEPT, JSON.stringify([...this.places])));
  }

  /** The browser shows another entry: an old one, that bears its number, or a new one, that begins at the top. */
  entered(): void {
    this.settle();
    const state = history.state as { entry?: number } | null;
    if (state?.entry === undefined) {
      this.entry = this.newest += 1;
      history.replaceState({ entry: this.entry }, "");
    } else {
      this.entry = state.entry;
    }
  }

  /** Scrolls to where this entry was left, as soon as the page is long enough; to the top, if it is new. */
  restore(): void {
    this.settle();
    const place = this.places.get(this.entry) ?? 0;
    window.scrollTo(0, place);
    if (window.scrollY >= place - 1) return;
    const until = performance.now() + PATIENCE;
    this.watching = new ResizeObserver(() => {
      window.scrollTo(0, place);
      if (window.scrollY >= place - 1 || performance.now() > until) this.settle();
    });
    this.watching.observe(document.body);
  }

  private settle(): void {
    this.watching?.disconnect();
    this.watching = null;
  }
}

function stored(): [number, number][] {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") as [number, number][];
  } catch {
    return []; // a browser that keeps nothing for pages
  }
}

export const scrolling = new Scrolling();
