// When the steps of a run were at work, as shares of the time that is drawn. Pure.

import type { Attempt, Node } from "./engine";

export interface Span {
  left: number;
  width: number;
  seconds: number;
}

export interface TimelineRow {
  step: Node;
  /** Attempts that failed, then the last one. */
  failed: (Span & { attempt: Attempt })[];
  last: Span | null;
}

export interface Timeline {
  from: number;
  until: number;
  rows: TimelineRow[];
}

const moment = (text: string | null): number | null => (text ? new Date(text).getTime() : null);

export function timelineOf(nodes: readonly Node[], attempts: readonly Attempt[], now: number): Timeline {
  const ofStep = new Map<number, Attempt[]>();
  for (const attempt of attempts) {
    if (attempt.item_index === null) ofStep.set(attempt.step_id, [...(ofStep.get(attempt.step_id) ?? []), attempt]);
  }
  const starts = [...nodes, ...attempts].map((each) => moment(each.start_date)).filter((each) => each !== null);
  const from = Math.min(...(starts.length ? starts : [now]));
  const ends = [
    ...nodes.map((node) => moment(node.completed_date) ?? (node.status === "RUNNING" ? now : null)),
    ...attempts.map((attempt) => moment(attempt.end_date)),
  ].filter((each) => each !== null);
  const until = Math.max(from + 1, ...ends);
  const span = (start: number, end: number): Span => ({
    left: (start - from) / (until - from),
    width: Math.max(0, end - start) / (until - from),
    seconds: Math.max(0, end - start) / 1000,
  });
  const rows = nodes.map((step): TimelineRow => {
    const failed = (ofStep.get(step.step_id) ?? []).map((attempt) => ({
      attempt,
      ...span(moment(attempt.start_date) ?? moment(attempt.end_date)!, moment(attempt.end_date)!),
    }));
    return { step, failed, last: lastOf(step, failed.map((each) => moment(each.attempt.end_date)!), span, now) };
  });
  return { from, until, rows };
}

/** The attempt that has not failed, if there is one: what failed is drawn as an attempt already. */
function lastOf(step: Node, failedAt: number[], span: (start: number, end: number) => Span, now: number): Span | null {
  const start = moment(step.start_date);
  if (start === null) return null;
  const end = moment(step.completed_date) ?? (step.status === "RUNNING" ? now : null);
  if (end === null || failedAt.some((at) => at >= end - 1)) return null;
  const begin = Math.max(start, ...failedAt.filter((at) => at < end));
  return span(failedAt.includes(begin) ? Math.max(begin, start) : begin, end);
}
