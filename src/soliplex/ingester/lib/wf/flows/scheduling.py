"""Flows that are started again and again, at the times that a cron expression gives."""

from __future__ import annotations

from typing import Any

from soliplex.ingester.lib.models import Schedule
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.flows.executor import Executor, Startable


async def schedule(
    slug: Startable,
    cron: str,
    input: Any = None,  # noqa: A002  as everywhere
    *,
    name: str | None = None,
    time_zone: str = "UTC",
    catch_up: bool = True,
) -> Schedule:
    """Start the flow at every due time, once, whichever worker notices it.

    The schedule is called `name`, by default like the flow. A due time that is more than a minute ago when a worker
    notices it is late: with `catch_up`, the flow is started once for all that are; else they are counted as missed.
    A flow or class that is given in place of a slug is stored, so that any worker finds it.
    """
    slug = await Executor.save(slug)
    return await operations.add_schedule(name or slug, slug, cron, time_zone=time_zone, input=input, catch_up=catch_up)


async def unschedule(name: str) -> None:
    """Forget a schedule. Runs that it has started go on."""
    await operations.remove_schedule(name)


async def list_schedules() -> list[Schedule]:
    """All schedules, by name."""
    return await operations.list_schedules()
