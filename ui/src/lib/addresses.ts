// Addresses of pages about things whose names may hold anything.

import { href } from "./routing";

export const documentAt = (source: string, uri: string, more: Record<string, string | null> = {}): string =>
  href("/documents/at", { source, uri, ...more });

export const databaseNamed = (name: string): string => href(`/databases/${encodeURIComponent(name)}`);
export const jobWith = (id: string): string => href(`/segmenter/jobs/${encodeURIComponent(id)}`);
export const runWith = (id: number): string => href(`/runs/${id}`);
export const groupWith = (id: number): string => href(`/groups/${id}`);
