// Files on their way to the server, and then through the steps of their workflow. It lives beside the pages: who looks at
// another page meanwhile stops nothing.

import type { DefinitionGraph } from "./answers";
import { api, ApiError } from "./api";
import type { Dropped } from "./dropped";
import { feed, type Change } from "./feed.svelte";
import { wordsFor } from "./session.svelte";
import { isFinal, type RunStatus } from "./statuses";

export type Why = "hidden" | "made by programs" | "empty" | "of a kind that the workflow cannot read";

export interface LeftOut {
  file: Dropped;
  why: Why;
  /** More about it, where there is more to say. */
  says?: string;
}

export type Stage = "waiting" | "sending" | "sent" | "unchanged" | "refused";

/** One file, from its place on the reader's machine to the end of its run. */
export class Item {
  readonly dropped: Dropped;
  stage: Stage = $state("waiting");
  problem: string | null = $state(null);
  hash: string | null = $state(null);
  runId: number | null = $state(null);
  run: RunStatus | null = $state(null);
  message: string | null = $state(null);
  steps: Record<string, RunStatus> = $state({});

  constructor(dropped: Dropped) {
    this.dropped = dropped;
  }
}

export interface Order {
  source: string;
  name: string;
  workflow: string | null;
  params: string | null;
}

interface Run {
  id: number;
  doc_id: string | null;
  status: RunStatus;
  status_message: string | null;
}

const AT_ONCE = 4;
const TRIES = 6;
const ROWS = 1_000;
const MOST_KINDS = 40;
const ORDER = new Intl.Collator("en", { numeric: true });
const GENERATED = new Set("CVS node_modules bower_components __pypackages__ __pycache__".split(" "));

/** Why the path alone says that nobody means this file. */
export function reasonToLeave(dropped: Dropped): Why | null {
  const parts = dropped.path.split("/");
  if (parts.slice(0, -1).some((part) => GENERATED.has(part))) return "made by programs";
  if (parts.some((part) => part.startsWith("."))) return "hidden";
  return dropped.file.size === 0 ? "empty" : null;
}

class Uploading {
  items: Item[] = $state.raw([]);
  leftOut: LeftOut[] = $state.raw([]);
  phase: "choosing" | "sending" | "starting" | "running" | "over" = $state("choosing");
  batchId: number | null = $state(null);
  groupId: number | null = $state(null);
  problem: string | null = $state(null);
  graph: DefinitionGraph | null = $state.raw(null);
  private stopped = false;
  private endFeed: (() => void) | null = null;
  /** Files with the same content share a run. */
  private readonly byRun = new Map<number, Item[]>();
  /** Steps that were told of before their runs were. */
  private readonly early = new Map<number, Record<string, RunStatus>>();

  get sent(): number {
    return this.items.filter((item) => item.stage === "sent" || item.stage === "unchanged").length;
  }
  get refused(): number {
    return this.items.filter((item) => item.stage === "refused").length;
  }
  get ended(): number {
    return this.items.filter((item) => item.run !== null && isFinal(item.run)).length;
  }
  get failed(): number {
    return this.items.filter((item) => item.run === "FAILED" || item.run === "CANCELLED").length;
  }

  /** Takes files in; those that nobody means are told apart, and so are kinds that the workflow cannot read. */
  async take(files: Dropped[], order: Pick<Order, "workflow" | "params">): Promise<void> {
    const known = new Set(this.items.map((item) => item.dropped.path));
    const left: LeftOut[] = [];
    const wanted: Dropped[] = [];
    for (const file of files.filter((each) => !known.has(each.path))) {
      const why = reasonToLeave(file);
      if (why) left.push({ file, why });
      else wanted.push(file);
    }
    const unread = await unreadKinds(wanted, order);
    const taken = wanted.filter((file) => !(file.file.type in unread));
    for (const file of wanted) {
      const says = unread[file.file.type];
      if (says) left.push({ file, why: "of a kind that the workflow cannot read", says });
    }
    const items = taken.map((file) => new Item(file));
    this.items = [...this.items, ...items].sort((one, other) => ORDER.compare(one.dropped.path, other.dropped.path));
    this.leftOut = [...this.leftOut, ...left];
  }

