"""What the engine's tables tell: read-only queries, paged, in a stable order, by the indexes there are.

    runs        lists of runs, one run, counts by status       activity   what runs now, what changed lately
    attempts    the attempts at a run's steps that failed      signals    what became of a signal
    steps       lists of steps, the steps of runs              lifecycle  the life of one run
    groups      lists of groups, how a group's runs fare       workers    workers, resource locks
    stats       how much, how well, how fast                   changes    what changed, for those who follow along
    paging      Paging, Page                                   progress   how far one group is
    graphs      a workflow's graph, a run's, tasks of maps     queues     what is ready, and what waits and why
    causes      failures by their cause                        eta        when a group will have ended
    payloads    what is too large for a row

Knows no HTTP and no command line; both show what is read here. Changes nothing: that is what `operations` is for.
"""

from __future__ import annotations

from soliplex.ingester.lib.pieces import LARGEST_PAGE
from soliplex.ingester.lib.wf.answers import FailedAttempt, GroupEta, SentSignal, SignalStanding
from soliplex.ingester.lib.wf.views.activity import Interval, RunActivity, recent_runs, running_steps
from soliplex.ingester.lib.wf.views.attempts import attempts_of_run
from soliplex.ingester.lib.wf.views.causes import Cause, Causes, failures_by_cause
from soliplex.ingester.lib.wf.views.eta import eta_of_group
from soliplex.ingester.lib.wf.views.graphs import (
    DefinitionGraph,
    RunGraph,
    TaskNode,
    graph_of_definition,
    graph_of_run,
    tasks_of_step,
)
from soliplex.ingester.lib.wf.views.groups import RunGroupStats, get_run_group, list_run_groups, run_group_stats
from soliplex.ingester.lib.wf.views.lifecycle import lifecycle_of_run
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, FIRST_ROWS, Page, Paging
from soliplex.ingester.lib.wf.views.payloads import content_of_payload
from soliplex.ingester.lib.wf.views.progress import StepCounts, count_waiting_events, step_counts
from soliplex.ingester.lib.wf.views.queues import (
    QueueDepth,
    WaitingStep,
    WaitReason,
    WhatWaits,
    queue_depths,
    waiting_steps,
    what_waits,
)
from soliplex.ingester.lib.wf.views.runs import (
    RunWithSteps,
    get_run,
    get_run_with_steps,
    list_runs,
)
from soliplex.ingester.lib.wf.views.signals import standing_of_signal
from soliplex.ingester.lib.wf.views.stats import (
    Bucket,
    StepDurations,
    StepRates,
    StepStats,
    Throughput,
    TypeThroughput,
    step_durations,
    step_rates,
    step_stats,
    throughput,
    throughput_by_type,
)
from soliplex.ingester.lib.wf.views.steps import get_step, list_steps, made_of_steps, steps_of_runs
from soliplex.ingester.lib.wf.views.workers import WorkerView, list_locks, list_workers, running_steps_by_worker

__all__ = [
    "FIRST_PAGE",
    "FIRST_ROWS",
    "LARGEST_PAGE",
    "Bucket",
    "Cause",
    "Causes",
    "DefinitionGraph",
    "FailedAttempt",
    "GroupEta",
    "Interval",
    "Page",
    "Paging",
    "QueueDepth",
    "RunActivity",
    "RunGraph",
    "RunGroupStats",
    "RunWithSteps",
    "SentSignal",
    "SignalStanding",
    "StepCounts",
    "StepDurations",
    "StepRates",
    "StepStats",
    "TaskNode",
    "Throughput",
    "TypeThroughput",
    "WaitReason",
    "WaitingStep",
    "WhatWaits",
    "WorkerView",
    "attempts_of_run",
    "content_of_payload",
    "count_waiting_events",
    "eta_of_group",
    "failures_by_cause",
    "get_run",
    "get_run_group",
    "get_run_with_steps",
    "get_step",
    "graph_of_definition",
    "graph_of_run",
    "lifecycle_of_run",
    "list_locks",
    "list_run_groups",
    "list_runs",
    "list_steps",
    "list_workers",
    "made_of_steps",
    "queue_depths",
    "recent_runs",
    "run_group_stats",
    "running_steps",
    "running_steps_by_worker",
    "standing_of_signal",
    "step_counts",
    "step_durations",
    "step_rates",
    "step_stats",
    "steps_of_runs",
    "tasks_of_step",
    "throughput",
    "throughput_by_type",
    "waiting_steps",
    "what_waits",
]
