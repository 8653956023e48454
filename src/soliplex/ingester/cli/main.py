"""The table of commands, the table of exit codes, and the entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from soliplex.ingester.cli.lazy import Group, lazy_group
from soliplex.ingester.cli.output import echo
from soliplex.ingester.lib.errors import ConfigurationError, ConflictError, IngesterError, LockedError, NotFoundError

# A new command is one line: its name, and the function, coroutine function or Typer app that it is.
COMMANDS = {
    "bootstrap": "soliplex.ingester.cli.bootstrap:bootstrap",
    "validate-settings": "soliplex.ingester.cli.settings:validate_settings",
    "init-env": "soliplex.ingester.cli.settings:init_env",
    "db-init": "soliplex.ingester.cli.database:db_init",
    "init-config": "soliplex.ingester.cli.settings:init_config",
    "serve": "soliplex.ingester.cli.serve:serve",
    "worker": "soliplex.ingester.cli.worker:worker",
    "ingest": "soliplex.ingester.cli.ingest.command:ingest",
    "fetch": "soliplex.ingester.cli.fetch:fetch",
    "list-batches": "soliplex.ingester.cli.groups:list_batches",
    "status": "soliplex.ingester.cli.groups:status",
    "retry": "soliplex.ingester.cli.groups:retry",
    "search": "soliplex.ingester.cli.search:search",
    "versions": "soliplex.ingester.cli.versions:versions",
    "diff": "soliplex.ingester.cli.versions:diff",
    "rollback": "soliplex.ingester.cli.versions:rollback",
    "stats": "soliplex.ingester.cli.stats:stats",
    "list-workflows": "soliplex.ingester.cli.definitions:list_workflows",
    "dump-workflow": "soliplex.ingester.cli.definitions:dump_workflow",
    "list-param-sets": "soliplex.ingester.cli.definitions:list_param_sets",
    "dump-param-set": "soliplex.ingester.cli.definitions:dump_param_set",
    "vacuum": "soliplex.ingester.cli.rag:vacuum",
    "vacuum-all": "soliplex.ingester.cli.rag:vacuum_all",
    "verify-db": "soliplex.ingester.cli.rag:verify_db",
}

# The nearest class of an error's ancestry decides.
EXIT_CODES: dict[type[IngesterError], int] = {
    ConfigurationError: 2,
    LockedError: 2,
    NotFoundError: 1,
    ConflictError: 1,
    IngesterError: 1,
}

# Without markup: rich, with its Markdown and traceback renderers, would triple the time --help takes.
app = typer.Typer(name="si-cli", no_args_is_help=True, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from soliplex.ingester import __version__

        echo(f"si-cli {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Soliplex Ingester: turn documents into a searchable knowledge base."""


def main() -> None:
    """Run `si-cli`."""
    run_program(app, COMMANDS, name="si-cli")


def run_program(app: typer.Typer, commands: Mapping[str, str | Group], *, name: str) -> None:
    """Run a command line.

    An expected error becomes a line on standard error and an exit code; a bug keeps its traceback.
    """
    # haiku.rag brings a pydantic plugin of logfire, which every first use of pydantic would import: 1.4 s per command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")
    # Nothing is fetched at run time; and that there is no torch, which transformers remarks upon, is as it should be.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        lazy_group(app, commands)(prog_name=name)
    except IngesterError as error:
        _end_with(error)
    except Exception as error:
        trouble = _trouble_of_the_database(error)
        if trouble is None:
            raise
        _end_with(trouble)


def _end_with(error: IngesterError) -> NoReturn:
    _report(error)
    sys.exit(exit_code_of(error))


def _trouble_of_the_database(error: Exception) -> IngesterError | None:
    """What is the matter with the database, where that is what ended the command."""
    if "soliplex.ingester.lib.models" not in sys.modules:
        return None
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.models.troubles import in_words

    settings = get_settings()
    told = in_words(error, settings.doc_db_url, waited=settings.sqlite_busy_timeout_seconds)
    if told is not None:
        told.__cause__ = error
    return told


def exit_code_of(error: IngesterError) -> int:
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def _report(error: IngesterError) -> None:
    if _debug_is_on():
        import traceback

        traceback.print_exception(error)
    for line in str(error).splitlines():
        echo(f"error: {line}", err=True)


def _debug_is_on() -> bool:
    if "DEBUG" not in os.environ and not Path(".env").exists():
        return False
    from soliplex.ingester.lib.config import inspect_settings

    settings = inspect_settings().settings
    return settings is not None and settings.debug
