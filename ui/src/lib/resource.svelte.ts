// Something that is loaded from the server, and loaded again when what it was asked by changes, or the feed tells.

import { ApiError } from "./api";
import { feed, type Change, type Filter } from "./feed.svelte";
import { session, wordsFor } from "./session.svelte";

export interface Options {
  /** Load again when something changed of what this names: a group, a run, or with `{}` anything. All parts of a page
   *  should name the same: then they share a stream. Where no kind is named, it is told by pulses, not by each change. */
  follow?: () => Filter | null;
  /** Which of these changes matter; all, unless it is said. */
  when?: (change: Change) => boolean;
  /** Load again after so many milliseconds too, for what the feed does not tell of, such as workers; not while hidden. */
  every?: number;
  /** Shortest time between two loads that the feed causes, in milliseconds. */
  atMostEvery?: number;
}

export class Resource<T> {
  /** Null until it has been loaded once; while it is loaded again, what was there before. */
  data: T | null = $state.raw(null);
  error: string | null = $state(null);
  /** What was asked for does not exist, or not any more: what was there before is out of date, and not shown. */
  isGone = $state(false);
  loading = $state(false);
  private running: AbortController | null = null;
  private readonly load: (signal: AbortSignal) => Promise<T>;

  constructor(load: (signal: AbortSignal) => Promise<T>) {
    this.load = load;
  }

  /** Loads, after whoever was loading has been stopped. What `load` reads before its first `await` is tracked. */
  reload = (): Promise<void> => {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.loading = true;
    return this.finish(this.load(running.signal), running);
  };

  stop(): void {
    this.running?.abort();
    this.running = null;
  }

  /** It was deleted while it was shown. */
  vanish(): void {
    this.stop();
    this.data = null;
    this.isGone = true;
    this.loading = false;
    this.error = "This was deleted.";
  }

  private async finish(promise: Promise<T>, running: AbortController): Promise<void> {
    try {
      const data = await promise;
      if (this.running !== running) return;
      this.data = data;
      this.error = null;
      this.isGone = false;
    } catch (error) {
      if (this.running !== running) return;
      this.isGone = error instanceof ApiError && error.status === 404;
      if (this.isGone) this.data = null;
      this.error = wordsFor(error);
    }
    this.loading = false;
  }
}

/**
 * A resource of the component that calls this. `load` reads the props and the address it depends on before its first
 * `await`; when they change, it is called again.
 */
export function resource<T>(load: (signal: AbortSignal) => Promise<T>, options: Options = {}): Resource<T> {
  const found = new Resource(load);
  $effect(() => {
    void session.generation;
    void found.reload();
    return () => found.stop();
  });
  const { follow, when = () => true, every, atMostEvery = 1_000 } = options;
  if (every !== undefined) {
    $effect(() => {
      const timer = setInterval(() => {
        if (!document.hidden) void found.reload();
      }, every);
      return () => clearInterval(timer);
    });
  }
  if (follow) {
    $effect(() => {
      const filter = follow();
      if (!filter) return;
      const soon = throttled(() => void found.reload(), atMostEvery);
      const end = feed.follow({ kind: "pulse", ...filter }, (change) => {
        if (change?.kind === "gone") found.vanish();
        else if (change === null || when(change)) soon.call();
      });
      return () => {
        end();
        soon.stop();
      };
    });
  }
  return found;
}

/** Calls at most every so often, counted from now; the last call is never lost. */
export function throttled(act: () => void, every: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = performance.now();
  const run = () => {
    timer = undefined;
    if (document.hidden) return; // whoever sees the page again loads anew
    last = performance.now();
    act();
  };
  return {
    call() {
      timer ??= setTimeout(run, Math.max(0, last + every - performance.now()));
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
