"""The table of commands, and the entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.lazy import Group
from soliplex.ingester.cli.main import run_program
from soliplex.ingester.cli.output import echo

COMMANDS: dict[str, str | Group] = {
    "batch": Group("Batches.", {"list": "soliplex.ingester.cli.groups:list_batches"}),
    "document": Group(
        "Documents.",
        {
            "list": "soliplex.ingester.diag.documents:list_documents",
            "find": "soliplex.ingester.diag.documents:find_documents",
            "info": "soliplex.ingester.diag.documents:document_info",
            "history": "soliplex.ingester.diag.documents:document_history",
        },
    ),
    "config": Group(
        "Workflows and parameter sets.",
        {
            "workflows": "soliplex.ingester.cli.definitions:list_workflows",
            "workflow-def": "soliplex.ingester.cli.definitions:dump_workflow",
            "params": "soliplex.ingester.cli.definitions:list_param_sets",
            "param-def": "soliplex.ingester.cli.definitions:dump_param_set",
        },
    ),
    "run-group": Group(
        "Groups of runs that were started together.",
        {
            "list": "soliplex.ingester.diag.runs:list_groups",
            "info": "soliplex.ingester.diag.runs:group_info",
            "steps": "soliplex.ingester.diag.runs:group_steps",
            "step-stats": "soliplex.ingester.diag.runs:group_step_stats",
        },
    ),
    "workflow": Group(
        "Workflow runs.",
        {
            "list": "soliplex.ingester.diag.runs:list_runs",
            "info": "soliplex.ingester.diag.runs:run_info",
            "reset": "soliplex.ingester.diag.runs:reset_run",
        },
    ),
    "status": Group(
        "What is going on.",
        {
            "running": "soliplex.ingester.diag.runs:running",
            "recent": "soliplex.ingester.diag.runs:recent",
            "details": "soliplex.ingester.cli.groups:status",
        },
    ),
    "lancedb": Group(
        "RAG databases.",
        {
            "vacuum": "soliplex.ingester.cli.rag:vacuum",
            "vacuum-all": "soliplex.ingester.cli.rag:vacuum_all_rag",
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

        echo(f"si-diag {__version__}")
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
