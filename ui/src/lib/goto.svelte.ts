// Whether the reader is asked where to go: components/GoTo.svelte, which is loaded when it is first wanted.

class Asking {
  isOpen = $state(false);

  constructor() {
    window.addEventListener("keydown", (event) => {
      // The dialog obeys Escape by itself, once it is there: who is quicker than it takes his wish back, too.
      if (event.key === "Escape" && !event.isComposing) this.isOpen = false;
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      // A question about something that cannot be undone is answered first.
      if (this.isOpen || !document.querySelector("dialog[open]")) this.isOpen = !this.isOpen;
    });
  }
}

export const goto = new Asking();
export const KEYS = /mac|iphone|ipad/i.test(navigator.userAgent) ? "⌘ K" : "Ctrl K";
