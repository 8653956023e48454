"""`si-cli prune`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, counted, echo, print_json

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.operations import Retention

MOST_DAYS = 36_500


async def prune(
    *,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0,
            max=MOST_DAYS,
            help="Days since a group ended. Default: what the settings say (HISTORY_RETENTION_DAYS).",
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="With --older-than: groups that failed, too.")] = False,
    signals: Annotated[
        float | None,
        typer.Option(
            "--signals", metavar="DAYS", min=0, max=MOST_DAYS, help="Signals that nobody took for so many days, too."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the history of run groups that ended long ago.

    Documents, artifacts and RAG databases stay. Of the steps that go, it stays known how many there were, how they
    ended and how long they took.
    """
    if failed and older_than is None:
        raise typer.BadParameter(
            "goes with --older-than; the settings have their own days for it", param_hint="--failed"
        )
    retention = _retention(older_than, failed=failed)
    if retention.keeps_all and signals is None:
        raise typer.BadParameter("is needed where HISTORY_RETENTION_DAYS is not set", param_hint="--older-than")
    async with open_database():
        counts = await (_count(retention) if dry_run else _prune(retention, signals))
    if as_json:
        print_json({**counts, "dry_run": dry_run})
    else:
        echo(_words(counts, "would go" if dry_run else "deleted"))


def _retention(older_than: float | None, *, failed: bool) -> Retention:
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.wf.operations import Retention

    if older_than is None:
        return Retention.of(get_settings())
    kept = timedelta(days=older_than)
    return Retention(ended=kept, failed=kept if failed else None)


async def _count(retention: Retention) -> dict[str, int]:
    from soliplex.ingester.lib.wf import operations

    groups = [group async for group in operations.groups_to_prune(retention)]
    return {"groups": len(groups), "runs": sum(group.total_runs for group in groups)}


async def _prune(retention: Retention, signals: float | None) -> dict[str, int]:
    from soliplex.ingester.lib.access import audited
    from soliplex.ingester.lib.wf import operations
    from soliplex.ingester.lib.wf.extensions import tidy

    async with audited("prune", retention=retention, signals_days=signals) as act:
        done = await operations.prune_history(retention)
        await tidy()
        counts = {"groups": done.groups, "runs": done.runs, "steps": done.steps}
        if signals is not None:
            counts["signals"] = await operations.prune_signals(timedelta(days=signals))
        act.note(**counts)
    return counts


def _words(counts: dict[str, int], what: str) -> str:
    names = {"groups": "run group", "runs": "run", "steps": "step", "signals": "signal"}
    told = ", ".join(counted(number, names[name]) for name, number in counts.items())
    return f"{told} {what}" if any(counts.values()) else "nothing is old enough to go"
