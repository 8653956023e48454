// What the server answers about documents, searches, definitions, jobs, goals and keys, as far as pages show it.

import type { RunStatus } from "./statuses";
import type { Scope } from "./session.svelte";

export interface FoundDocument {
  uri: string;
  source: string;
  title: string | null;
  batch_id: number | null;
  version: number;
  doc_hash: string;
  mime_type: string;
  file_size: number | null;
  changed_at: string | null;
  run_id: number | null;
  run_status: RunStatus | null;
}

export interface FoundDocuments {
  items: FoundDocument[];
  next: string | null;
}

export interface KnownSource {
  source: string;
  uris: number;
}

export interface StoredVersion {
  version: number;
  hash: string;
  action: string;
  process_date: string;
  batch_id: number | null;
  file_size: number | null;
  mime_type: string | null;
  is_current: boolean;
  is_stored: boolean;
  artifacts: string[];
  rolled_back_to: number | null;
}

export interface HeldIn {
  db: string;
  is_there: boolean;
  title: string | null;
  chunks: number;
  updated_at: string | null;
  problem: string | null;
}

export interface DiffedChunk {
  change: "kept" | "added" | "removed";
  id: string;
  headings: string[];
  page_numbers: number[];
  content: string | null;
}

export interface VersionDiff {
  from_version: number;
  to_version: number;
  text: { added_lines: number; removed_lines: number; unified: string; is_same_configuration: boolean };
  chunks: { kept: number; added: number; removed: number; chunks: DiffedChunk[]; is_same_configuration: boolean } | null;
}

export interface StartedRun {
  run_group_id: number;
  workflow_run_id: number;
  workflow_definition_id: string;
  param_definition_id: string;
}

export interface RolledBack {
  version: number;
  rolled_back_to: number;
  is_changed: boolean;
  runs: StartedRun[];
}

export interface Hit {
  score: number;
  content: string;
  uri: string | null;
  source: string | null;
  title: string | null;
  doc_hash: string | null;
  places: { uri: string | null; source: string | null }[];
  headings: string[];
  page_numbers: number[];
  chunk_id: string | null;
  rag_chunk_id: string | null;
}

export type SearchKind = "hybrid" | "vector" | "text";

export interface Found {
  query: string;
  db: string;
  kind: SearchKind;
  results: Hit[];
}

export interface Chunk {
  id: string;
  content: string;
  /** Its place among the chunks of the document, from 0. */
  order: number;
  metadata: { headings?: string[] | null; page_numbers?: number[] | null };
}

export interface Listed {
  id: string;
  name: string;
}

export interface ListedWorkflow extends Listed {
  steps: string[];
}

export interface ListedParameterSet extends Listed {
  source: "app" | "user";
}

export interface DefinedNode {
  key: string;
  name: string;
  step_type: string;
  method: string;
  is_map: boolean;
  optional: boolean;
  retries: number;
  timeout_seconds: number | null;
  when: string | null;
  repeat_until: string | null;
  max_failures: number | null;
}

export interface Edge {
  source: string;
  target: string;
}

export interface DefinitionGraph {
  workflow_definition_id: string;
  name: string;
  nodes: DefinedNode[];
  edges: Edge[];
}

export interface ListedFlow {
  slug: string;
  title: string;
  version: number;
  steps: string[];
}

export interface FieldProblem {
  field: string;
  line: number | null;
  problem: string;
  weight: "error" | "warning";
}

export interface CheckedParameters {
  id: string | null;
  can_be_saved: boolean;
  problems: FieldProblem[];
}

export interface OptionSchema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  anyOf?: OptionSchema[];
  $ref?: string;
}

export type StepOptions = Record<string, { description?: string; properties?: Record<string, OptionSchema> }>;

export interface Schedule {
  name: string;
  workflow_id: string;
  param_id: string | null;
  cron: string;
  time_zone: string;
  next_due_at: string | null;
  last_due_at: string | null;
  last_run_id: number | null;
  missed: number;
  status_message: string | null;
}

