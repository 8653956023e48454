"""`si-cli flow optimize`: what a flow would do better with, and trying it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.flow import Slug
from soliplex.ingester.cli.output import AsJson, echo, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.goals.optimizer.optimizer import Recommendations, Tried


async def optimize(
    slug: Slug,
    *,
    level: Annotated[
        str | None, typer.Option(help="basic, advanced or aggressive. Default: ORCHESTRATOR_OPTIMIZATION_LEVEL.")
    ] = None,
    restructure: Annotated[
        bool | None, typer.Option("--restructure/--preserve-structure", help="Whether steps and edges may change.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Save a version with what can be applied, and compare it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a flow would do better with, as its runs teach, and what came of what was tried before."""
    from soliplex.ingester.goals.optimizer.optimizer import OrchestratorOptimizer

    wanted: Any = level
    preserves = None if restructure is None else not restructure
    async with open_database():
        if apply:
            tried = await OrchestratorOptimizer.apply_optimization(slug, wanted, preserve_structure=preserves)
            _tell_applied(slug, tried, as_json=as_json)
            return
        found = await OrchestratorOptimizer.get_recommendations(slug, wanted, preserve_structure=preserves)
    if as_json:
        print_json(found)
    else:
        _tell(found)


def _tell_applied(slug: str, tried: Tried, *, as_json: bool) -> None:
    if as_json:
        print_json(tried)
        return
    faster = f", predicted to be {tried.predicted_speedup:g} times as fast" if tried.predicted_speedup else ""
    echo(f"flow {slug} has a new version with {len(tried.changes)} changes{faster}")
    echo(f"it is compared with the one before; `si-cli flow optimize {slug}` tells how it fares")


def _tell(found: Recommendations) -> None:
    echo(f"{found.slug}: {found.executions} executions, {found.measured_runs} looked at; level {found.level}")
    if found.typical_seconds is not None and found.predicted_after is not None:
        echo(f"half of the runs take at most {found.typical_seconds:.3g} s")
        echo(f"worked out from its steps: {found.predicted_before:.3g} s now, {found.predicted_after:.3g} s then")
    for note in found.notes:
        echo(f"note: {note}")
    rows = [
        {
            "what": each.kind,
            "step": each.step or "",
            "now": each.current,
            "then": each.proposed,
            "saves": f"{each.predicted_seconds:.3g} s",
            "confidence": each.confidence,
            "why": each.why,
            "applied": "yes" if each.is_applied else f"no: {each.why_not}",
        }
        for each in found.recommendations
    ]
    names = ("what", "step", "now", "then", "saves", "confidence", "why", "applied")
    print_rows(rows, {name: name for name in names}, as_json=False, nothing="nothing to recommend")
    tried = [
        {
            "tried": each.created_at,
            "stands": each.standing.value,
            "predicted": each.predicted_speedup,
            "measured": each.measured_speedup,
            "verdict": each.verdict,
        }
        for each in found.tried
    ]
    if tried:
        print_rows(tried, {name: name for name in tried[0]}, as_json=False, nothing="")
