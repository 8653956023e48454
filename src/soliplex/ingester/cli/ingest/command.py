"""`si-cli ingest`: arguments in, summary and exit code out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, line, print_json

if TYPE_CHECKING:
    from soliplex.ingester.cli.ingest.display import Display
    from soliplex.ingester.cli.ingest.ingestion import Order
    from soliplex.ingester.cli.ingest.summary import Summary

LONGEST_NAME = 200


async def ingest(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", exists=True, help="Folders to walk, and files to take.")
    ],
    *,
    server: Server = None,
    workflow: Annotated[str | None, typer.Option(metavar="ID", help="Workflow. Default: DEFAULT_WORKFLOW_ID.")] = None,
    params: Annotated[str | None, typer.Option(metavar="ID", help="Parameter set. Default: DEFAULT_PARAM_ID.")] = None,
    priority: Annotated[int, typer.Option(help="Work with a higher priority is done first.")] = 0,
    source: Annotated[
        str, typer.Option(help="Where the files come from; machines that send to one server need one each.")
    ] = "files",
    batch_name: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the paths.")] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Take only files that match, as in .gitignore.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Leave out what matches, as in .gitignore.")
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Take hidden files and folders too.")] = False,
    gitignore: Annotated[bool, typer.Option(help="Leave out what .gitignore files name.")] = True,
    follow_links: Annotated[bool, typer.Option("--follow-links", help="Follow symbolic links.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also ingest what is unchanged.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be processed and how long it would take, and stop.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until all is processed.")] = True,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Uploads at the same time.")] = 8,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ingest files and folders, and show how it goes.

    Files that have not changed since they were last ingested are skipped. Ctrl-C stops gracefully; the same command,
    called again, goes on where it stopped. Exit code 1 if any document failed, 130 if it was stopped.
    """
    from soliplex.ingester.cli.ingest.files import Rules
    from soliplex.ingester.cli.ingest.ingestion import Order
    from soliplex.ingester.cli.ingest.target import Work

    rules = Rules(
        include=include or (),
        exclude=exclude or (),
        hidden=hidden,
        gitignore=gitignore,
        follow_links=follow_links,
    )
    order = Order(
        paths=paths,
        rules=rules,
        source=source,
        batch_name=batch_name or name_of_batch(paths),
        work=Work(workflow_id=workflow, param_id=params, priority=priority),
        again=again,
        dry_run=dry_run,
        wait=wait,
        uploads_at_once=jobs,
    )
    summary = await _carry_out(order, server, _display(quiet=quiet))
    if as_json:
        print_json(summary.as_json())
    else:
        _print(summary, server)
    raise typer.Exit(summary.exit_code)


def name_of_batch(paths: list[Path]) -> str:
    """The paths: the same call later finds the batch it left unfinished by it."""
    name = ", ".join(sorted({path.absolute().as_posix() for path in paths}))
    if len(name) <= LONGEST_NAME:
        return name
    import hashlib

    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{name[:LONGEST_NAME]}… ({digest})"


async def _carry_out(order: Order, server: str | None, display: Display) -> Summary:
    from soliplex.ingester.cli.ingest.ingestion import Ingestion
    from soliplex.ingester.cli.stopping import stopping_on_signals

    def say_that_we_stop() -> None:
        display.say("Stopping: what is under way may finish. Ctrl-C again stops at once.", "yellow")

    with display, stopping_on_signals(first=say_that_we_stop, second=_show_cursor) as stopping:
        async with open_target(server, lambda text: display.say(text, "yellow")) as target:
            return await Ingestion(order, target, display, stopping).run()


def _display(*, quiet: bool) -> Display:
    from soliplex.ingester.cli.ingest.display import SilentDisplay, display_for

    return SilentDisplay() if quiet else display_for(console(stderr=True))


def _show_cursor() -> None:
    """The bars hide it, and nothing else brings it back when the process ends at once."""
    console(stderr=True).show_cursor(True)


def _print(summary: Summary, server: str | None) -> None:
    from soliplex.ingester.cli.ingest.summary import in_words

    out = console()
    again = shlex.join(["si-cli", *sys.argv[1:]])
    for words, style in in_words(summary, again=again, elsewhere=f" --server {server}" if server else ""):
        out.print(line(words, style), soft_wrap=True)
