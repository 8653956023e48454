// The REST API of the server that these pages come from: one way to ask it, and one kind of error.

/** Where the API lies: beside the pages, whatever path a proxy shows them at. */
export const API = new URL("../api/v1/", document.baseURI);

export type Query = Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>;

export interface Page<T> {
  items: T[];
  total: number;
  page: number;
  rows_per_page: number;
  total_pages: number;
}

/** What the server refused, in its own words. `status` is 0 when it could not be reached at all. */
export class ApiError extends Error {
  readonly status: number;
  /** The scope that the key lacks, where that is why. */
  readonly neededScope: string | undefined;

  constructor(status: number, message: string, neededScope?: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.neededScope = neededScope;
  }
}

/** A text, or no more than its beginning. */
export interface Beginning {
  text: string;
  isWhole: boolean;
}

type Listener = (error: ApiError) => void;
const unauthorized = new Set<Listener>();

/** Calls back whenever an answer says that one has to log in. */
export function onUnauthorized(listener: Listener): void {
  unauthorized.add(listener);
}

export function addressOf(path: string, query: Query = {}): string {
  const address = new URL(path.replace(/^\//, ""), API);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) address.searchParams.append(name, String(one));
  }
  return address.href;
}

/** Sends a request, and gives its answer; throws ApiError if it was refused. */
export async function send(path: string, query?: Query, options: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(addressOf(path, query), { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (answer.ok) return answer;
  const refusal = await refusalOf(answer);
  if (refusal.status === 401) for (const listener of unauthorized) listener(refusal);
  throw refusal;
}

async function refusalOf(answer: Response): Promise<ApiError> {
  const said = await answer.text();
  let message = said.length > 0 && said.length < 500 && !said.startsWith("<") ? said : `The server answered ${answer.status}.`;
  let scope: string | undefined;
  try {
    const body = JSON.parse(said) as { error?: unknown; detail?: { missing_scope?: unknown } };
    if (typeof body.error === "string") message = sentence(body.error);
    if (typeof body.detail?.missing_scope === "string") scope = body.detail.missing_scope;
  } catch {
    // No JSON, as from a proxy in front of the server: its own words, or the status, have to do.
  }
  return new ApiError(answer.status, message, scope);
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function json<T>(path: string, query?: Query, options?: RequestInit): Promise<T> {
  const answer = await send(path, query, options);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

const AS_JSON = { "Content-Type": "application/json" };

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> => json<T>(path, query, signal ? { signal } : {}),

  /** One page of a list, from 1. */
  page: <T>(path: string, query: Query, signal?: AbortSignal): Promise<Page<T>> =>
    json<Page<T>>(path, { page: 1, rows_per_page: 50, ...query }, signal ? { signal } : {}),

  text: async (path: string, query?: Query, signal?: AbortSignal): Promise<string> =>
    (await send(path, query, signal ? { signal } : {})).text(),

  /** The text up to so many letters and a little more: what comes after is not read, nor sent by the server. */
  beginning: async (path: string, query: Query, most: number, signal?: AbortSignal): Promise<Beginning> => {
    const { body } = await send(path, query, signal ? { signal } : {});
    const pieces: string[] = [];
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = 0; reader && read <= most; ) {
      const { done, value } = await reader.read();
      if (done) return { text: pieces.join(""), isWhole: true };
      pieces.push(value);
      read += value.length;
    }
    await reader?.cancel();
    return { text: pieces.join(""), isWhole: reader === undefined };
  },

  post: <T>(path: string, body: unknown = {}, query?: Query): Promise<T> =>
    json<T>(path, query, { method: "POST", headers: AS_JSON, body: JSON.stringify(body) }),

  /** Routes that take forms: names and values, or files. */
  form: <T>(path: string, fields: FormData | Record<string, string>, query?: Query): Promise<T> =>
    json<T>(path, query, { method: "POST", body: fields instanceof FormData ? fields : new URLSearchParams(fields) }),

  patch: <T>(path: string, body: unknown): Promise<T> =>
    json<T>(path, {}, { method: "PATCH", headers: AS_JSON, body: JSON.stringify(body) }),

  put: <T>(path: string, body: unknown): Promise<T> =>
    json<T>(path, {}, { method: "PUT", headers: AS_JSON, body: JSON.stringify(body) }),

  delete: <T>(path: string, query?: Query): Promise<T> => json<T>(path, query, { method: "DELETE" }),
};
