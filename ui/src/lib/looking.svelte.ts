// Looking through documents, however many: each answer looks through a bounded number of them, so that a rare name takes
// several. Those are asked for one after the other until a screenful was found, and nobody has to wait for the rest.

import type { FoundDocument, FoundDocuments } from "./answers";
import { api, type Query } from "./api";
import { wordsFor } from "./session.svelte";

export class Looking {
  items: FoundDocument[] = $state.raw([]);
  /** Where to go on; null when all was looked through. */
  next: string | null = $state(null);
  loading = $state(false);
  error: string | null = $state(null);
  private running: AbortController | null = null;
  private asked: Query = {};

  /** Begins anew with another question. */
  begin(asked: Query): void {
    this.asked = asked;
    void this.look(null, []);
  }

  more = (): Promise<void> => this.look(this.next, this.items);

  stop = (): void => {
    this.running?.abort();
    this.running = null;
    this.loading = false;
  };

  private async look(after: string | null, before: FoundDocument[]): Promise<void> {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.loading = true;
    this.error = null;
    let items = before;
    try {
      do {
        const found: FoundDocuments = await api.get("document/look", { ...this.asked, after, limit: 50 }, running.signal);
        if (this.running !== running) return;
        items = [...items, ...found.items];
        after = found.next;
        this.items = items;
        this.next = after;
      } while (after !== null && items.length < before.length + 25);
    } catch (error) {
      if (this.running !== running) return;
      this.items = items;
      this.error = wordsFor(error);
    }
    if (this.running === running) this.loading = false;
  }
}
