"""Fixtures of the tests of documents: the shipped workflows, and a store below the test's folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.storage import Artifacts, get_artifacts
from soliplex.ingester.lib.wf.catalog import get_registry, use_registry
from soliplex.ingester.lib.wf.registry import Registry


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    """The workflows and parameter sets of the checkout."""
    use_registry(None)
    yield get_registry()
    use_registry(None)


@pytest.fixture
def artifacts() -> Artifacts:
    """What the operations store into; the settings of a test point below its own folder."""
    assert get_settings().file_store_target == "fs"
    return get_artifacts()
