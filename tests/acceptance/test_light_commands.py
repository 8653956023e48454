"""Commands that ask a server start at once: they import nothing that only those need who do the work themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.serving import PATIENCE, Server, serving

HEAVY = {
    *("lancedb", "haiku", "docling", "docling_core", "numpy", "pandas", "pyarrow", "onnxruntime", "transformers"),
    *("sqlalchemy", "sqlmodel", "alembic", "fastapi", "uvicorn", "opendal", "pypdfium2", "PIL", "logfire", "pygments"),
    *("soliplex.ingester.lib.models", "soliplex.ingester.lib.operations", "soliplex.ingester.lib.rag"),
    *("soliplex.ingester.lib.search", "soliplex.ingester.lib.parsing", "soliplex.ingester.lib.wf.views"),
}
"""Packages that take a tenth of a second or more to import, and those of our own that import them."""

PROGRAM = """
import os
import sys
from soliplex.ingester.cli import main
try:
    main()
finally:
    with open(os.environ["MODULES_FILE"], "w") as file:
        file.write("\\n".join(sys.modules))
"""


@dataclass(frozen=True, slots=True)
class Called:
    """What a command in an interpreter of its own printed and imported."""

    code: int
    out: str
    err: str
    modules: frozenset[str]

    @property
    def heavy(self) -> list[str]:
        return sorted(self.modules & HEAVY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("light")
    with serving(folder, environment=_settings(folder)) as server:
        yield server


def _settings(folder: Path) -> dict[str, str]:
    return {"DATA_DIR": str(folder / "data"), "DOC_DB_URL": f"sqlite:///{folder}/light.db"}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Path:
    """Two documents that the server has ingested, one of them in two versions."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "other.md").write_text("# Snails\n\nThe snails creep along the wall.\n", encoding="utf-8")
    (folder / "owls.md.meta.json").write_text(json.dumps({"shelf": "birds"}), encoding="utf-8")
    for text in ("The owls sleep by day.", "The owls hunt by night."):
        (folder / "owls.md").write_text(f"# Owls\n\n{text}\n", encoding="utf-8")
        ingested = call(server, "ingest", str(folder), "--quiet")
        assert ingested.code == 0, ingested.err
        assert not ingested.heavy, "ingest"
    return folder


def call(server: Server, *arguments: str, environment: Mapping[str, str] | None = None) -> Called:
    modules = server.log.parent / f"modules-{os.getpid()}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=os.environ | {"INGESTER_SERVER": server.url, "MODULES_FILE": str(modules), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    imported = frozenset(modules.read_text(encoding="utf-8").splitlines())
    return Called(done.returncode, done.stdout, done.stderr, imported)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "owls"], "hunt by night"),
        (["search", "owls", "--json"], "hunt by night"),
        (["status"], "COMPLETED"),
        (["status", "1"], "run group 1"),
        (["top", "--once"], "no run group is under way"),
        (["status", "1", "--attempts"], "no attempt has failed"),
        (["signal", "order-17", "--payload", "{{}}"], "no step waits for it now"),
        (["webhooks", "list"], "no webhooks"),
        (["segment", "{folder}/owls.md", "--outline"], "owls.md: 1 article"),
        (["versions", "{folder}/owls.md"], "sha256-"),
        (["diff", "{folder}/owls.md"], "+The owls hunt by night."),
        (["retry", "1"], "nothing has failed"),
        (["delete", "{folder}/owls.md", "--dry-run"], "1 document would be deleted"),
        (["ingest", "{folder}"], "Nothing to do"),
        (["ingest", "{folder}", "--again", "--dry-run"], "Expected time"),
        (["ingest", "{folder}", "--again", "--no-wait"], "handed over"),
        (["rollback", "{folder}/owls.md", "2", "--no-wait"], "nothing to do"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_asks_a_server_imports_nothing_heavy(
    server: Server, papers: Path, arguments: list[str], expected: str
) -> None:
    called = call(server, *(each.format(folder=papers) for each in arguments))
    assert called.code == 0, called.err
    assert expected in called.out
    assert called.heavy == []


def test_a_search_of_this_installation_imports_no_more_than_a_search_needs(server: Server, papers: Path) -> None:
    called = call(server, "search", "owls", environment={"INGESTER_SERVER": "", **_settings(server.log.parent)})
    assert called.code == 0, called.err
    assert "hunt by night" in called.out
    assert not called.modules & {"haiku", "openai", "pydantic_ai", "logfire", "lance", "docling", "docling_core"}


@pytest.mark.parametrize("arguments", [["versions", "nowhere.md"], ["delete", "nowhere.md"], ["status", "4711"]])
def test_an_error_of_a_server_imports_nothing_heavy(server: Server, papers: Path, arguments: list[str]) -> None:
    called = call(server, *arguments)
    assert called.code == 1
    assert called.err.startswith("error: ")
    assert called.heavy == []


def test_a_failed_fetch_imports_nothing_heavy(server: Server, papers: Path) -> None:
    called = call(server, "fetch", "file:///nowhere/a.md")
    assert called.code in {1, 2}, called.err
    assert called.heavy == []
