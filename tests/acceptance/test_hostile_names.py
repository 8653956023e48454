"""What strangers wrote, in names, titles, reasons and texts, steers no terminal: it is shown as what it is."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.cli.ingest.display import LiveDisplay
from soliplex.ingester.cli.output import console, echo, print_facts, print_json, print_rows
from soliplex.ingester.installation.stages import Stage
from soliplex.ingester.installation.values import Failure
from soliplex.ingester.lib.config import get_settings, load_settings
from soliplex.ingester.lib.logs import configure_logging
from soliplex.ingester.lib.models import ArtifactType, ResourceLockKind
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.visible import visible, visible_json, visible_lines
from soliplex.ingester.lib.wf import operations
from tests.integration.test_rag import IDENTITY, document
from tests.support.command_line import Answer, CommandLine
from tests.support.documents import hash_of
from tests.support.engine import rows_of

ROOT = Path(__file__).parents[2]
HOSTILE = (
    "a\x1b]0;owned\x07\x1b[2J\x9b31m\x85\u202egpj\u2066\u2028[link=http://evil.example]x[/link]:x:\rgone\nfake\x7f"
)
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def see_harmless(shown: str, what: object) -> None:
    found = STEERING.search(shown)
    assert found is None, f"{what} printed {found[0]!r} in {shown!r}"
    assert not any(line.startswith(("fake", "gone")) for line in shown.splitlines()), f"{what}: {shown!r}"


@pytest.fixture
def run(commands: CommandLine) -> Callable[..., Answer]:
    """Call a command, for people and with --json, and see that neither harms."""

    def run_and_see(*arguments: str, as_json: bool = True) -> Answer:
        answer = commands(*arguments)
        see_harmless(answer.out + answer.err, arguments)
        if as_json:
            in_json = commands(*arguments, "--json")
            see_harmless(in_json.out + in_json.err, (*arguments, "--json"))
        return answer

    return run_and_see


@pytest.fixture
def workflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow whose step fails with the document's own words."""
    folder = tmp_path / "workflows"
    folder.mkdir()
    step = f"{{name: read, method: {__name__}.fail_hostilely, retries: 1}}"
    (folder / "hostile.yaml").write_text(f"id: hostile\nitem_steps:\n  validate: {step}\n")
    monkeypatch.setenv("WORKFLOW_DIR", str(folder))
    get_settings.cache_clear()


async def fail_hostilely() -> None:
    raise ValueError(f"cannot read {HOSTILE}")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    path = folder / f"{HOSTILE.replace('/', '|')}.md"
    path.write_text(f"# {HOSTILE}\n\nFirst.\n")
    monkeypatch.chdir(tmp_path)
    return path


@on_sqlite
@pytest.mark.usefixtures("workflows")
def test_no_command_about_documents_prints_what_steers(
    run: Callable[..., Answer], commands: CommandLine, file: Path
) -> None:
    options = ("--workflow", "hostile", "--source", HOSTILE, "--batch-name", HOSTILE)
    run("si-cli", "ingest", str(file.parent), *options, "--dry-run")
    ingested = run("si-cli", "ingest", str(file.parent), *options, as_json=False)
    assert ingested.code == 1, ingested.err
    assert r"a\x1b]0;owned" in ingested.out, "the name is shown, not left out"
    assert r"cannot read a\x1b]0;owned" in ingested.err + ingested.out

    (group,) = commands.json("si-cli", "status")
    (run_row,) = commands.json("si-diag", "workflow", "list")
    (found,) = commands.json("si-diag", "document", "find", "owned")
    assert found["uri"] == str(file), "JSON says exactly what is stored"
    group_id, run_id = str(group["id"]), str(run_row["id"])
    for words in (
        ("si-cli", "status"),
        ("si-cli", "status", group_id),
        ("si-cli", "list-batches"),
        ("si-cli", "stats"),
        ("si-cli", "stats", group_id),
        ("si-cli", "versions", str(file), "--source", HOSTILE),
        ("si-cli", "versions", "owned", "--source", HOSTILE),
        ("si-cli", "diff", str(file), "--source", HOSTILE),
        ("si-cli", "retry", group_id),
        ("si-diag", "batch", "list"),
        ("si-diag", "document", "list", "--source", HOSTILE),
        ("si-diag", "document", "find", "owned"),
        ("si-diag", "document", "info", found["doc_hash"]),
        ("si-diag", "document", "history", found["doc_hash"]),
        ("si-diag", "run-group", "list"),
        ("si-diag", "run-group", "info", group_id),
        ("si-diag", "run-group", "steps", group_id),
        ("si-diag", "workflow", "list"),
        ("si-diag", "workflow", "info", run_id),
        ("si-diag", "status", "recent"),
        ("si-diag", "status", "details", group_id),
    ):
        answer = run(*words)
        assert "Traceback" not in answer.err, answer.err


@on_sqlite
def test_no_text_or_chunk_in_a_diff_steers(run: Callable[..., Answer], commands: CommandLine, file: Path) -> None:
    contents = [f"# {HOSTILE}\n\nFirst {HOSTILE}.\n", f"# {HOSTILE}\n\nSecond {HOSTILE}.\n"]
    for content in contents:
        file.write_text(content)
        assert commands("si-cli", "ingest", str(file), "--workflow", "test_wf", "--params", "test_base").code == 0
    commands.given(_pretend_that_it_was_parsed([file.read_bytes(), contents[0].encode()]))
    shown = run("si-cli", "diff", str(file))
    assert shown.code == 0, shown.err
    assert r"+Second a\x1b]0;owned" in shown.out
    run("si-cli", "diff", str(file), "--from", "2", "--to", "2")
    run("si-cli", "rollback", str(file), "1", as_json=False)
    run("si-cli", "versions", str(file))


