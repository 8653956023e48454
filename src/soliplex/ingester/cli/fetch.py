"""`si-cli fetch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, counted, echo, fields_of, print_json

if TYPE_CHECKING:
    from soliplex.ingester.installation.following import Followed

LONGEST_NAME = 200


async def fetch(
    uris: Annotated[list[str], typer.Argument(metavar="URI...", help="Addresses of documents.")],
    *,
    server: Server = None,
    workflow: Annotated[
        str | None, typer.Option(metavar="ID", help="One that begins with an ingest step. Default: fetch.")
    ] = None,
    params: Annotated[str | None, typer.Option(metavar="ID", help="Parameter set. Default: DEFAULT_PARAM_ID.")] = None,
    priority: Annotated[int, typer.Option(help="Work with a higher priority is done first.")] = 0,
    source: Annotated[str, typer.Option(help="Where the documents come from.")] = "web",
    batch_name: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the first address.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until all is processed.")] = True,
    as_json: AsJson = False,
) -> None:
    """Fetch documents by their address, and ingest them.

    A step of a workflow fetches them, so what may pass is tried again. Pages of the web need no setting; files must be
    allowed by INPUT_FILE_ROOTS, buckets by INPUT_S3. Exit code 1 if any document failed, 130 if it was stopped.
    """
    from soliplex.ingester.cli.watched_groups import exit_code_of, watch_groups
    from soliplex.ingester.installation.following import Followed
    from soliplex.ingester.installation.values import Work

    work = Work(workflow_id=workflow, param_id=params, priority=priority)
    async with open_target(server, tell) as target:
        batch_id = await target.create_batch(source, batch_name or uris[0][:LONGEST_NAME])
        started = await target.start_fetches(batch_id, uris, source=source, work=work)
        followed = await watch_groups(target, [started.group_id]) if wait else Followed()
        progress = await target.progress(started.group_id)
    if as_json:
        print_json(
            {
                "batch_id": batch_id,
                "run_group_id": started.group_id,
                "progress": progress,
                "failures": [fields_of(failure) for failure in followed.failures],
            }
        )
    else:
        _print(len(set(uris)), started.group_id, followed, is_waited_for=wait)
    raise typer.Exit(exit_code_of(followed))


def _print(addresses: int, group_id: int, followed: Followed, *, is_waited_for: bool) -> None:
    for failure in followed.failures:
        echo(f"✗ {failure.uri}: {failure.stage}: {failure.reason}")
    if not is_waited_for or followed.is_stopped:
        echo(f"{counted(addresses, 'document')} handed over to run group {group_id}; `si-cli status {group_id}`")
        return
    if (more := followed.failed - len(followed.failures)) > 0:
        echo(f"and {more:,} more; `si-cli status {group_id}`")
    lost = _unsuccessful(addresses, followed)
    end = "failed or cancelled" if followed.cancelled else "failed"
    others = f", {lost:,} {end}" if lost else ""
    echo(f"{counted(addresses - lost, 'document')} fetched and ingested{others} (run group {group_id})")


def _unsuccessful(addresses: int, followed: Followed) -> int:
    """How many addresses failed. One address may have two failed runs: one to fetch the document, one to process it."""
    if len(followed.failures) == followed.failed and not followed.cancelled:
        return len({failure.uri for failure in followed.failures})
    return min(followed.failed + followed.cancelled, addresses)
