"""`si-cli ingest`: arguments in, summary and exit code out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, line, print_json
from soliplex.ingester.lib.errors import InvalidInputError

if TYPE_CHECKING:
    from soliplex.ingester.cli.ingest.display import Display
    from soliplex.ingester.installation.missing import Missing
    from soliplex.ingester.installation.order import Order
    from soliplex.ingester.installation.summary import Summary

STOPPED_AT_ONCE: Final = "Stopped at once. The same command, called again, goes on."


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
    all_folders: Annotated[
        bool, typer.Option("--all-folders", help="Walk node_modules, .git, caches and virtual environments too.")
    ] = False,
    follow_links: Annotated[bool, typer.Option("--follow-links", help="Follow symbolic links.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also ingest what is unchanged.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be processed and how long it would take, and stop.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what failed before and is unchanged.")
    ] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete what is known of the folders and gone from them.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --delete-missing: also if most of it is gone, or was not readable.")
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
    from soliplex.ingester.cli.ingest.summary_words import exit_code_of
    from soliplex.ingester.installation.local_files import Rules
    from soliplex.ingester.installation.order import Order
    from soliplex.ingester.installation.values import Work

    rules = Rules(
        include=include or (),
        exclude=exclude or (),
        hidden=hidden,
        gitignore=gitignore,
        follow_links=follow_links,
        all_folders=all_folders,
    )
    try:
        order = Order(
            paths=paths,
            rules=rules,
            source=source,
            batch_name=batch_name,
            work=Work(workflow_id=workflow, param_id=params, priority=priority),
            again=again,
            dry_run=dry_run,
            retry_failed=retry_failed,
            delete_missing=delete_missing,
            force=force,
            wait=wait,
            uploads_at_once=jobs,
        )
    except InvalidInputError as error:
        raise typer.BadParameter(error.problem, param_hint=f"--{error.field.replace('_', '-')}") from None
    summary = await _carry_out(order, server, _display(quiet=quiet))
    if as_json:
        print_json(summary.as_json())
    else:
        _print(summary, server)
    raise typer.Exit(exit_code_of(summary))


async def _carry_out(order: Order, server: str | None, display: Display) -> Summary:
    from soliplex.ingester.cli.ingest.display import undisturbed
    from soliplex.ingester.cli.stop_signals import stopping_on_signals
    from soliplex.ingester.installation.ingestion import Ingestion, delete_gone

    def say_that_we_stop() -> None:
        display.say("Stopping: what is under way may finish. Ctrl-C again stops at once.", "yellow")

    async with open_target(server, lambda text: display.say(text, "yellow")) as target:
        with (
            undisturbed(display),
            stopping_on_signals(first=say_that_we_stop, parting=STOPPED_AT_ONCE) as stopping,
        ):
            summary = await Ingestion(order, target, display, stopping).run()
        await delete_gone(order, target, summary, refusal=lambda missing: _refusal(missing, dry_run=order.dry_run))
        return summary


def _refusal(missing: Missing, *, dry_run: bool) -> str | None:
    """Why missing files are not to be deleted. A person may overrule that they are many, and no other reason."""
    from soliplex.ingester.cli.asking import can_be_asked, is_confirmed

    if missing.doubt is None:
        return None
    if missing.obstacles or dry_run or not can_be_asked():
        return f"{missing.doubt}; --force deletes them all the same"
    return None if is_confirmed(f"{missing.share}. Delete what is known of them?") else "you said no"


def _display(*, quiet: bool) -> Display:
    from soliplex.ingester.cli.ingest.display import SilentDisplay, display_for

    return SilentDisplay() if quiet else display_for(console(stderr=True))


def _print(summary: Summary, server: str | None) -> None:
    from soliplex.ingester.cli.ingest.summary_words import in_words

    out = console()
    again = shlex.join(["si-cli", *sys.argv[1:]])
    for words, style in in_words(summary, again=again, elsewhere=f" --server {server}" if server else ""):
        out.print(line(words, style), soft_wrap=True)
