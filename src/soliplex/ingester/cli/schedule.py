"""`si-cli schedule`: workflows that are started again and again."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, as_cell, echo, print_json, print_rows

_SCHEDULES = {
    "schedule": "name",
    "workflow": "workflow_id",
    "cron": "cron",
    "zone": "time_zone",
    "state": "state",
    "next": "next_due_at",
    "last": "last_due_at",
    "run": "last_run_id",
    "missed": "missed",
    "problem": "status_message",
}
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]


async def add(
    name: Name,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of a workflow.")],
    cron: Annotated[str, typer.Argument(metavar="CRON", help="Minute, hour, day, month, weekday: `0 6 * * 1-5`.")],
    *,
    zone: Annotated[str, typer.Option("--zone", help="Time zone that CRON is meant in, such as Europe/Paris.")] = "UTC",
    given: Annotated[str | None, typer.Option("--input", metavar="JSON", help="The input of each run.")] = None,
    params: Annotated[str | None, typer.Option("--params", help="Id of a parameter set.")] = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    longest: Annotated[
        float | None, typer.Option("--longest", metavar="SECONDS", min=0.001, help="How long a run may take.")
    ] = None,
    catch_up: Annotated[
        bool, typer.Option("--catch-up/--no-catch-up", help="Start once, late, what was due more than a minute ago.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Start a workflow at every due time, once, whichever worker notices it."""
    from soliplex.ingester.lib.storable import parse_json
    from soliplex.ingester.lib.wf import operations

    value = None if given is None else parse_json("--input", given)
    async with open_database():
        schedule = await operations.add_schedule(
            name,
            workflow,
            cron,
            time_zone=zone,
            param_id=params,
            input=value,
            priority=priority,
            longest=timedelta(seconds=longest) if longest else None,
            catch_up=catch_up,
        )
    if as_json:
        print_json(schedule.model_dump(mode="json"))
    else:
        echo(f"schedule {name} starts {workflow}, next at {as_cell(schedule.next_due_at)}; it needs a worker that runs")


async def list_(*, as_json: AsJson = False) -> None:
    """List the schedules: when each is due next, and what became of it last."""
    from soliplex.ingester.lib.wf import operations

    async with open_database():
        schedules = await operations.list_schedules()
    rows = [{**each.model_dump(), "state": "active" if each.next_due_at else "paused"} for each in schedules]
    print_rows(rows, _SCHEDULES, as_json=as_json, nothing="no schedules")


async def pause(name: Name) -> None:
    """Start nothing until the schedule is resumed."""
    from soliplex.ingester.lib.wf import operations

    async with open_database():
        await operations.pause_schedule(name)
    echo(f"schedule {name} is paused; `si-cli schedule resume {name}` lets it go on")


async def resume(name: Name) -> None:
    """Let a schedule that is paused go on, with the next due time."""
    from soliplex.ingester.lib.wf import operations

    async with open_database():
        await operations.resume_schedule(name)
        schedule = await operations.find_schedule(name)
    echo(f"schedule {name} is next due at {as_cell(schedule.next_due_at)}")


async def remove(name: Name) -> None:
    """Forget a schedule. Runs that it has started go on."""
    from soliplex.ingester.lib.access import audited
    from soliplex.ingester.lib.wf import operations

    async with open_database(), audited("remove schedule", schedule=name):
        await operations.remove_schedule(name)
    echo(f"schedule {name} is removed")
