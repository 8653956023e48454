// What changes on the server, as it changes: `/events`, one stream for all parts of a page that ask for the same.
//
// A tab that is hidden has no stream: browsers allow six connections to a server, and nobody looks. When it is seen
// again, each part is told to load anew, since nobody knows what it missed.

import { addressOf, api, type Query } from "./api";

export type Kind = "group" | "run" | "step" | "pulse";

export interface Filter {
  /** All but `pulse`, unless one is named. A pulse says that something changed, once for each look of the server. */
  kind?: Kind;
  batch_id?: number;
  run_group_id?: number;
  workflow_run_id?: number;
  workflow_definition_id?: string;
  step_type?: string;
}

export interface Change {
  /** `gone`: the run group that was named is no more. */
  kind: Kind | "gap" | "gone";
  data: Record<string, unknown>;
}

type Listener = (change: Change | null) => void;

const KINDS = ["group", "run", "step", "pulse", "gap", "gone"] as const;
const HIDDEN_FOR = 5_000;
const LONGEST_PAUSE = 30_000;

export type FeedState = "idle" | "connecting" | "live" | "lost";

class Feed {
  /** How the newest stream fares, for the mark in the corner. */
  state: FeedState = $state("idle");
  private readonly streams = new Map<string, Stream>();
  private hiding: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => this.whenSeenOrHidden());
  }

  /** Calls back with each change that fits; with null when it should load anew. Gives a function that ends it. */
  follow(filter: Filter, listener: Listener): () => void {
    const key = JSON.stringify(filter);
    let stream = this.streams.get(key);
    if (!stream) {
      stream = new Stream(filter, (state) => (this.state = state));
      this.streams.set(key, stream);
      if (!document.hidden) stream.open();
    }
    const { listeners } = stream;
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      stream.close();
      this.streams.delete(key);
      if (this.streams.size === 0) this.state = "idle";
    };
  }

  private whenSeenOrHidden(): void {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => this.streams.forEach((stream) => stream.close()), HIDDEN_FOR);
    } else {
      for (const stream of this.streams.values()) stream.reopen();
    }
  }
}

class Stream {
  readonly listeners = new Set<Listener>();
  private source: EventSource | null = null;
  private pause = 1_000;
  private waiting: ReturnType<typeof setTimeout> | undefined;
  private readonly filter: Filter;
  private readonly told: (state: FeedState) => void;

  constructor(filter: Filter, told: (state: FeedState) => void) {
    this.filter = filter;
    this.told = told;
  }

  open(): void {
    clearTimeout(this.waiting);
    this.told("connecting");
    const source = new EventSource(addressOf("events", this.filter as Query));
    this.source = source;
    source.onopen = () => {
      this.pause = 1_000;
      this.told("live");
    };
    source.onerror = () => this.whenItFails(source);
    for (const kind of KINDS) {
      source.addEventListener(kind, (event: MessageEvent<string>) => {
        const change = { kind, data: JSON.parse(event.data) as Record<string, unknown> };
        this.listeners.forEach((listener) => listener(change));
      });
    }
  }

  /** After a time in which the tab was hidden. */
  reopen(): void {
    if (this.source) return;
    this.open();
    this.loadAnew();
  }

  close(): void {
    clearTimeout(this.waiting);
    this.source?.close();
    this.source = null;
  }

  // A stream that broke is opened again by the browser, which says how far it had read. One that was refused is not:
  // then the key may be good no more, and the login form has to come up, or the server was busy.
  private whenItFails(source: EventSource): void {
    this.told("lost");
    if (source.readyState !== EventSource.CLOSED || source !== this.source) return;
    this.close();
    this.waiting = setTimeout(() => void this.tryAgain(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
  }

  private async tryAgain(): Promise<void> {
    try {
      await api.get("workflow/queues"); // behind the key, unlike the session: 401 brings the login form up
    } catch {
      if (this.listeners.size === 0) return; // the page is gone, as when the login form has come up
      this.waiting = setTimeout(() => void this.tryAgain(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
      return;
    }
    if (!document.hidden && this.listeners.size > 0) this.reopen();
  }

  private loadAnew(): void {
    this.listeners.forEach((listener) => listener(null));
  }
}

export const feed = new Feed();