async def _pretend_that_it_was_parsed(contents: list[bytes]) -> None:
    configs = dict(await rows_of("SELECT step_type, step_config_id FROM runstep"))
    for content in contents:
        chunk = {"id": "c", "content": content.decode(), "metadata": {"headings": [HOSTILE], "page_numbers": [4]}}
        doc_hash = hash_of(content)
        await get_artifacts().write(doc_hash, ArtifactType.PARSED_MD, configs["parse"], content)
        await get_artifacts().write(doc_hash, ArtifactType.CHUNKS, configs["chunk"], json.dumps([chunk]).encode())


@on_sqlite
def test_no_passage_that_is_found_steers(run: Callable[..., Answer], tmp_path: Path) -> None:
    import asyncio
    from dataclasses import replace

    from soliplex.ingester.lib.rag.fencing import SoleWriter
    from soliplex.ingester.lib.rag.writing import write_documents

    hostile = replace(document("bees", f"bees {HOSTILE}", source=HOSTILE), title=HOSTILE, uri=f"/{HOSTILE}")
    asyncio.run(write_documents(tmp_path / "made", IDENTITY, [hostile], fence=SoleWriter()))
    shutil.copytree(tmp_path / "made", rag_path("library"))
    shown = run("si-cli", "search", "bees", "--db", "library", "--kind", "text")
    assert shown.code == 0, shown.err
    assert shown.out.count(r"a\x1b]0;owned") >= 3, "title, URI and passage"


@on_sqlite
def test_no_holder_of_a_lock_and_no_worker_steers(run: Callable[..., Answer], commands: CommandLine) -> None:
    commands.given(operations.acquire_resource_lock(f"rag:{HOSTILE}", HOSTILE, ResourceLockKind.CLI))
    commands.given(operations.check_in("w1", hostname=HOSTILE, pid=7))
    run("si-diag", "lock", "list")
    run("si-diag", "worker", "list")
    run("si-cli", "stats")
    run("si-diag", "lock", "release", f"rag:{HOSTILE}", as_json=False)
    run("si-diag", "lock", "release", f"rag:{HOSTILE}", as_json=False)  # the error that there is none


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_only_our_own_colours_and_bars_are_control_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    out = console(stderr=True)
    assert out.is_terminal
    with LiveDisplay(out) as display:
        stage = Stage(name=HOSTILE, total=2, done=1, failed=1)
        display.show(stage)
        display.failed(Failure(HOSTILE, HOSTILE, HOSTILE, run_group_id=1))
        display.end(stage)
    out.print(HOSTILE.replace("\n", ""))
    written = terminal.getvalue()
    assert "\x1b[" in written, "there are colours and bars"
    own = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", written)
    see_harmless(own, "the display")
    assert "\x1b[2J" not in written
    assert "\x1b]" not in written, "no window title, and no link made of markup"
    assert r"a\x1b]0;owned" in own


def test_tables_facts_and_json_hold_what_they_were_given(capsys: pytest.CaptureFixture[str]) -> None:
    value: dict[str, Any] = {"name": HOSTILE, "nested": {HOSTILE: [HOSTILE]}}
    print_rows([value], {"name": "name", "nested": "nested"}, as_json=False, nothing="none")
    print_facts(value | {HOSTILE: 1}, as_json=False)
    echo(HOSTILE)
    see_harmless(capsys.readouterr().out, "tables")
    print_json(value | {"half": "\udc9b"})
    printed = capsys.readouterr().out
    see_harmless(printed, "JSON")
    assert json.loads(printed) == value | {"half": "\udc9b"}


def test_what_is_harmless_stays_as_it_is() -> None:
    for text in ("plain", "Müller, Зимний, 日本語, العربية, 👩‍👩‍👧, Größe\u00a01", ""):
        assert visible(text) == visible_lines(text) == visible_json(text) == text
    assert visible_lines("a\tb\nc") == "a\tb\nc"
    assert visible("a\tb\nc\x1b\u202e") == r"a\tb\nc\x1b\u202e"


def test_no_log_for_people_steers(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        configure_logging(load_settings(log_format="console"))
        error = ValueError(HOSTILE.replace("\n", " "))
        logging.getLogger("soliplex.test").error("failed on %s", HOSTILE, exc_info=error, extra={"uri": HOSTILE})
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    see_harmless(stream.getvalue(), "the log")
    assert r"failed on a\x1b]0;owned" in stream.getvalue()


def test_every_command_prints_through_the_one_place() -> None:
    folder = ROOT / "src" / "soliplex" / "ingester"
    modules = [*folder.joinpath("cli").rglob("*.py"), *folder.joinpath("diag").rglob("*.py")]
    elsewhere = re.compile(
        r"typer\.s?echo\(|click\.|(?<![\w.])print\(|rich\.print|\bConsole\(|sys\.std(out|err)\.write"
    )
    found = {
        f"{module.relative_to(folder)}: {line.strip()}"
        for module in modules
        if module.name != "output.py"
        for line in module.read_text(encoding="utf-8").splitlines()
        if elsewhere.search(line)
    }
    assert found == set()