export interface RagDatabase {
  name: string;
  path: string;
  size_bytes: number;
}

interface RagTable {
  count: number;
  size_bytes: number;
  versions: number;
}

export interface RagInfo {
  path: string;
  versions: Record<string, string>;
  embeddings: { provider?: string; model?: string; vector_dim?: number };
  documents: RagTable;
  chunks: RagTable;
  vector_index: Record<string, unknown>;
  tables: string[];
}

export interface RagDocument {
  id: string | null;
  uri: string | null;
  title: string | null;
  metadata: Record<string, unknown>;
  updated_at: string;
}

export interface ResourceLock {
  resource_key: string;
  holder_id: string;
  holder_kind: string;
  step_id: number | null;
  acquired_at: string;
  expires_at: string;
}

export type JobStatus = "NEW" | "PENDING" | "PROCESSING" | "COMPLETED" | "FAILED" | "CANCELED";

export interface Job {
  id: string;
  ip: string | null;
  documentid: number;
  status: JobStatus;
  created: string;
  updated: string;
  completed: string | null;
  maxsize: number;
  timeit: number | null;
  callbackurl: string | null;
  progress: number;
  processing_stage: string | null;
  errormessage: string | null;
  warnings: string[];
}

export interface JobDocument {
  id: number;
  filename: string;
  filesize: number;
  mimetype: string;
}

export interface Segment {
  id: number;
  status: string;
  body: string;
  pagenr: number | null;
  group: string;
  title: string;
  tags: string[];
  lang: string | null;
  ordinal: number;
  errormessage: string | null;
}

export type WebhookStatus = "PENDING" | "DELIVERED" | "DEAD";

export interface WebhookTry {
  at: string;
  seconds: number;
  status: number | null;
  answer: string | null;
  error: string | null;
}

export interface Webhook {
  id: number;
  webhook_id: string;
  stream: string;
  sequence: number;
  event_type: string;
  url: string;
  status: WebhookStatus;
  run_id: number;
  created_at: string;
  expires_at: string;
  settled_at: string | null;
  try_count: number;
  last_try: WebhookTry | null;
}

export interface WebhookDetails extends Webhook {
  body: string;
  body_length: number;
  secret: string | null;
  tries: WebhookTry[];
}

export interface Task {
  id: string;
  description: string;
  depends_on: string[];
  kind: string;
  params: Record<string, unknown>;
}

export interface TaskGraph {
  goal: string;
  tasks: Record<string, Task>;
}

export interface PlannedGoal {
  goal: string;
  plan: TaskGraph;
}

export interface ListedGoal {
  run_id: number;
  goal: string;
  status: string;
  error: string | null;
  created_at: string;
}

export interface GoalResult {
  goal: string;
  run_id: number;
  status: "pending" | "started" | "completed" | "failed" | "cancelled";
  output: unknown;
  error: string | null;
  graph: TaskGraph | null;
  flow_slug: string | null;
  flow_run_id: number | null;
  tasks: Record<string, string>;
}

export interface Recommendation {
  kind: string;
  level: string;
  step: string | null;
  current: unknown;
  proposed: unknown;
  why: string;
  samples: number;
  confidence: number;
  predicted_seconds: number;
  is_applied: boolean;
  why_not: string | null;
}

export interface Tried {
  id: number;
  level: string;
  standing: string;
  predicted_speedup: number | null;
  measured_speedup: number | null;
  runs_before: number;
  runs_after: number;
  verdict: string | null;
  created_at: string;
}

export interface Recommendations {
  executions: number;
  typical_seconds: number | null;
  predicted_before: number | null;
  predicted_after: number | null;
  recommendations: Recommendation[];
  tried: Tried[];
  notes: string[];
}

export interface Key {
  id: number;
  name: string;
  beginning: string;
  scopes: Scope[];
  created_at: string;
  created_by: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
}

export interface CreatedKey extends Key {
  key: string;
}

export interface AuditRecord {
  id: number;
  at: string;
  actor: string;
  via: string;
  action: string;
  details: Record<string, unknown>;
  outcome: string | null;
}
