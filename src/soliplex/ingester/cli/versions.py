"""Commands about the versions of a document: versions, diff, rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.groups import rows_of, tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import (
    AsJson,
    Limit,
    as_size,
    console,
    counted,
    fields_of,
    line,
    print_json,
    print_rows,
)
from soliplex.ingester.lib.visible import visible_lines

if TYPE_CHECKING:
    from soliplex.ingester.installation.following import Followed
    from soliplex.ingester.installation.protocol import Installation
    from soliplex.ingester.lib.answers import ChunkDiff, DiffedChunk, RolledBack, StoredVersion, VersionDiff

URI = Annotated[str, typer.Argument(metavar="URI", help="Where the document lives; for a file, its path.")]
Source = Annotated[str, typer.Option("--source", help="Where the document comes from.")]

_COLUMNS = {
    "version": "version",
    "current": "is_current",
    "when": "process_date",
    "what": "what",
    "batch": "batch_id",
    "size": "size",
    "type": "mime_type",
    "stored": "is_stored",
    "made of it": "made",
    "hash": "hash",
}
_SHORT_HASH = len("sha256-") + 12
_LONGEST_LINE = 160


async def versions(
    uri: URI, *, source: Source = "files", server: Server = None, limit: Limit = 50, as_json: AsJson = False
) -> None:
    """List the versions of a document, the newest first.

    A version that is stored can be rolled back to. The content of older versions goes with `cleanup-orphans`.
    """
    async with open_target(server, tell) as target:
        place = await known_uri(target, uri, source)
        found, total = await target.versions(place, source, rows_of(limit))
    rows = found if as_json else [_row(each) for each in found]
    print_rows(rows, _COLUMNS, as_json=as_json, nothing="no versions", total=total)


async def diff(
    uri: URI,
    *,
    source: Source = "files",
    from_version: Annotated[
        int | None, typer.Option("--from", min=1, metavar="VERSION", help="Default: the one before.")
    ] = None,
    to_version: Annotated[
        int | None, typer.Option("--to", min=1, metavar="VERSION", help="Default: the current one.")
    ] = None,
    context: Annotated[int, typer.Option("--context", "-U", min=0, help="Lines shown around each change.")] = 3,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show how two versions of a document differ.

    In its text, and in its chunks.
    """
    async with open_target(server, tell) as target:
        place = await known_uri(target, uri, source)
        found = await target.diff(place, source, from_version, to_version, context=context)
    if as_json:
        print_json(found)
    else:
        _print_diff(found)


