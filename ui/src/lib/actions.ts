// Doing something on the server because a button was pressed: ask, do, tell how it went.

import { confirm, type Question } from "./confirm.svelte";
import { wordsFor } from "./session.svelte";
import { toasts } from "./toasts.svelte";

/** Whether it was done. What was refused is told, in the words of the server. */
export async function act(work: () => Promise<string | undefined>, question?: Question): Promise<boolean> {
  if (question && !(await confirm(question))) return false;
  try {
    const told = await work();
    if (told) toasts.tell(told);
    return true;
  } catch (error) {
    toasts.tell(wordsFor(error), "bad");
    return false;
  }
}
