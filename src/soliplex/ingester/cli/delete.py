"""`si-cli delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, counted, echo, line, print_json
from soliplex.ingester.lib.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soliplex.ingester.installation.protocol import Installation

FEW = 10
"""Documents that are deleted without a question, where each was named."""
LISTED = 20


async def delete(
    uris: Annotated[
        list[str] | None, typer.Argument(metavar="[URI]...", help="Where documents live; for files, their paths.")
    ] = None,
    *,
    source: Annotated[
        str | None, typer.Option("--source", help="Their source, by default files. Without URIs: all of this source.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be deleted, and stop.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Delete documents, or all of a source.

    What is stored of them goes, their versions and their entries in RAG databases too; a document that lives at
    another URI stays there. Deletes nothing if one of the URIs, or the source, is not known.
    """
    if not uris and source is None:
        raise typer.BadParameter("say which URIs, or with --source that all of a source is to go", param_hint="URI")
    async with open_target(server, tell) as target:
        chosen = await _chosen(target, uris or [], source or "files")
        deleted = 0
        if not dry_run:
            _see_that_it_is_meant(chosen, source or "files", is_whole=not uris, is_sure=yes)
            deleted = await target.delete(source or "files", chosen)
    if as_json:
        print_json({"source": source or "files", "uris": chosen, "deleted": deleted, "dry_run": dry_run})
    elif dry_run:
        _list(chosen)
    else:
        echo(f"{counted(deleted, 'document')} deleted")


async def _chosen(target: Installation, uris: Sequence[str], source: str) -> list[str]:
    from soliplex.ingester.cli.versions import as_options
    from soliplex.ingester.installation.known_uris import known_uris

    if not uris:
        found = await target.uris_below(source, "")
        if not found:
            raise NotFoundError("source", source)
        return found
    return await known_uris(target, uris, source, place=as_options)


def _see_that_it_is_meant(uris: Sequence[str], source: str, *, is_whole: bool, is_sure: bool) -> None:
    from soliplex.ingester.cli.asking import can_be_asked, is_confirmed

    if is_sure or (not is_whole and len(uris) <= FEW):
        return
    what = f"all {counted(len(uris), 'document')} of the source {source!r}" if is_whole else f"{len(uris):,} documents"
    if not can_be_asked():
        raise ConflictError(f"{what} would be deleted, and nobody can be asked here: add --yes if that is meant")
    if not is_confirmed(f"Delete {what}?"):
        raise typer.Abort


def _list(uris: Sequence[str]) -> None:
    out = console()
    for uri in uris[:LISTED]:
        out.print(line(uri), soft_wrap=True)
    if (more := len(uris) - LISTED) > 0:
        out.print(f"… and {more:,} more; --json lists all")
    out.print(f"{counted(len(uris), 'document')} would be deleted", style="bold")
