"""`si-diag`, which looks into an installation: its batches, documents, runs, locks and databases."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app", "main"]

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
    app(prog_name="si-diag")
