"""ARCHITECTURE.md and the pages that it leads to name no file that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "soliplex" / "ingester"
PAGES: Final = ("ARCHITECTURE.md", *(f"docs/explanation/{it}.md" for it in ("engine", "documents", "installation")))
BELOW: Final = (ROOT, SOURCE, SOURCE / "lib", SOURCE / "lib" / "wf", SOURCE / "goals", ROOT / "docs" / "reference")
"""The folders from which these pages name files."""


def named_files(page: str) -> Iterator[str]:
    """What a page names in the form of a file: with a slash in it, or an extension."""
    for code in re.findall(r"`([^`/][^`]*)`", (ROOT / page).read_text()):
        if re.fullmatch(r"[\w./-]+(/|\.(py|md|json|css|ts|toml|svelte))", code) or re.fullmatch(
            r"[a-z_]+(/[a-z_]+)+", code
        ):
            yield code


def is_there(name: str) -> bool:
    if name.startswith("test_"):
        return any((ROOT / "tests").rglob(name))
    if any((folder / name).exists() or (folder / f"{name}.py").exists() for folder in BELOW):
        return True
    return "/" not in name.rstrip("/") and any((ROOT / "src").rglob(name.rstrip("/")))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_is_there(page: str) -> None:
    names = set(named_files(page))
    assert names
    assert {name for name in names if not is_there(name)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text())
    assert {link for link in links if not ((ROOT / page).parent / link).exists()} == set()
