// Who uses these pages, and what the key may do.

import { api, ApiError, onUnauthorized } from "./api";

export type Scope = "read" | "ingest" | "operate" | "admin";

interface Answer {
  needs_key: boolean;
  name: string | null;
  scopes: Scope[];
  expires_at: string | null;
}

class Session {
  /** Null until the server has been asked. */
  current: Answer | null = $state.raw(null);
  /** Why the server could not be asked. */
  error: string | null = $state(null);
  /** Counts logins: what was loaded for another key is loaded anew. */
  generation = $state(0);

  get mustLogIn(): boolean {
    return this.current !== null && this.current.name === null;
  }

  can(scope: Scope): boolean {
    return this.current?.scopes.includes(scope) ?? false;
  }

  async load(): Promise<void> {
    try {
      this.current = await api.get<Answer>("session");
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
  }

  async logIn(key: string): Promise<void> {
    this.current = await api.post<Answer>("session", { key });
    this.generation += 1;
  }

  async logOut(): Promise<void> {
    await api.delete("session");
    await this.load();
    this.generation += 1;
  }

  /** The cookie is not good any more: the login form comes up, and the page stays where it was. */
  lost(): void {
    if (this.current?.name) this.current = { needs_key: true, name: null, scopes: [], expires_at: null };
  }
}

export const session = new Session();
onUnauthorized(() => session.lost());

/** What to say to somebody whose key may not do something. */
export function refusalFor(scope: Scope): string {
  return `Your key “${session.current?.name ?? "unknown"}” may not do this: it lacks the scope “${scope}”.`;
}

/** An error in words for people. */
export function wordsFor(error: unknown): string {
  if (error instanceof ApiError && error.status === 403 && session.current?.name) {
    return `Not allowed for the key “${session.current.name}”. ${error.message}`;
  }
  return error instanceof Error ? error.message : String(error);
}
