// The time, for what is shown as "5 min ago": it moves once a second, while anybody reads it and the tab is seen.

import { createSubscriber } from "svelte/reactivity";

const subscribe = createSubscriber((update) => {
  const timer = setInterval(() => {
    if (!document.hidden) update();
  }, 1_000);
  return () => clearInterval(timer);
});

export function now(): number {
  subscribe();
  return Date.now();
}
