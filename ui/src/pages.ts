// The pages, one line each: its address, its name, where it stands in the navigation, and the file that it is made of.
// The first that fits an address is taken. A page gets what its address names as `params`.

import type { Component } from "svelte";

import type { IconName } from "./lib/icons";
import { match, type Params } from "./lib/routing";

export interface PageProps {
  params: Params;
}

// A page that takes nothing from its address has no `params`: so the type of what it takes is left open.
type Load = () => Promise<{ default: Component<any> }>;

export interface PageLine {
  path: string;
  title: string;
  /** Its `:id` is a number; no other address is of this page. */
  numbered?: true;
  /** The group of the navigation it stands in; none for pages that others link to. */
  nav?: "Work" | "Knowledge" | "Setup";
  icon?: IconName;
  load: Load;
}

export const PAGES: readonly PageLine[] = [
  { path: "/", title: "Overview", nav: "Work", icon: "overview", load: () => import("./pages/Overview.svelte") },
  { path: "/upload", title: "Upload", nav: "Work", icon: "upload", load: () => import("./pages/Upload.svelte") },
  { path: "/batches", title: "Batches", nav: "Work", icon: "batches", load: () => import("./pages/Batches.svelte") },
  { path: "/batches/:id", numbered: true, title: "Batch", load: () => import("./pages/Batch.svelte") },
  { path: "/groups", title: "Run groups", nav: "Work", icon: "groups", load: () => import("./pages/Groups.svelte") },
  { path: "/groups/:id", numbered: true, title: "Run group", load: () => import("./pages/Group.svelte") },
  { path: "/runs", title: "Runs", nav: "Work", icon: "runs", load: () => import("./pages/Runs.svelte") },
  { path: "/runs/:id", numbered: true, title: "Run", load: () => import("./pages/Run.svelte") },
  { path: "/search", title: "Search", nav: "Knowledge", icon: "search", load: () => import("./pages/Search.svelte") },
  { path: "/documents", title: "Documents", nav: "Knowledge", icon: "documents", load: () => import("./pages/Documents.svelte") },
  { path: "/documents/at", title: "Document", load: () => import("./pages/Document.svelte") },
  { path: "/databases", title: "Databases", nav: "Knowledge", icon: "databases", load: () => import("./pages/Databases.svelte") },
  { path: "/databases/:name", title: "Database", load: () => import("./pages/Database.svelte") },
  { path: "/segmenter", title: "Segmenter", nav: "Knowledge", icon: "segmenter", load: () => import("./pages/Segmenter.svelte") },
  { path: "/segmenter/jobs/:id", title: "Segmentation job", load: () => import("./pages/Job.svelte") },
  { path: "/goals", title: "Goals", nav: "Knowledge", icon: "goals", load: () => import("./pages/Goals.svelte") },
  { path: "/goals/:id", numbered: true, title: "Goal", load: () => import("./pages/Goal.svelte") },
  { path: "/definitions", title: "Definitions", nav: "Setup", icon: "definitions", load: () => import("./pages/Definitions.svelte") },
  { path: "/definitions/:id", title: "Workflow", load: () => import("./pages/Definition.svelte") },
  { path: "/parameters", title: "Parameters", nav: "Setup", icon: "parameters", load: () => import("./pages/ParameterSets.svelte") },
  { path: "/parameters/:id", title: "Parameter set", load: () => import("./pages/ParameterSet.svelte") },
  { path: "/schedules", title: "Schedules", nav: "Setup", icon: "schedules", load: () => import("./pages/Schedules.svelte") },
  { path: "/deliveries", title: "Deliveries", nav: "Setup", icon: "signal", load: () => import("./pages/Deliveries.svelte") },
  { path: "/deliveries/:id", numbered: true, title: "Delivery", load: () => import("./pages/Delivery.svelte") },
  { path: "/keys", title: "Keys", nav: "Setup", icon: "keys", load: () => import("./pages/Keys.svelte") },
  { path: "/audit", title: "Audit log", nav: "Setup", icon: "audit", load: () => import("./pages/Audit.svelte") },
];

const NOWHERE: PageLine = { path: "", title: "Not found", load: () => import("./pages/NotFound.svelte") };

export function pageFor(path: string): { page: PageLine; params: Params } {
  for (const page of PAGES) {
    const params = match(page.path, path);
    if (params && (!page.numbered || /^\d{1,18}$/.test(params["id"] ?? ""))) return { page, params };
  }
  return { page: NOWHERE, params: { path } };
}

/** Whether a line of the navigation is where the reader is: on its page, or on one below it. */
export function isWithin(page: PageLine, path: string): boolean {
  return path === page.path || (page.path !== "/" && path.startsWith(`${page.path}/`));
}
