// The order of a list that is the newest first, or turned round; it stands in the address.

import { router } from "./router.svelte";

export const OLDEST = "oldest";

export const isOldestFirst = (): boolean => router.query.get("order") === OLDEST;

/** The name of a list, with its order. */
export const inOrder = (name: string): string => `${name}, the ${isOldestFirst() ? "oldest" : "newest"} first`;
