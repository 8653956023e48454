"""`si-cli stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, console, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.views import Interval

Lately = Annotated[str, typer.Option("--interval", metavar="INTERVAL", help="minute, hour, day or week.")]
BATCHES = 10

_DURATIONS = {
    "step": "step_type",
    "count": "count",
    "average s": "average",
    "shortest s": "shortest",
    "longest s": "longest",
    "pages": "pages",
    "pages/min": "pages_per_min",
    "total s": "total_duration",
    "wall clock s": "wall_clock_time",
}
_RATES = {
    "step": "step_type",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "unfinished": "unfinished",
    "retried": "retried",
    "success": "success_rate",
}
_TIMES = {
    "batch": "batch_id",
    "name": "name",
    "source": "source",
    "documents": "total_runs",
    "failed": "failed_runs",
    "waiting": "remaining_runs",
    "seconds": "duration",
    "seconds/document": "seconds_per_document",
}


async def stats(
    group_id: Annotated[
        int | None, typer.Argument(metavar="[GROUP]", min=1, help="A run group. Default: all of the last hour.")
    ] = None,
    *,
    interval: Lately = "hour",
    as_json: AsJson = False,
) -> None:
    """Show how much was done, how well and how fast.

    Of a run group, how long its steps took; without one, what was processed lately, how steps ended, how busy the
    workers are, and how long the newest batches took.
    """
    from soliplex.ingester.lib.wf import views

    chosen = interval_of(interval)
    async with open_database():
        if group_id is not None:
            durations = await views.step_durations(group_id)
            print_rows(durations, _DURATIONS, as_json=as_json, nothing="no step has ended yet")
            return
        figures = await _figures(chosen)
    if as_json:
        print_json(figures)
    else:
        _print(figures, interval)


def interval_of(text: str) -> Interval:
    """The interval of this name; else, wrong usage."""
    from soliplex.ingester.lib.wf.views import Interval

    try:
        return Interval(text)
    except ValueError:
        known = ", ".join(Interval)
        raise typer.BadParameter(f"{text!r} is none of {known}", param_hint="--interval") from None


async def _figures(interval: Interval) -> dict[str, Any]:
    from soliplex.ingester.lib import operations
    from soliplex.ingester.lib.wf import views

    return {
        "throughput": await views.throughput(interval),
        "rates": await views.step_rates(interval=interval),
        "workers": (await views.list_workers(paging=views.FIRST_ROWS)).items,
        "batches": (await operations.batch_times(paging=views.Paging(1, BATCHES))).items,
    }


def _print(figures: dict[str, Any], interval: str) -> None:
    out = console()
    done, workers = figures["throughput"], figures["workers"]
    out.print(
        f"last {interval}: {done.completed:,} documents completed, {done.failed:,} failed, {done.cancelled:,} cancelled"
        f" ({done.documents_per_minute:,.1f} a minute)"
    )
    slots = sum(worker.slots for worker in workers)
    running = sum(worker.running_steps for worker in workers)
    out.print(f"workers: {len(workers):,}, with {slots:,} slots; {running:,} steps are running")
    print_rows(figures["rates"], _RATES, as_json=False, nothing=f"no run ended within the last {interval}")
    print_rows(figures["batches"], _TIMES, as_json=False, nothing="no batches")
