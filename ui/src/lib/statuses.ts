// The states that the server knows, in words and tones. A tone never stands alone: each has its word and its sign.

export type RunStatus = "PENDING" | "RUNNING" | "COMPLETED" | "ERROR" | "FAILED" | "CANCELLED";
export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "off";

export const STATUSES: readonly RunStatus[] = ["PENDING", "RUNNING", "COMPLETED", "ERROR", "FAILED", "CANCELLED"];

interface Shown {
  word: string;
  tone: Tone;
}

const SHOWN: Record<string, Shown> = {
  PENDING: { word: "Pending", tone: "wait" },
  NEW: { word: "New", tone: "wait" },
  RUNNING: { word: "Running", tone: "busy" },
  PROCESSING: { word: "Processing", tone: "busy" },
  COMPLETED: { word: "Completed", tone: "good" },
  ERROR: { word: "Retrying", tone: "warn" },
  FAILED: { word: "Failed", tone: "bad" },
  CANCELLED: { word: "Cancelled", tone: "off" },
  CANCELED: { word: "Cancelled", tone: "off" },
};

export function shown(status: string): Shown {
  return SHOWN[status.toUpperCase()] ?? { word: status, tone: "wait" };
}

export function isFinal(status: string): boolean {
  return ["COMPLETED", "FAILED", "CANCELLED", "CANCELED"].includes(status.toUpperCase());
}
