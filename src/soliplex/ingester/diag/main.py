"""The table of commands, and the entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.lazy import Group
from soliplex.ingester.cli.main import run_program

COMMANDS: dict[str, str | Group] = {
    "config": Group(
        "Workflows and parameter sets.",
        {
            "workflows": "soliplex.ingester.cli.definitions:list_workflows",
            "workflow-def": "soliplex.ingester.cli.definitions:dump_workflow",
            "params": "soliplex.ingester.cli.definitions:list_param_sets",
            "param-def": "soliplex.ingester.cli.definitions:dump_param_set",
        },
    ),
    "lancedb": Group(
        "RAG databases.",
        {
            "vacuum": "soliplex.ingester.cli.rag:vacuum",
            "vacuum-all": "soliplex.ingester.cli.rag:vacuum_all",
            "verify": "soliplex.ingester.cli.rag:verify_db",
        },
    ),
    "lock": Group(
        "Locks on RAG databases and other resources.",
        {
            "list": "soliplex.ingester.diag.locks:list_locks",
            "release": "soliplex.ingester.diag.locks:release_lock",
        },
    ),
    "worker": Group("Workers.", {"list": "soliplex.ingester.diag.workers:list_workers"}),
}

# Without markup: rich, with its Markdown and traceback renderers, would triple the time --help takes.
app = typer.Typer(name="si-diag", no_args_is_help=True, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from soliplex.ingester import __version__

        typer.echo(f"si-diag {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Look into an installation of Soliplex Ingester."""


def main() -> None:
    """Run `si-diag`."""
    run_program(app, COMMANDS, name="si-diag")
