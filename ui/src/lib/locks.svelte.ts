// Who holds which database. Locks have no place in the feed: they are looked at again when a step has changed, since it may
// hold one, and every few seconds while anybody does, which may be a request or a command.

import type { ResourceLock } from "./answers";
import { api } from "./api";
import { resource, type Resource } from "./resource.svelte";

const AGAIN = 2_000;

/** The locks of databases. `isBusy` says that something of this page is under way, which may take or free one. */
export function databaseLocks(isBusy: () => boolean): Resource<ResourceLock[]> {
  const locks = resource((signal) => api.get<ResourceLock[]>("locks", {}, signal), { follow: () => ({}), atMostEvery: AGAIN });
  $effect(() => {
    if (!isBusy() && !locks.data?.some((lock) => lock.resource_key.startsWith("rag:"))) return;
    const timer = setInterval(() => {
      if (!document.hidden) void locks.reload();
    }, AGAIN);
    return () => clearInterval(timer);
  });
  return locks;
}

export function lockOf(name: string, locks: readonly ResourceLock[] | null): ResourceLock | null {
  return locks?.find((lock) => lock.resource_key.startsWith("rag:") && lock.resource_key.endsWith(`/${name}`)) ?? null;
}
