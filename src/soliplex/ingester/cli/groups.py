"""Commands about what was started: list-batches, status, retry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import (
    AsJson,
    Limit,
    as_cell,
    console,
    counted,
    echo,
    fields_of,
    line,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from soliplex.ingester.installation.values import Failure, Group, GroupProgress, StageProgress
    from soliplex.ingester.lib.answers import GroupCoverage, Waiting
    from soliplex.ingester.lib.models import DocumentBatch
    from soliplex.ingester.lib.wf.answers import FailedAttempt, GroupEta
    from soliplex.ingester.lib.wf.views import Paging

GroupId = Annotated[int, typer.Argument(metavar="GROUP", min=1, help="Id of a run group.")]
SHOWN_FAILURES = 20
MOST_BLANK = 1_000

_GROUPS = {
    "group": "id",
    "workflow": "workflow_definition_id",
    "parameters": "param_definition_id",
    "batch": "batch_id",
    "status": "status",
    "runs": "total_runs",
    "done": "completed_runs",
    "failed": "failed_runs",
    "waiting": "remaining_runs",
    "created": "created_date",
    "completed": "completed_date",
}
_BATCHES = {
    "batch": "id",
    "name": "name",
    "source": "source",
    "started": "start_date",
    "completed": "completed_date",
    "seconds": "duration",
}
_ATTEMPTS = {
    "step": "step_name",
    "item": "item_index",
    "attempt": "attempt",
    "worker": "worker_id",
    "began": "start_date",
    "seconds": "duration",
    "error": "error_type",
    "message": "message",
}
_STAGES = {name: name for name in ("step", "total", "completed", "failed", "cancelled", "waiting")}


async def list_batches(*, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List the batches, the newest first."""
    async with open_database():
        batches, total = await _newest_batches(limit)
    print_rows(batches, _BATCHES, as_json=as_json, nothing="no batches", total=total)


