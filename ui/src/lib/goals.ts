// Goals speak of their tasks in words of their own; here they are states like all others.

import type { RunStatus } from "./statuses";

const STATUSES: Record<string, RunStatus> = {
  pending: "PENDING",
  started: "RUNNING",
  completed: "COMPLETED",
  failed: "FAILED",
  cancelled: "CANCELLED",
};

export function goalStatus(word: string): RunStatus {
  return STATUSES[word.toLowerCase()] ?? "PENDING";
}
