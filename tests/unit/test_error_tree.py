"""The tree of errors that `lib/errors.py` draws has every error that the package raises on purpose, in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import soliplex.ingester
from soliplex.ingester.lib import errors
from soliplex.ingester.lib.errors import MissingPackageError
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.execution import message_of

SOURCE: Final = Path(soliplex.ingester.__file__).parent
ROOT: Final = "IngesterError"


def classes() -> dict[str, list[str]]:
    """Every class of the package, with the names of its bases."""
    trees = (ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py")))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases] for node in nodes}


def drawn() -> Iterator[tuple[str, str | None]]:
    """The errors of the drawing, each with the one that it is drawn below."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([ │├└─]*)([A-Z]\w+) ", line):
            depth = len(found[1]) // 4
            above = [*above[:depth], found[2]]
            yield found[2], above[depth - 1] if depth else None


def _is_error(name: str, bases: dict[str, list[str]]) -> bool:
    return name == ROOT or any(_is_error(base, bases) for base in bases.get(name, ()))


def test_every_error_is_drawn_below_one_that_it_derives_from() -> None:
    bases = classes()
    expected = {name for name in bases if _is_error(name, bases) and not name.startswith("_")}
    tree = dict(drawn())
    assert set(tree) == expected
    assert {name: above for name, above in tree.items() if above is not None and above not in bases[name]} == {}


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (MissingPackageError("onnxruntime", "the provider"), "onnxruntime: the package is not installed"),
        (PermanentError("the file is empty"), "the file is empty"),
        (ValueError("min() of nothing"), "ValueError: min() of nothing"),
        (KeyError(), "KeyError"),
    ],
)
def test_people_read_what_our_own_errors_say_without_the_names_of_their_classes(error: Exception, shown: str) -> None:
    assert message_of(error).startswith(shown)