  /** Takes what was left out for this reason all the same. */
  takeAnyway(why: Why): void {
    const files = this.leftOut.filter((each) => each.why === why).map((each) => each.file);
    this.leftOut = this.leftOut.filter((each) => each.why !== why);
    this.items = [...this.items, ...files.map((file) => new Item(file))];
  }

  remove(item: Item): void {
    this.items = this.items.filter((each) => each !== item);
  }

  reset(): void {
    this.endFeed?.();
    this.endFeed = null;
    this.byRun.clear();
    this.early.clear();
    this.items = [];
    this.leftOut = [];
    this.phase = "choosing";
    this.batchId = this.groupId = this.problem = this.graph = null;
  }

  stop(): void {
    this.stopped = true;
  }

  /** Sends all files, then starts their workflow. */
  async send(order: Order): Promise<void> {
    this.problem = null;
    this.stopped = false;
    this.phase = "sending";
    try {
      this.batchId ??= (await api.form<{ batch_id: number }>("batch/", { source: order.source, name: order.name })).batch_id;
      const queue = this.items.filter((item) => item.stage === "waiting" || item.stage === "refused");
      await Promise.all(Array.from({ length: AT_ONCE }, () => this.sendFrom(queue, order)));
      if (this.sent > 0 && !this.stopped) await this.start(order);
      else this.phase = "choosing";
      if (this.sent === 0) this.problem = "None of the files could be sent.";
    } catch (error) {
      this.problem = wordsFor(error);
      this.phase = "choosing";
    }
  }

  private async sendFrom(queue: Item[], order: Order): Promise<void> {
    for (let item = queue.shift(); item && !this.stopped; item = queue.shift()) await this.sendOne(item, order);
  }

