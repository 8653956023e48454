"""`soliplex.ingester` is what users import: light, complete, documented, and the only thing documentation imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import soliplex.ingester
from tests.support.snippets import PAGES, ROOT, snippets_of

PAGE = ROOT / "docs" / "reference" / "python.md"
ALLOWED = re.compile(r"soliplex\.ingester(\.integrations(\.\w+)?)?")
LONGEST_IMPORT = 0.1
PROBE = """
import sys, time
before = set(sys.modules)
began = time.perf_counter()
import soliplex.ingester
took = time.perf_counter() - began
dir(soliplex.ingester)
print(took, *sorted({name for name in set(sys.modules) - before if name not in sys.stdlib_module_names}))
"""


def test_importing_it_takes_no_time_and_imports_nothing_else() -> None:
    # The best of three: the machine may be busy with something else.
    answers = [_probe() for _ in range(3)]
    assert min(float(took) for took, *_ in answers) < LONGEST_IMPORT
    for _, *modules in answers:
        ours = [name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names]
        assert set(ours) <= {"soliplex", "soliplex.ingester"}


def _probe() -> list[str]:
    found = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True)
    return found.stdout.split()


@pytest.mark.parametrize("name", soliplex.ingester.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(soliplex.ingester, name) is not None
    assert name in dir(soliplex.ingester)


def test_a_name_that_is_not_there_is_told_as_such() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Injester'"):
        soliplex.ingester.Injester  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]  that is the point


def test_type_checkers_are_told_the_same_origins_as_the_interpreter() -> None:
    assert soliplex.ingester.__file__ is not None
    tree = ast.parse(Path(soliplex.ingester.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = {alias.name: each.module for each in block.body if isinstance(each, ast.ImportFrom) for alias in each.names}
    assert told == soliplex.ingester._MODULE_OF
    assert {*told, "__version__"} == set(soliplex.ingester.__all__)
    assert soliplex.ingester.__all__ == sorted(soliplex.ingester.__all__)


def test_every_name_is_documented_and_every_documented_name_exists() -> None:
    page = PAGE.read_text("utf-8")
    cells = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    assert {*re.findall(r"`(\w+)`", cells), "__version__"} == set(soliplex.ingester.__all__)
    assert "`__version__`" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documentation_imports_from_the_front_door(page: Path) -> None:
    for snippet in snippets_of(page):
        if snippet.language == "python":
            modules = re.findall(r"^\s*(?:from|import) (soliplex[\w.]*)", snippet.text, re.MULTILINE)
            assert all(map(ALLOWED.fullmatch, modules)), snippet
