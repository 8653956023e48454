"""Flows: the engine's front for work that is not about documents. Any graph of functions, made in code or at run time.

    flow         Flow: functions whose parameters say what they need
    classes      Workflow: a class with the callbacks definition, execute_command, on_complete and on_failure
    builder      FlowBuilder: flows that are made step by step, and kept in the database
    executor     Executor: start, wait for, cancel and retry runs; execute what is ready in this process
    runs         Run, StepOfRun: what is told of a run
    scheduling   flows that are started again and again
    functions    how a function is named in a definition, and found again by the worker that executes the step
    calling      the handlers that call such functions
    rehearsal    a flow executed in memory, without a database: for tests

A flow is a workflow like any other: validated, stored, started and shown by the same code. Knows no documents, no HTTP
and no command line.
"""

from __future__ import annotations

from soliplex.ingester.lib.wf.flows.builder import FlowBuilder
from soliplex.ingester.lib.wf.flows.classes import Workflow
from soliplex.ingester.lib.wf.flows.executor import Executor
from soliplex.ingester.lib.wf.flows.flow import Flow
from soliplex.ingester.lib.wf.flows.runs import Run, RunFailed, StepOfRun
from soliplex.ingester.lib.wf.flows.scheduling import list_schedules, schedule, unschedule

__all__ = [
    "Executor",
    "Flow",
    "FlowBuilder",
    "Run",
    "RunFailed",
    "StepOfRun",
    "Workflow",
    "list_schedules",
    "schedule",
    "unschedule",
]