  private async sendOne(item: Item, order: Order): Promise<void> {
    item.stage = "sending";
    item.problem = null;
    const form = new FormData();
    // The fields go first: what is wrong with them is told before the file is sent for nothing.
    form.set("source_uri", item.dropped.path);
    form.set("source", order.source);
    form.set("batch_id", String(this.batchId));
    form.set("file", item.dropped.file);
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await api.form<{ document_hash: string }>("document/ingest-document", form);
        item.hash = answer.document_hash;
        item.stage = "sent";
        return;
      } catch (error) {
        // Too many at once, or a server that starts again: the same request may succeed a little later.
        const mayPass = error instanceof ApiError && [0, 429, 503].includes(error.status);
        if (mayPass && attempt < TRIES && !this.stopped) {
          await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
          continue;
        }
        item.stage = "refused";
        item.problem = wordsFor(error);
        return;
      }
    }
  }

  private async start(order: Order): Promise<void> {
    this.phase = "starting";
    const fields: Record<string, string> = { batch_id: String(this.batchId) };
    if (order.workflow) fields["workflow_definition_id"] = order.workflow;
    if (order.params) fields["param_id"] = order.params;
    const started = await api.form<{ run_group_id: number; run_group: { workflow_definition_id: string } }>("batch/start-workflows", fields);
    this.groupId = started.run_group_id;
    const workflow = encodeURIComponent(started.run_group.workflow_definition_id);
    this.graph = await api.get<DefinitionGraph>(`workflow/definitions/${workflow}/graph`);
    this.phase = "running";
    this.endFeed = feed.follow({ run_group_id: started.run_group_id }, (change) => this.learn(change));
    await this.look();
  }

  /** How all runs stand now. */
  private async look(): Promise<void> {
    const group = this.groupId;
    if (group === null) return;
    for (let page = 1; ; page++) {
      const found = await api.page<Run>(`workflow/run-groups/${group}/runs`, { page, rows_per_page: ROWS });
      for (const run of found.items) this.tell(run.id, run.status, run.status_message, run.doc_id);
      if (page >= found.total_pages) break;
    }
    await this.lookAtFailures(group);
    this.seeIfOver();
  }

  /** Which steps failed before anybody followed: the feed tells of what changes from then on. */
  private async lookAtFailures(group: number): Promise<void> {
    const isUnknown = (item: Item) => item.run === "FAILED" && !Object.values(item.steps).includes("FAILED");
    for (let page = 1; this.items.some(isUnknown); page++) {
      const query = { status: "FAILED", run_group_id: group, page, rows_per_page: ROWS };
      const found = await api.page<{ workflow_run_id: number; workflow_step_name: string }>("workflow/steps", query);
      for (const step of found.items) {
        for (const item of this.byRun.get(step.workflow_run_id) ?? []) item.steps[step.workflow_step_name] = "FAILED";
      }
      if (page >= found.total_pages) break;
    }
  }

  private tell(runId: number, status: RunStatus, message: string | null, hash: string | null): void {
    let items = this.byRun.get(runId);
    if (!items) {
      items = this.items.filter((item) => hash !== null && item.hash === hash);
      this.byRun.set(runId, items);
      for (const item of items) Object.assign(item.steps, this.early.get(runId));
    }
    for (const item of items) {
      item.runId = runId;
      item.run = status;
      item.message = message;
    }
  }

  private learn(change: Change | null): void {
    if (change === null || change.kind === "gap") {
      void this.look().catch((error: unknown) => (this.problem = wordsFor(error)));
      return;
    }
    if (change.kind === "gone") {
      this.problem = `Run group ${this.groupId} was deleted: its documents are not processed any further.`;
      this.end();
      return;
    }
    const { data } = change;
    const runId = Number(data["workflow_run_id"]);
    if (change.kind === "run") {
      this.tell(runId, data["status"] as RunStatus, (data["status_message"] as string | null) ?? null, (data["doc_id"] as string | null) ?? null);
      this.seeIfOver();
    } else if (change.kind === "step" && data["parent_step_id"] === null) {
      const key = String(data["workflow_step_name"]);
      const status = data["status"] as RunStatus;
      const items = this.byRun.get(runId);
      if (!items) this.early.set(runId, { ...this.early.get(runId), [key]: status });
      for (const item of items ?? []) item.steps[key] = status;
    }
  }

  private seeIfOver(): void {
    const started = this.items.filter((item) => item.stage === "sent");
    if (this.phase !== "running" || !started.every((item) => item.run !== null && isFinal(item.run))) return;
    this.end();
  }

  private end(): void {
    this.phase = "over";
    this.endFeed?.();
    this.endFeed = null;
  }
}

/** Which kinds of these files no step of the workflow reads. What the browser does not know the kind of, is sent. */
async function unreadKinds(files: Dropped[], order: Pick<Order, "workflow" | "params">): Promise<Record<string, string>> {
  const kinds = [...new Set(files.map((each) => each.file.type).filter(Boolean))].slice(0, MOST_KINDS);
  if (!kinds.length) return {};
  const asked = { kind: kinds, workflow_definition_id: order.workflow, param_id: order.params };
  try {
    return (await api.get<{ unread: Record<string, string> }>("document/unread-kinds", asked)).unread;
  } catch {
    return {}; // then the workflow says it of each
  }
}

/** How a step of a run stands: as it was told, or as follows from those after it and from the end of the run. */
export function stepStatus(item: Item, key: string, graph: DefinitionGraph): RunStatus {
  const told = item.steps[key];
  if (item.run === "COMPLETED") return "COMPLETED";
  if (told) return told;
  const after = graph.edges.filter((edge) => edge.source === key).map((edge) => edge.target);
  const isPassed = after.some((target) => {
    const status = stepStatus(item, target, graph);
    return status !== "PENDING" && status !== "CANCELLED";
  });
  if (isPassed) return "COMPLETED";
  return item.run !== null && isFinal(item.run) ? "CANCELLED" : "PENDING";
}

export const uploading = new Uploading();
window.addEventListener("beforeunload", (event) => {
  if (uploading.phase === "sending") event.preventDefault();
});
