"""No setting and no parameter that is shipped does nothing: each is read by some code, or says that it is not."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import soliplex.ingester
from soliplex.ingester.lib.chunking import ChunkOptions
from soliplex.ingester.lib.config import shipped_files
from soliplex.ingester.lib.config.fields import Leaf
from soliplex.ingester.lib.config.reference import settings_by_area
from soliplex.ingester.lib.embedding import EmbedOptions
from soliplex.ingester.lib.wf.definitions import parameter_set_from_yaml

SOURCE: Final = Path(soliplex.ingester.__file__).parent
CHECKS: Final = SOURCE / "lib" / "config"
"""What is checked there against other settings is not used by that alone."""
LEAVES: Final = [leaf for area in settings_by_area().values() for leaf in area]


def attributes_read(*, but_for: Path | None = None) -> Counter[str]:
    """How often each attribute is read anywhere in the source."""
    return Counter(
        node.attr
        for path in SOURCE.rglob("*.py")
        if but_for is None or not path.is_relative_to(but_for)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


READ: Final = attributes_read()
READ_BESIDE_CHECKS: Final = attributes_read(but_for=CHECKS)


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if not leaf.unused], ids=lambda leaf: leaf.name)
def test_a_setting_is_read_by_some_code(leaf: Leaf) -> None:
    assert READ[leaf.path[-1]], "read it, remove it, or say in its Field why it is `unused`"


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf.unused], ids=lambda leaf: leaf.name)
def test_a_setting_that_is_read_is_not_said_to_be_unused(leaf: Leaf) -> None:
    assert not READ_BESIDE_CHECKS[leaf.path[-1]], "it is used: remove its mark"
    assert leaf.unused in leaf.description


def test_every_parameter_of_the_shipped_sets_is_known_to_its_step() -> None:
    known = {
        "chunk": set(ChunkOptions.model_fields),
        "embed": set(EmbedOptions.model_fields),
        "store": {"data_dir"},
    }
    for path in sorted((shipped_files.shipped_config_dir("params")).glob("*.yaml")):
        config = parameter_set_from_yaml(path.read_bytes(), path=path).config
        for step, names in known.items():
            assert set(config.get(step, {})) <= names, f"{path.name}: {step}"
