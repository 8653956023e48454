"""`si-cli fetch`: documents by their address."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.fetching import schemes_in_words
from tests.support.command_line import CommandLine


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing of it."""

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a web server with two pages."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# Page {name}\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched goes through a workflow that needs nothing."""
    monkeypatch.setenv("ALLOW_PRIVATE_ADDRESSES", "true")
    monkeypatch.setenv("DEFAULT_WORKFLOW_ID", "test_wf")
    monkeypatch.setenv("DEFAULT_PARAM_ID", "test_base")
    get_settings.cache_clear()


def test_documents_are_fetched_and_processed(commands: CommandLine, site: str) -> None:
    answer = commands("si-cli", "fetch", f"{site}/a.md", f"{site}/b.md", f"{site}/c.md")
    assert answer.code == 1
    assert "2 documents fetched and ingested, 1 failed (run group 1)" in answer.out
    assert f"✗ {site}/c.md: ingest: {site}/c.md cannot be fetched: the server answered 404" in answer.out
    group = commands.json("si-cli", "status")[0]
    assert (group["workflow_definition_id"], group["total_runs"], group["completed_runs"]) == ("fetch", 5, 4)


def test_what_cannot_be_an_address_is_refused(commands: CommandLine) -> None:
    answer = commands("si-cli", "fetch", "a.md")
    assert answer.code == 2
    assert f"error: uri: no scheme is not known; use {schemes_in_words()}" in answer.err
    assert "file://, " in schemes_in_words()
