"""What is listed is there: parts in the drawing of the layers, files in packages, commands in tables."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.snippets import ROOT

SOURCE = ROOT / "src" / "soliplex" / "ingester"


def parts_of(folder: Path) -> set[str]:
    found = (path for path in folder.iterdir() if path.is_dir() or path.suffix == ".py")
    return {path.stem for path in found if not path.name.startswith("_")}


def test_every_part_of_the_source_is_drawn() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    drawing = page.partition("## The layers")[2].partition("## The decisions")[0]
    # A part stands at the beginning of its line, or after a dot behind its neighbour.
    lines = re.findall(r"^ {4}([a-z]\S*(?: · \S+)*)", drawing, re.MULTILINE)
    drawn = {name for line in lines for name in line.split(" · ")}
    names = {name.removeprefix("lib/").removesuffix(".py") for name in drawn}
    assert parts_of(SOURCE) | parts_of(SOURCE / "lib") == names | {"lib"}


def listed_by(package: Path) -> set[str]:
    said = ast.get_docstring(ast.parse(package.read_text("utf-8"))) or ""
    names = re.findall(r"^ {0,4}([a-z_]+)(?:\.py|/)?  +\S|  ([a-z_]+)\.py  +\S", said, re.MULTILINE)
    return {name for found in names for name in found if name}


def test_what_a_package_lists_is_in_its_folder() -> None:
    packages = sorted(SOURCE.rglob("__init__.py"))
    wrong = {str(package): listed_by(package) - parts_of(package.parent) for package in packages}
    assert {package: names for package, names in wrong.items() if names} == {}
    assert listed_by(SOURCE / "lib" / "rag" / "__init__.py") >= {"fencing", "searching"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/reference/index.md"])
def test_every_command_of_make_is_listed(page: str) -> None:
    commands = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    listed = "\n".join(line for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("| `make"))
    missing = [name for name in commands if not re.search(rf"`make {name}\b", listed)]
    # Who contributes sets up by the section above the list; help is `make` itself.
    assert set(missing) <= {"help", "setup"}
