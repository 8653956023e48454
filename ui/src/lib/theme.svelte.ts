// Light or dark: what the system says, unless somebody chose. The choice is remembered in this browser.

export type Choice = "system" | "light" | "dark";

const REMEMBERED = "si-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function remembered(): Choice {
  try {
    const found = localStorage.getItem(REMEMBERED);
    return found === "light" || found === "dark" ? found : "system";
  } catch {
    return "system"; // a browser that lets no page store anything
  }
}

class Theme {
  choice: Choice = $state(remembered());
  private systemIsDark = $state(dark.matches);

  constructor() {
    dark.addEventListener("change", (event) => {
      this.systemIsDark = event.matches;
      this.apply();
    });
    this.apply();
  }

  get isDark(): boolean {
    return this.choice === "system" ? this.systemIsDark : this.choice === "dark";
  }

  choose(choice: Choice): void {
    this.choice = choice;
    try {
      if (choice === "system") localStorage.removeItem(REMEMBERED);
      else localStorage.setItem(REMEMBERED, choice);
    } catch {
      // Then it holds as long as the page does.
    }
    this.apply();
  }

  private apply(): void {
    document.documentElement.dataset["theme"] = this.isDark ? "dark" : "light";
  }
}

export const theme = new Theme();
