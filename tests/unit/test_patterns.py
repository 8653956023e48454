"""No regular expression of ours can be made to read a stranger's text in ever more ways, and so to hold a process."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.mime import UNKNOWN, detect_mime_type
from tests.support.ambiguity import is_ambiguous
from tests.support.snippets import ROOT

SOURCE = ROOT / "src" / "soliplex" / "ingester"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(a+)+b", True),
        (r"(a|aa)*b", True),
        (r"(\s*\s*)*x", True),
        (r"(?:x .*\r?\n)*y", True),
        (r"(?s:(?:<!--.*?-->\s*)*<)", True),
        (r"(?>(a+)+b)", True),
        (r"(?:x .*\n)*y", False),
        (r"(?s:(?:<!--.*?-->\s*)*+<)", False),
        (r"'([^'\\]|\\.)*'", False),
        (r"(\s*x)*", False),
        (r"a+b", False),
    ],
)
def test_a_loop_with_two_ways_around_is_known(pattern: str, *, expected: bool) -> None:
    assert is_ambiguous(re.compile(pattern)) is expected


def test_no_loop_of_ours_has_two_ways_around() -> None:
    found = {pattern: where for where, pattern in patterns()}
    assert not {where: pattern for pattern, where in found.items() if is_ambiguous(pattern)}


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        if "import re\n" in text:
            yield from _in_module(path.relative_to(SOURCE).with_suffix("").as_posix(), ast.parse(text))


def _in_module(name: str, tree: ast.Module) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """As they stand in the source, since importing all modules takes long; what is put together there is asked for."""
    has_others = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            given, call = node.args[0], ast.unparse(node)
            if isinstance(given, ast.Constant) and isinstance(given.value, str | bytes):
                flags = re.RegexFlag(0)
                for each in re.RegexFlag:
                    flags |= each if f"re.{each.name}" in call else 0
                yield f"{name}:{node.lineno}", re.compile(given.value, flags)
            else:
                has_others |= "re.escape" not in call
    if has_others:
        module = importlib.import_module(f"soliplex.ingester.{name.replace('/', '.')}".removesuffix(".__init__"))
        yield from ((f"{name}: {each.pattern!r}", each) for each in _in(list(vars(module).values())))


def _in(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    match value:
        case re.Pattern():
            yield value
        case list() | tuple() if depth:
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                yield from _in(each, depth - 1)  # pyright: ignore[reportUnknownArgumentType]
        case _ if depth and isinstance(getattr(value, "pattern", None), re.Pattern):
            yield value.pattern  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        case _:
            return


@pytest.mark.timeout(60)
@pytest.mark.parametrize("beginning", ["Note: it goes on\r\n", "<!-- a -->\n", "A: b\n", "%a\n"])
def test_a_text_of_many_lines_alike_has_its_kind_told_at_once(tmp_path: Path, beginning: str) -> None:
    text = beginning + "".join(f"{beginning[:1].strip('N%A')} goes on\r\n" for _ in range(200)) + beginning * 200 + "x"
    (tmp_path / "a").write_text(text)
    assert detect_mime_type(tmp_path / "a", "a") != UNKNOWN
