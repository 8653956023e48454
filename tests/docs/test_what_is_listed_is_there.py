"""The drawing of the layers holds every part of the source, and the lists of make's commands every command."""

from __future__ import annotations

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


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/reference/index.md"])
def test_every_command_of_make_is_listed(page: str) -> None:
    commands = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    listed = "\n".join(line for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("| `make"))
    missing = [name for name in commands if not re.search(rf"`make {name}\b", listed)]
    # Who contributes sets up by the section above the list; help is `make` itself.
    assert set(missing) <= {"help", "setup"}