async def rollback(
    uri: URI,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version to go back to.")],
    *,
    source: Source = "files",
    workflow: Annotated[
        str | None, typer.Option(metavar="ID", help="Workflow. Default: what processed it before.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(metavar="ID", help="Parameter set. Default: what it was processed with.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the knowledge base has followed.")] = True,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Roll a document back to an earlier version.

    It becomes the newest version. Nothing is parsed or embedded that is still stored from the first time. Exit code 1
    if it could not be stored again, 130 if the waiting was stopped: any worker then finishes it.
    """
    from soliplex.ingester.cli.watched_groups import exit_code_of, watch_groups
    from soliplex.ingester.installation.values import Work

    async with open_target(server, tell) as target:
        place = await known_uri(target, uri, source)
        done = await target.roll_back(place, source, version, Work(workflow_id=workflow, param_id=params))
        groups = [run.run_group_id for run in done.runs]
        followed = await watch_groups(target, groups) if wait and groups else None
    if as_json:
        print_json({**fields_of(done), "followed": followed})
    else:
        _print_roll_back(done, followed)
    raise typer.Exit(exit_code_of(followed) if followed else 0)


async def known_uri(target: Installation, uri: str, source: str) -> str:
    """The URI under which the installation knows the document that the user has named."""
    from soliplex.ingester.installation import known_uris

    return await known_uris.known_uri(target, uri, source, place=as_options)


def as_options(uri: str, source: str) -> str:
    """A place, as commands name it."""
    return f"{uri} (--source {source})"


def _row(each: StoredVersion) -> dict[str, Any]:
    facts = dict(fields_of(each))
    kinds = [str(kind).removeprefix("parsed_") for kind in each.artifacts if kind != "parsed_json"]
    back = "" if each.rolled_back_to is None else f"rolled back to {each.rolled_back_to}"
    size = None if each.file_size is None else as_size(each.file_size)
    made = ", ".join(kinds) or "nothing"
    return {**facts, "what": back or str(each.action), "size": size, "made": made, "hash": each.hash[:_SHORT_HASH]}


def _print_diff(found: VersionDiff) -> None:
    from rich.text import Text

    out = console()
    unified = found.text.unified.removesuffix("\n")
    if not unified:
        versions = f"versions {found.from_version} and {found.to_version}"
        out.print(line(f"The text of {versions} of {found.uri} is the same."), soft_wrap=True)
    # Not splitlines(): it takes other letters for the end of a line, and one could pretend to be two.
    for each in unified.split("\n") if unified else ():
        out.print(Text(visible_lines(each), style=_style_of(each)), soft_wrap=True)
    if not found.text.is_same_configuration:
        out.print("The two were parsed with different parameters, which may be why they differ.", style="yellow")
    if found.chunks is None:
        out.print("One of the two was never cut into chunks.")
    else:
        _print_chunks(found.chunks)


def _style_of(line: str) -> str:
    if line.startswith(("---", "+++")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _print_chunks(diff: ChunkDiff) -> None:
    out = console()
    out.print()
    out.print(
        f"chunks: {diff.kept:,} kept, {diff.added:,} added, {diff.removed:,} removed"
        + ("" if diff.is_same_configuration else " (cut with different parameters)"),
        style="bold",
    )
    for chunk in diff.chunks:
        if chunk.content is not None:
            sign, style = ("+", "green") if chunk.change == "added" else ("-", "red")
            out.print(line(f"{sign} {_place_of(chunk)}", style), soft_wrap=True)
            out.print(line(f"  {_shortened(chunk.content)}", "dim"), soft_wrap=True)


def _place_of(chunk: DiffedChunk) -> str:
    pages = ", ".join(map(str, chunk.page_numbers))
    return "  ·  ".join(filter(None, (" > ".join(chunk.headings), f"page {pages}" if pages else ""))) or "(no heading)"


def _shortened(content: str) -> str:
    text = " ".join(content.split())
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE].rsplit(' ', 1)[0]} …"


def _print_roll_back(done: RolledBack, followed: Followed | None) -> None:
    out = console()
    for text, style in _words_of(done, followed):
        out.print(line(text, style), soft_wrap=True)


def _words_of(done: RolledBack, followed: Followed | None) -> Sequence[tuple[str, str]]:
    if not done.is_changed:
        return [(f"{done.uri} has the content of version {done.rolled_back_to} already: nothing to do.", "")]
    words = f"{done.uri} has the content of version {done.rolled_back_to} again, as version {done.version}."
    groups = [run.run_group_id for run in done.runs]
    status = "  " + "; ".join(f"si-cli status {group_id}" for group_id in groups)
    if not done.runs:
        return [(f"✓ {words}", "green"), ("It was never processed, so there is nothing to be stored again.", "")]
    if followed is None:
        pending = f"{counted(len(done.runs), 'run')} will store it again; `si-cli worker --drain` does so if no worker"
        return [(f"✓ {words}", "green"), (f"{pending} runs. To see how far:{status}", "")]
    if followed.is_stopped:
        return [
            (words, ""),
            (f"It is not stored again yet; any worker goes on with it. To see how far:{status}", "yellow"),
        ]
    failures = [(f"✗ {each.stage}: {each.reason}", "red") for each in followed.failures]
    if followed.cancelled:
        failures.append((f"✗ {counted(followed.cancelled, 'run')} cancelled", "red"))
    if failures:
        advice = "What is found is the content from before, until it is stored. To try again:"
        retries = "; ".join(f"si-cli retry {group_id}" for group_id in groups)
        return [(words, ""), *failures, (f"{advice}  {retries}", "")]
    return [(f"✓ {words} Searches find it now.", "green")]
