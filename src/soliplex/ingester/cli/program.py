"""What `si-cli` and `si-diag` have in common: how a program begins, and how it ends when a command fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from soliplex.ingester.cli.lazy import Group, lazy_group
from soliplex.ingester.cli.output import echo
from soliplex.ingester.lib.errors import (
    ConfigurationError,
    ConflictError,
    IngesterError,
    InvalidInputError,
    LockedError,
    NotFoundError,
)

# The nearest class of an error's ancestry decides.
EXIT_CODES: dict[type[IngesterError], int] = {
    ConfigurationError: 2,
    LockedError: 2,
    InvalidInputError: 2,
    NotFoundError: 1,
    ConflictError: 1,
    IngesterError: 1,
}


def run_program(name: str, sentence: str, commands: Mapping[str, str | Group]) -> None:
    """Run the command that the command line names.

    An expected error becomes a line on standard error and an exit code; a bug keeps its traceback.
    """
    spare_imports()
    try:
        lazy_group(_app(name, sentence), commands)(prog_name=name)
    except IngesterError as error:
        _end_with(error)
    except Exception as error:
        trouble = _trouble_of_the_database(error)
        if trouble is None:
            raise
        _end_with(trouble)


def spare_imports() -> None:
    """Keep libraries from importing, or fetching, what nobody here uses: before they are imported themselves."""
    # haiku.rag brings a pydantic plugin of logfire, which pydantic would import in every command, slowly.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")
    # Nothing is fetched at run time; and that there is no torch, which transformers remarks upon, is as it should be.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    # httpx has a command of its own, which it does without where it cannot be imported: it would bring pygments along.
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]  None: cannot be imported


def _app(name: str, sentence: str) -> typer.Typer:
    # Without markup: rich, with its Markdown and traceback renderers, would make --help slow.
    app = typer.Typer(name=name, help=sentence, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_options)
    return app


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from soliplex.ingester import __version__

        echo(f"{context.info_name} {__version__}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before the command."""


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
