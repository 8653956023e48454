// Asking before something is done that cannot be undone. Components/Confirm.svelte, once in the page, shows it.

export interface Question {
  title: string;
  text: string;
  /** What the button says that does it. */
  act: string;
  dangerous?: boolean;
  /** What has to be typed, for what would be hard to get back. */
  type?: string;
}

class Confirming {
  asked: (Question & { answer: (yes: boolean) => void }) | null = $state.raw(null);

  ask(question: Question): Promise<boolean> {
    this.asked?.answer(false);
    return new Promise((resolve) => {
      this.asked = {
        ...question,
        answer: (yes) => {
          this.asked = null;
          resolve(yes);
        },
      };
    });
  }
}

export const confirming = new Confirming();
export const confirm = (question: Question): Promise<boolean> => confirming.ask(question);
