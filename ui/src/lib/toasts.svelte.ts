// Short messages about what has just been done, or refused.

export type Tone = "good" | "bad" | "plain";

export interface Toast {
  id: number;
  tone: Tone;
  text: string;
}

const SHOWN_FOR = 6_000;
const REFUSALS_SHOWN_FOR = 15_000;

class Toasts {
  shown: Toast[] = $state([]);
  private last = 0;

  tell(text: string, tone: Tone = "good"): void {
    const id = ++this.last;
    this.shown.push({ id, tone, text });
    setTimeout(() => this.drop(id), tone === "bad" ? REFUSALS_SHOWN_FOR : SHOWN_FOR);
  }

  drop(id: number): void {
    this.shown = this.shown.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
