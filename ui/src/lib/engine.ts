// What the API tells of batches, run groups, runs and steps, as far as these pages use it.

import type { RunStatus } from "./statuses";

export interface Batch {
  id: number;
  name: string;
  source: string;
  start_date: string;
  completed_date: string | null;
  batch_params: Record<string, string>;
  duration: number | null;
}

export interface BatchProgress {
  batch: Batch;
  document_count: number;
  workflow_count: Partial<Record<RunStatus, number>>;
  parsed: number;
  remaining: number;
}

export interface BatchTimes {
  batch_id: number;
  name: string;
  source: string;
  start_date: string;
  completed_date: string | null;
  duration: number | null;
  total_runs: number;
  remaining_runs: number;
  failed_runs: number;
  seconds_per_document: number | null;
}

export interface Group {
  id: number;
  batch_id: number | null;
  name: string | null;
  workflow_definition_id: string;
  param_definition_id: string | null;
  status: RunStatus;
  status_message: string | null;
  created_date: string;
  start_date: string | null;
  completed_date: string | null;
  total_runs: number;
  remaining_runs: number;
  failed_runs: number;
  cancelled_runs: number;
  cancel_requested_at: string | null;
  delete_requested_at: string | null;
}

export interface Eta {
  run_group_id: number;
  total_runs: number;
  remaining_runs: number;
  seconds: number | null;
  ends_at: string | null;
  reason: string | null;
}

export interface Run {
  id: number;
  workflow_definition_id: string;
  run_group_id: number;
  batch_id: number | null;
  doc_id: string | null;
  priority: number;
  status: RunStatus;
  status_message: string | null;
  created_date: string;
  start_date: string | null;
  completed_date: string | null;
  duration: number | null;
  run_params: Record<string, unknown>;
  run_key?: string | null;
  deadline?: string | null;
  input?: unknown;
  output?: unknown;
}

export interface DocumentInfo {
  uri: string | null;
  source: string | null;
  file_size: number | null;
  mime_type: string | null;
}

export interface RunWithDocument {
  workflow_run: Run;
  document_info: DocumentInfo | null;
}

export interface Step {
  id: number;
  workflow_step_name: string;
  workflow_step_number: number;
  step_type: string;
  step_config_id: number | null;
  status: RunStatus;
  output: unknown;
  status_message: string | null;
  status_meta: Record<string, unknown>;
  item_index: number | null;
  parent_step_id: number | null;
}

export interface RunDetails extends Run {
  trace_url?: string | null;
  steps: Step[];
}

export interface Tasks {
  total: number;
  ended: number;
  failed: number;
  counts: Partial<Record<RunStatus, number>> | null;
}

export interface Node {
  step_id: number;
  key: string;
  number: number;
  step_type: string;
  status: RunStatus;
  message: string | null;
  start_date: string | null;
  completed_date: string | null;
  duration: number | null;
  attempts: number;
  retries: number;
  repeats: number;
  optional: boolean;
  worker_id: string | null;
  is_map: boolean | null;
  progress: { fraction?: number; text?: string } | null;
  tasks: Tasks | null;
  skipped_by: string | null;
  waits_for: string | null;
  awaits: string | null;
  waits_until: string | null;
  resource_key: string | null;
  subflow_run_id: number | null;
}

export interface Edge {
  source: string;
  target: string;
}

export interface RunGraph {
  workflow_run_id: number;
  run_group_id: number;
  workflow_definition_id: string;
  status: RunStatus;
  start_date: string | null;
  completed_date: string | null;
  duration: number | null;
  parent_run_id: number | null;
  nodes: Node[];
  edges: Edge[];
}

export interface Task {
  step_id: number;
  item_index: number;
  status: RunStatus;
  message: string | null;
  start_date: string | null;
  completed_date: string | null;
  duration: number | null;
  attempts: number;
  retries: number;
  worker_id: string | null;
  awaits: string | null;
}

export interface Attempt {
  id: number;
  step_id: number;
  step_name: string;
  item_index: number | null;
  attempt: number;
  worker_id: string | null;
  start_date: string | null;
  end_date: string;
  duration: number | null;
  error_type: string | null;
  message: string | null;
  traceback: string | null;
}

export interface LifecycleEvent {
  id: number;
  event: string;
  step_id: number | null;
  start_date: string;
  completed_date: string | null;
  status: RunStatus;
  status_message: string | null;
  status_meta: Record<string, unknown>;
  handler_name: string | null;
}

export interface Activity {
  workflow_run_id: number;
  run_group_id: number;
  workflow_definition_id: string;
  workflow_status: RunStatus;
  step_id: number | null;
  step_type: string | null;
  workflow_step_name: string | null;
  step_status: RunStatus | null;
  retry: number | null;
  worker_id: string | null;
  status_message: string | null;
  start_date: string | null;
  completed_date: string | null;
  doc_hash: string | null;
  doc_uri: string | null;
}

export interface QueueDepth {
  step_type: string;
  ready: number;
  is_exact: boolean;
  running: number;
  workers: number;
  oldest: { step_id: number; workflow_run_id: number; ready_since: string; waits: number } | null;
}

export interface WhatWaits {
  reasons: { reason: string; steps: number; next_at: string | null }[];
  is_exact: boolean;
  resources: { resource_key: string; steps: number }[];
  signals: number;
}

export interface Cause {
  error_type: string | null;
  message: string;
  step_types: string[];
  failed: number;
  to_be_retried: number;
  newest: string | null;
  example: string;
  run_ids: number[];
}

export interface Causes {
  causes: Cause[];
  looked_at: number;
  is_exact: boolean;
}

export interface TypeThroughput {
  step_type: string;
  completed: number;
  failed: number;
  cancelled: number;
  per_minute: number;
  average_seconds: number | null;
  buckets: { start: string; completed: number; failed: number; cancelled: number }[];
}

export interface Worker {
  id: string;
  hostname: string;
  pid: number;
  first_checkin: string;
  last_checkin: string;
  seconds_since_checkin: number;
  slots: number;
  running_steps: number;
  utilization: number;
  resident_bytes: number | null;
  processes_resident_bytes: number | null;
  consumers: Record<string, number>;
}

export interface Utilization {
  workers: Worker[];
  slots: number;
  running_steps: number;
  utilization: number;
}

export interface Lock {
  resource_key: string;
  holder_id: string;
  holder_kind: string;
  step_id: number | null;
  acquired_at: string;
  expires_at: string;
}

/** Which runs of a group have come to which end, in the order in which they are drawn. */
export function partsOf(group: { total_runs: number; remaining_runs: number; failed_runs: number; cancelled_runs?: number }) {
  const cancelled = group.cancelled_runs ?? 0;
  const completed = group.total_runs - group.remaining_runs - group.failed_runs - cancelled;
  return [
    { name: "completed", tone: "good", value: completed },
    { name: "failed", tone: "bad", value: group.failed_runs },
    { name: "cancelled", tone: "off", value: cancelled },
    { name: "to do", tone: "wait", value: group.remaining_runs },
  ] as const;
}