async def status(
    group_id: Annotated[
        int | None,
        typer.Argument(
            metavar="[GROUP]", min=1, help="A run group; with --attempts, a run. Default: the newest groups."
        ),
    ] = None,
    *,
    attempts: Annotated[
        bool, typer.Option("--attempts", help="Show the failed attempts at the steps of a run.")
    ] = False,
    server: Server = None,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """Show how run groups fare.

    The newest ones, or one in detail: its failed documents are shown with their reasons, and the exit code is 1 if
    there are any; and why documents wait to be tried again. With --attempts, the number is that of a run, and every
    attempt at its steps that failed is shown.
    """
    if attempts:
        await _show_attempts(group_id, server, limit, as_json=as_json)
        return
    async with open_target(server, tell) as target:
        if group_id is None:
            groups, total = await target.groups(rows_of(limit))
            rows = [{**fields_of(group), "completed_runs": group.completed_runs} for group in groups]
            print_rows(rows, _GROUPS, as_json=as_json, nothing="no run groups", total=total)
            return
        group, progress = await target.group(group_id), await target.progress(group_id)
        failures = await target.failures(group_id, SHOWN_FAILURES) if progress.failed else []
        blank = await target.with_nothing_to_index(group_id, MOST_BLANK) if progress.completed else []
        waiting = [] if progress.is_over else await target.reasons_to_wait(group_id, SHOWN_FAILURES)
        coverage = await target.coverage(group_id)
        eta = None if progress.status.is_final else await target.eta(group_id)
    if as_json:
        found = {"run_group": group, "progress": progress, "failures": failures, "waiting": waiting}
        print_json(found | {"nothing_to_index": blank, "coverage": coverage, "eta": eta})
    else:
        _print_group(group, progress, failures, blank)
        _print_waiting(waiting)
        _print_eta(eta)
        _print_coverage(coverage)
    raise typer.Exit(1 if progress.failed else 0)


async def _show_attempts(run_id: int | None, server: str | None, limit: int, *, as_json: bool) -> None:
    if run_id is None:
        raise typer.BadParameter("--attempts needs the id of a run: si-cli status RUN --attempts")
    async with open_target(server, tell) as target:
        found, total = await target.attempts(run_id, rows_of(limit))
    print_attempts(found, as_json=as_json, total=total)


def print_attempts(found: Sequence[FailedAttempt], *, as_json: bool, total: int | None = None) -> None:
    """Print attempts that failed. Their tracebacks are in the JSON."""
    print_rows(found, _ATTEMPTS, as_json=as_json, nothing="no attempt has failed", total=total)


async def retry(
    group_id: GroupId,
    *,
    server: Server = None,
    hard: Annotated[bool, typer.Option("--hard", help="Put back all that is not completed, also what runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put the failed and cancelled steps of a run group back.

    A worker then takes them up: one that runs, or `si-cli worker --drain`.
    """
    async with open_target(server, tell) as target:
        retried = await target.retry(group_id, hard=hard)
        has_workers = server is not None and await target.has_workers()
    if as_json:
        print_json({"run_group_id": group_id, **fields_of(retried)})
    elif not retried.reset_runs:
        echo(f"{'everything is completed' if hard else 'nothing has failed'} in run group {group_id}")
    else:
        steps, runs = counted(retried.reset_steps, "step"), counted(retried.reset_runs, "run")
        hint = "" if has_workers else "; `si-cli worker --drain` does so if no worker runs"
        echo(f"{steps} of {runs} will be tried again{hint}")


def tell(text: str) -> None:
    """Print a message, which is no result, to standard error."""
    echo(text, err=True)


async def print_groups(limit: int, *, as_json: bool, batch_id: int | None = None) -> None:
    """Print the newest run groups. The database is open."""
    from soliplex.ingester.installation.values import Group
    from soliplex.ingester.lib.wf import views

    page = await views.list_run_groups(batch_id=batch_id, paging=page_of(limit))
    rows = [{**fields_of(group), "completed_runs": Group.of(group.model_dump()).completed_runs} for group in page.items]
    print_rows(rows, _GROUPS, as_json=as_json, nothing="no run groups", total=page.total)


def rows_of(limit: int) -> int:
    """How many rows to ask for; a limit of 0 means all that are read at once."""
    from soliplex.ingester.lib.pieces import LARGEST_PAGE

    return min(limit, LARGEST_PAGE) or LARGEST_PAGE


def page_of(limit: int) -> Paging:
    """The first rows of a list, as `rows_of` counts them."""
    from soliplex.ingester.lib.wf.views import Paging

    return Paging(1, rows_of(limit))


async def _newest_batches(limit: int) -> tuple[list[DocumentBatch], int]:
    """The newest batches. Batches are listed by their start, so the newest are on the last two pages."""
    from soliplex.ingester.lib import operations
    from soliplex.ingester.lib.wf.views import Paging

    size = rows_of(limit)
    first = await operations.list_batches(paging=page_of(limit))
    pages = range(max(1, first.total_pages - 1), first.total_pages + 1)
    found = [batch for page in pages for batch in (await operations.list_batches(paging=Paging(page, size))).items]
    return found[::-1][:size], first.total


def _print_group(group: Group, progress: GroupProgress, failures: list[Failure], blank: list[str]) -> None:
    out = console()
    ended = f", ended {as_cell(group.completed_date)}" if group.completed_date else ""
    out.print(
        f"run group {group.id}: {group.status}, {progress.completed:,} of {progress.total:,} runs completed{ended}"
    )
    about = f"workflow {group.workflow_definition_id}, parameters {group.param_definition_id}, batch {group.batch_id}"
    out.print(line(about))
    print_rows([_stage(each) for each in progress.stages], _STAGES, as_json=False, nothing="no steps")
    for uri in blank[:SHOWN_FAILURES]:
        out.print(line(f"■ {uri}: nothing to index, no text was found", "yellow"), soft_wrap=True)
    if len(blank) > SHOWN_FAILURES:
        out.print(f"and {len(blank) - SHOWN_FAILURES:,} more with nothing to index")
    for failure in failures:
        out.print(line(f"✗ {failure.uri}: {failure.stage}: {failure.reason}", "red"), soft_wrap=True)
    if progress.failed > len(failures):
        out.print(f"and {progress.failed - len(failures):,} more")
    if any(failure.can_retry for failure in failures) or progress.failed > len(failures):
        out.print(f"To try them again:  si-cli retry {group.id}")
    elif progress.failed:
        out.print("Trying again as they are cannot help: change the files, or delete them.", soft_wrap=True)


def _print_eta(eta: GroupEta | None) -> None:
    """How much longer the group takes; nothing, where that cannot be known."""
    from soliplex.ingester.cli.ingest.time_left import in_words

    if eta is not None and eta.seconds is not None:
        console().print(in_words(eta.seconds))


def _print_waiting(waiting: list[Waiting]) -> None:
    """Print why documents wait that will be tried again."""
    from soliplex.ingester.cli.ingest.display import in_words_of

    out = console()
    for each in waiting:
        out.print(line(in_words_of(each), "yellow"), soft_wrap=True)


def _print_coverage(coverage: GroupCoverage) -> None:
    """Print which PDFs were not read whole; nothing, if no PDF of the group has a text layer."""
    if coverage.coverage is None:
        return
    out = console()
    of = counted(coverage.documents, "PDF")
    out.print(f"text of {of}: {coverage.coverage:.2%} of {coverage.words:,} words were read")
    for each in coverage.lowest:
        missing = f"{counted(each.missing_words, 'word')} missing"
        out.print(line(f"{each.coverage:.2%}  {each.uri or f'run {each.run_id}'}: {missing}"), soft_wrap=True)


def _stage(each: StageProgress) -> dict[str, Any]:
    return {
        "step": each.name,
        "total": each.total,
        "completed": each.completed,
        "failed": each.failed,
        "cancelled": each.cancelled,
        "waiting": each.total - each.ended,
    }
