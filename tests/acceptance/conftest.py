from __future__ import annotations

from collections.abc import Iterator

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.wf.catalog import use_registry
from tests.support.command_line import CommandLine


@pytest.fixture
def commands(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """`si-cli` and `si-diag` on a fresh database, with the shipped workflows."""
    monkeypatch.setenv("DOC_DB_URL", database_url)
    get_settings.cache_clear()
    use_registry(None)
    yield CommandLine(database_url, monkeypatch, capsys)
    use_registry(None)
