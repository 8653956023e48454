"""What takes part in the engine's work from above it is found by the settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wf import extensions
from soliplex.ingester.lib.wf.operations import belonging
from soliplex.ingester.lib.wf.runner import WorkerConfig

SHIPPED = "soliplex.ingester.lib.workflow.extension"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has loaded no extension yet."""
    monkeypatch.setattr(extensions, "_loaded", set[str]())
    monkeypatch.setattr(extensions, "_own_pools", {})
    monkeypatch.setattr(belonging, "_owner", [])
    known = sys.modules.pop(SHIPPED, None)
    yield
    # What was registered meanwhile is forgotten: whoever comes next and has not imported it yet must import it anew.
    sys.modules.pop(SHIPPED, None)
    if known is not None:
        sys.modules[SHIPPED] = known


def name_extensions(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    monkeypatch.setenv("ENGINE_EXTENSIONS", json.dumps(modules))
    get_settings.cache_clear()


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    (folder / "extension_of_a_test.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "extension_of_a_test", raising=False)
    return "extension_of_a_test"


def test_the_shipped_extension_gives_parse_store_and_webhook_steps_pools_of_their_own(
    apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCLING_CONCURRENCY", "7")
    monkeypatch.setenv("WORKER_TASK_COUNT", "2")
    get_settings.cache_clear()
    assert WorkerConfig().consumers == {"parse": 7, "store": 2, "webhook": 10, "*": 2}


def test_an_extension_of_ones_own_gives_a_type_of_steps_a_pool(
    apart: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module(
        tmp_path,
        monkeypatch,
        "from soliplex.ingester.lib.wf.extensions import own_pool\n"
        "own_pool('summarize', lambda settings: settings.worker_task_count + 1)\n",
    )
    monkeypatch.setenv("WORKER_TASK_COUNT", "4")
    name_extensions(monkeypatch, SHIPPED, module)
    assert WorkerConfig().consumers == {"parse": 3, "store": 4, "webhook": 10, "summarize": 5, "*": 4}


def test_an_extension_that_cannot_be_imported_is_told_with_the_setting(
    apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_extensions(monkeypatch, "no.such.extension")
    with pytest.raises(ConfigurationError, match=r"ENGINE_EXTENSIONS: the module 'no\.such\.extension' cannot be"):
        extensions.load_extensions(get_settings())


def test_the_owner_of_groups_is_looked_for_when_there_is_something_to_tell(
    apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(belonging.groups_began([None])) == []
    assert belonging._owner == []
    calls = [call.statement.name for call in belonging.groups_began([7, None, 7])]
    assert calls == ["reopen_batches"]
    calls = [call.statement.name for call in belonging.groups_ended([{"batch_id": 7}], NOW)]
    assert calls == ["lock_batches", "complete_batches"]


def test_without_extensions_nobody_is_told(apart: None, monkeypatch: pytest.MonkeyPatch) -> None:
    name_extensions(monkeypatch)
    assert list(belonging.groups_ended([{"batch_id": 7}], NOW)) == []
    assert WorkerConfig().consumers == {"*": 5}
