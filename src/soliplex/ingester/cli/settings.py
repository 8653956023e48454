"""Commands about settings and configuration files: validate-settings, init-env, init-config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.output import AsJson, console, echo, echo_lines, line, print_json, print_unwrapped, widths_of
from soliplex.ingester.lib.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from soliplex.ingester.lib.config import Report, Settings
    from soliplex.ingester.lib.config.fields import Leaf

STANDARD_OUTPUT = Path("-")


def validate_settings(*, as_json: AsJson = False) -> None:
    """Check every setting and show what is in force.

    If anything is wrong, every problem is shown with its fix, one line each, and the exit code is 1.
    """
    from soliplex.ingester.lib.config import inspect_settings

    report = inspect_settings()
    if as_json:
        print_json(_as_json(report))
    else:
        _print_report(report)
    if report.problems:
        raise typer.Exit(1)


def init_env(
    path: Annotated[Path, typer.Argument(help="File to write; - for standard output.")] = Path(".env"),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a .env that explains every setting.

    Each stands there as a comment, with its default and its meaning.
    """
    from soliplex.ingester.lib.config.reference import env_template

    if path == STANDARD_OUTPUT:
        echo_lines(env_template())
        return
    if path.exists() and not force:
        raise ConflictError(f"{path} exists already; --force replaces it")
    path.write_text(env_template(), encoding="utf-8")
    echo(f"wrote {path}")


def init_config(
    target: Annotated[Path, typer.Argument(help="Folder to copy into.")] = Path("config"),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace files that were changed.")] = False,
) -> None:
    """Copy the shipped workflows and parameters for editing."""
    from soliplex.ingester.lib.config import shipped_config_dir

    for kind in ("workflows", "params"):
        source = shipped_config_dir(kind)
        if not source.is_dir():
            raise NotFoundError("shipped configuration", str(source))
        for told in copy_files(source, target / kind, force=force):
            echo(told)


def copy_files(source: Path, target: Path, *, force: bool) -> Iterator[str]:
    """Copy every file of a folder, never over one that differs unless forced; tell what was done with each."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(path for path in source.iterdir() if path.is_file()):
        copy = target / file.name
        content = file.read_bytes()
        if not copy.exists():
            done = "created"
        elif copy.read_bytes() == content:
            yield f"unchanged {copy}"
            continue
        elif force:
            done = "replaced"
        else:
            yield f"kept {copy}, which differs from the shipped one; --force replaces it"
            continue
        copy.write_bytes(content)
        yield f"{done} {copy}"


def _print_report(report: Report) -> None:
    for warning in report.warnings:
        echo(f"warning: {warning}")
    for problem in report.problems:
        echo(str(problem))
    if report.settings is not None:
        _print_table(report.settings, report)


def _print_table(settings: Settings, report: Report) -> None:
    from rich.table import Table

    from soliplex.ingester.lib.config.fields import as_text
    from soliplex.ingester.lib.config.reference import settings_by_area

    def row(leaf: Leaf) -> tuple[str, str, str]:
        return leaf.name, as_text(leaf.value_in(settings)), report.origins[leaf.name]

    areas = [[row(leaf) for leaf in area] for area in settings_by_area().values()]
    table = Table("setting", "value", "from")
    for area in areas:
        table.add_section()
        for cells in area:
            table.add_row(*map(line, cells))
    out = console()
    if widths_of(table, out).maximum <= out.width:
        out.print(table)
    else:
        print_unwrapped(out, [(name, value, f"({origin})") for area in areas for name, value, origin in area])


def _as_json(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "settings": _effective(report.settings, report) if report.settings is not None else {},
        "problems": [asdict(problem) for problem in report.problems],
        "warnings": [asdict(warning) for warning in report.warnings],
    }


def _effective(settings: Settings, report: Report) -> dict[str, dict[str, str]]:
    from soliplex.ingester.lib.config.fields import as_text, leaves

    return {
        leaf.name: {"value": as_text(leaf.value_in(settings)), "from": report.origins[leaf.name]}
        for leaf in leaves(type(settings))
    }
