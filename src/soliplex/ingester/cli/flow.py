"""`si-cli flow`: graphs of work that are not about documents."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, echo, print_facts, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.definitions import StepDefinition
    from soliplex.ingester.lib.wf.flows import Run

Slug = Annotated[str, typer.Argument(metavar="SLUG", help="Id of the flow.")]
RunId = Annotated[int, typer.Argument(metavar="RUN", help="Id of the run.")]
FAILED = 1


async def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A flow as JSON.")],
    *,
    slug: Annotated[str | None, typer.Option("--slug", help="Its id. Default: made of the title.")] = None,
    as_json: AsJson = False,
) -> None:
    """Save a flow. Saved again with another content, it gets a new version."""
    from soliplex.ingester.lib.storable import parse_json
    from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
    from soliplex.ingester.lib.wf.errors import DefinitionError
    from soliplex.ingester.lib.wf.operations import save_workflow

    try:
        flow = WorkflowDefinition.parse(parse_json(str(file), file.read_bytes()), slug=slug)
    except DefinitionError as exc:
        raise typer.BadParameter(str(exc), param_hint="FILE") from exc
    async with open_database():
        saved = await save_workflow(flow)
    if as_json:
        print_json({"slug": flow.id, "version": saved.version})
    else:
        echo(f"flow {flow.id} is saved, version {saved.version}; `si-cli flow run {flow.id}` starts it")


async def show(slug: Slug, *, as_json: AsJson = False) -> None:
    """Show the steps of a flow, and what waits for what."""
    from soliplex.ingester.lib.wf.operations import find_workflow

    async with open_database():
        flow = await find_workflow(slug)
    rows: list[dict[str, Any]] = [
        {
            "step": step.key,
            "kind": "map" if step.map is not False else "task",
            "after": list(step.depends_on),
            "command": step.command,
            "attempts": step.retries,
            "timeout": step.timeout.total_seconds() if step.timeout else None,
            "when": step.when.text if step.when else None,
            "repeat": step.repeat and f"until {step.repeat.until.text}, {step.repeat.max} times at most",
            "failures": _if_it_fails(step),
            "queue": step.queue,
        }
        for step in flow.steps
    ]
    shown = rows if as_json else [{**row, "after": " ".join(row["after"])} for row in rows]
    columns = {name: name for name in rows[0] if any(row[name] is not None for row in rows)}
    print_rows(shown, columns, as_json=as_json, nothing="no steps")


def _if_it_fails(step: StepDefinition) -> str | None:
    from soliplex.ingester.lib.wf.definitions import ANY_NUMBER

    if step.max_failures is not None:
        number = "any number" if step.max_failures == ANY_NUMBER else step.max_failures
        return f"{number} of its items may"
    return "the run goes on" if step.optional else None


async def list_(*, as_json: AsJson = False) -> None:
    """List the flows that are stored."""
    from soliplex.ingester.lib.wf.operations.definitions import newest_of_all

    async with open_database():
        found = await newest_of_all()
    rows = [
        {
            "slug": each.workflow.id,
            "title": each.workflow.name,
            "version": each.version,
            "steps": len(each.workflow.steps),
        }
        for each in found
        if not each.workflow.is_internal
    ]
    print_rows(
        rows, {name: name for name in ("slug", "title", "version", "steps")}, as_json=as_json, nothing="no flows"
    )


async def run(
    slug: Slug,
    *,
    given: Annotated[str | None, typer.Option("--input", metavar="JSON", help="The input of the run.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="A name for the run: the same again starts no other.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    here: Annotated[bool, typer.Option("--here", help="Execute it in this process, and wait for its end.")] = False,
    wait: Annotated[
        float | None, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait so long for its end.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a run of a flow. A worker executes it, or, with --here, this process."""
    from soliplex.ingester.lib.storable import parse_json
    from soliplex.ingester.lib.wf.flows import Executor

    value = None if given is None else parse_json("--input", given)
    async with open_database():
        run_id = await Executor.start_workflow(slug, value, key=key, priority=priority)
        if not here and wait is None:
            _say_started(slug, run_id, as_json=as_json)
            return
        if here:
            await Executor.execute_pending_tasks()
        ended = await Executor.status(run_id)
        if not ended.is_over:  # a step has failed and is to be tried again, or waits for somebody
            async with _at_work() if here else nullcontext():
                with suppress(TimeoutError):
                    await Executor.wait(run_id, wait)
            ended = await Executor.status(run_id)
    _tell(ended, as_json=as_json)


@asynccontextmanager
async def _at_work() -> AsyncGenerator[None]:
    """A worker in this process, for the time of the block."""
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.scratch import lend_folder
    from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, at_work

    lend_folder()
    settings = get_settings()
    worker = Worker(WorkerConfig.from_settings(settings, step_patience=0))
    async with at_work(worker, stop_timeout=settings.worker_stop_timeout_seconds):
        yield


def _say_started(slug: str, run_id: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"run_id": run_id, "slug": slug})
    else:
        echo(f"run {run_id} of {slug} is started; `si-cli flow status {run_id}` tells how it fares")


async def status(run_id: RunId, *, as_json: AsJson = False) -> None:
    """Tell how a run fares. The exit code is 1 if it failed or was cancelled."""
    from soliplex.ingester.lib.wf.flows import Executor

    async with open_database():
        _tell(await Executor.status(run_id), as_json=as_json)


def _tell(run: Run, *, as_json: bool) -> None:
    if as_json:
        print_json(run)
    else:
        facts: dict[str, Any] = {
            "run": run.id,
            "flow": run.workflow_slug,
            "status": run.status,
            "output": run.output,
            "error": run.error,
        }
        print_facts({name: value for name, value in facts.items() if value is not None}, as_json=False)
        rows = [
            {
                "step": each.name,
                "status": "skipped" if each.skipped else each.status,
                "attempt": each.attempt,
                "message": each.message or _how_far(each.progress),
            }
            for each in run.steps
        ]
        print_rows(
            rows, {name: name for name in ("step", "status", "attempt", "message")}, as_json=False, nothing="no steps"
        )
    if run.status in ("failed", "cancelled"):
        raise typer.Exit(FAILED)


def _how_far(progress: dict[str, Any] | None) -> str:
    if progress is None:
        return ""
    share = "" if progress["fraction"] is None else f"{progress['fraction']:.0%}"
    return ": ".join(filter(None, (share, progress["text"])))
