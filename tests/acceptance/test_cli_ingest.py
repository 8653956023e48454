from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.config import get_settings, shipped_config_dir
from tests.support.command_line import CommandLine
from tests.support.files import zipped
from tests.support.serving import serving

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
TEST_WORKFLOW = ("--workflow", "test_wf", "--params", "test_base")
FAILING_WORKFLOW = ("--workflow", "test_wf_fail", "--params", "test_base")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "sub/c.md"):
        (folder / name).write_text(f"# {name}\n\nText of {name}.\n")
    return folder


def ingest(commands: CommandLine, *arguments: str) -> dict[str, Any]:
    return commands("si-cli", "ingest", *arguments, "--json").json


def test_files_are_ingested_once(commands: CommandLine, docs: Path) -> None:
    first = commands("si-cli", "ingest", str(docs), *TEST_WORKFLOW)
    assert first.code == 0, first.err
    assert first.out.startswith("✓ 3 documents ingested in ")
    assert "Uploading: 3/3" in first.err
    assert "store: 3/3" in first.err

    second = commands("si-cli", "ingest", str(docs), *TEST_WORKFLOW)
    assert (second.code, second.out) == (0, "✓ Nothing to do: all 3 files are unchanged.\n")
    assert "Uploading" not in second.err
    assert len(commands.json("si-cli", "list-batches")) == 1


def test_a_changed_file_gets_a_new_version_and_the_rest_is_left_alone(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    (docs / "a.md").write_text("# changed\n")
    summary = ingest(commands, str(docs), *TEST_WORKFLOW)
    assert summary["files"] == {"found": 3, "new": 0, "changed": 1, "unchanged": 2, "left_out": {}}
    assert (summary["uploaded"], summary["runs"]["total"], summary["status"]) == (1, 1, "ok")
    (row,) = commands.json("si-diag", "document", "find", "docs/A.MD")
    assert (row["version"], row["batch_id"]) == (2, summary["batch_id"])


def test_files_with_the_same_content_are_one_document(commands: CommandLine, docs: Path) -> None:
    (docs / "copy.md").write_bytes((docs / "a.md").read_bytes())
    summary = ingest(commands, str(docs), *TEST_WORKFLOW)
    assert (summary["uploaded"], summary["runs"]["completed"]) == (4, 3)


def test_the_files_in_an_archive_are_documents_of_their_own(commands: CommandLine, docs: Path) -> None:
    archive, broken = docs / "sub" / "old.zip", docs / "broken.tar"
    archive.write_bytes(zipped({"d.md": "# d\n", "in/e.md": "# e\n"}))
    broken.write_bytes(b"no archive")
    first = commands("si-cli", "ingest", str(docs), *TEST_WORKFLOW, "--json")
    assert (first.code, first.json["uploaded"], first.json["runs"]["completed"]) == (1, 5, 5)
    assert "the archive is damaged or cut off; get it again" in str(first.json["failures"])
    (row,) = commands.json("si-diag", "document", "find", "old.zip!/in/e.md")
    assert row["uri"] == f"{archive.as_posix()}!/in/e.md"

    broken.unlink()
    archive.write_bytes(zipped({"in/e.md": "# e, changed\n"}))
    second = ingest(commands, str(docs), *TEST_WORKFLOW, "--delete-missing", "--force")
    assert (second["files"]["changed"], second["files"]["unchanged"]) == (1, 3)
    assert second["deleted"] == 1
    assert known(commands) == ["a.md", "b.md", "c.md", "e.md"]


def test_failures_are_told_with_their_reasons_and_can_be_retried(commands: CommandLine, docs: Path) -> None:
    answer = commands("si-cli", "ingest", str(docs), *FAILING_WORKFLOW)
    assert answer.code == 1
    assert "chunk: RuntimeError: this step always fails" in answer.err
    assert "✗ 0 documents ingested, 3 failed" in answer.out
    assert "✗ 3 at chunk: RuntimeError: this step always fails" in answer.out

    unchanged = commands("si-cli", "ingest", str(docs), *FAILING_WORKFLOW)
    assert (unchanged.code, "3 failed before, at chunk: RuntimeError" in unchanged.out) == (1, True)
    assert "--retry-failed" in unchanged.out
    retried = ingest(commands, str(docs), *FAILING_WORKFLOW, "--retry-failed")
    assert (retried["retried"], retried["runs"]["failed"], retried["uploaded"]) == (3, 3, 0)

    (group,) = commands.json("si-cli", "status")
    shown = commands("si-cli", "status", str(group["id"]))
    assert shown.code == 1
    assert "chunk 3 0 3 0 0" in shown.words
    assert f"si-cli retry {group['id']}" in shown.out

    assert "9 steps of 3 runs will be tried again" in commands("si-cli", "retry", str(group["id"])).out
    # What was put back belongs to the batch again: the same command works it off.
    again = ingest(commands, str(docs), *FAILING_WORKFLOW)
    assert (again["uploaded"], again["run_group_id"], again["runs"]["failed"]) == (0, group["id"], 3)


def test_another_workflow_is_run_on_what_is_unchanged_on_demand(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    summary = ingest(commands, str(docs), *FAILING_WORKFLOW, "--again")
    assert (summary["files"]["unchanged"], summary["uploaded"], summary["runs"]["failed"]) == (3, 3, 3)


def test_patterns_choose_files(commands: CommandLine, docs: Path) -> None:
    (docs / "notes.txt").write_text("notes")
    options = ("--include", "*.md", "--exclude", "sub/", "--dry-run")
    summary = ingest(commands, str(docs), *options, *TEST_WORKFLOW)
    assert [Path(path).name for path in summary["would_upload"]] == ["a.md", "b.md"]
    assert summary["files"]["left_out"] == {"excluded": 2}
    assert commands.json("si-cli", "list-batches") == []
    forecast = summary["forecast"]
    assert (forecast["files"], forecast["basis"], forecast["recorded_documents"]) == (2, "guessed", 0)


def test_a_forecast_goes_by_what_was_done_before(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    (docs / "new.md").write_text("new text")
    forecast = ingest(commands, str(docs), "--dry-run", *TEST_WORKFLOW)["forecast"]
    assert (forecast["files"], forecast["basis"], forecast["recorded_documents"]) == (1, "recorded", 3)
    assert forecast["kinds"][0]["mime_type"] == "text/markdown"


def known(commands: CommandLine, *options: str) -> list[str]:
    """The names of the files that are known; a source of which nothing is left does not exist."""
    answer = commands("si-cli", "delete", "--source", "files", "--dry-run", "--json", *options)
    if answer.err == "error: source 'files' does not exist\n":
        return []
    return sorted(Path(uri).name for uri in json.loads(answer.out)["uris"])


def test_files_that_are_gone_are_told_listed_and_deleted_on_demand(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    (docs / "sub" / "c.md").unlink()
    told = commands("si-cli", "ingest", str(docs), *TEST_WORKFLOW)
    assert told.code == 0
    assert "1 known file is gone and still found by searches:" in told.out

    tried = commands("si-cli", "ingest", str(docs), "--delete-missing", "--dry-run", *TEST_WORKFLOW)
    assert "sub/c.md" in tried.out
    assert "1 known file is gone, and would be deleted" in tried.out
    assert known(commands) == ["a.md", "b.md", "c.md"]

    done = commands("si-cli", "ingest", str(docs), "--delete-missing", *TEST_WORKFLOW)
    assert (done.code, "1 known file is gone, and deleted here too" in done.out) == (0, True), done.out
    assert known(commands) == ["a.md", "b.md"]


def test_an_empty_folder_or_a_pattern_deletes_nothing_by_accident(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    (docs / "a.md").unlink()
    pattern = ingest(commands, str(docs), "--include", "*.pdf", "--delete-missing", *TEST_WORKFLOW)
    assert (pattern["missing"], pattern["deleted"], pattern["status"]) == ([], 0, "ok")

    (docs / "b.md").unlink()
    (docs / "sub" / "c.md").unlink()
    refused = commands("si-cli", "ingest", str(docs), "--delete-missing", *TEST_WORKFLOW)
    assert refused.code == 1
    assert "is it mounted?; --force deletes them all the same" in refused.out
    assert known(commands) == ["a.md", "b.md", "c.md"]
    forced = ingest(commands, str(docs), "--delete-missing", "--force", *TEST_WORKFLOW)
    assert (forced["deleted"], known(commands)) == (3, [])


def test_where_nobody_can_be_asked_most_of_a_folder_is_not_deleted(commands: CommandLine, docs: Path) -> None:
    for number in range(12):
        (docs / f"{number}.md").write_text(f"text {number}")
    ingest(commands, str(docs), *TEST_WORKFLOW)
    for number in range(12):
        (docs / f"{number}.md").unlink()
    refused = commands("si-cli", "ingest", str(docs), "--delete-missing", *TEST_WORKFLOW)
    assert (refused.code, "12 of 15 known files are gone, more than half; --force" in refused.out) == (1, True)
    assert len(known(commands)) == 15


def test_documents_are_deleted_by_their_path_and_a_source_only_on_purpose(commands: CommandLine, docs: Path) -> None:
    ingest(commands, str(docs), *TEST_WORKFLOW)
    wrong = commands("si-cli", "delete", str(docs / "a.md"), "nothing.md")
    assert (wrong.code, "nothing.md" in wrong.err, len(known(commands))) == (1, True, 3)
    assert commands("si-cli", "delete", str(docs / "a.md")).out == "1 document deleted\n"
    assert known(commands) == ["b.md", "c.md"]
    assert commands("si-cli", "delete").code == 2
    for dry in ((), ("--dry-run",), ("--json",)):
        unknown = commands("si-cli", "delete", "--source", "nix", *dry)
        assert (unknown.code, unknown.err, unknown.out) == (1, "error: source 'nix' does not exist\n", "")

    unasked = commands("si-cli", "delete", "--source", "files")
    assert (unasked.code, "add --yes" in unasked.err, len(known(commands))) == (1, True, 2)
    assert commands("si-cli", "delete", "--source", "files", "--yes").out == "2 documents deleted\n"
    assert known(commands) == []


def test_a_file_over_the_limit_fails_alone(commands: CommandLine, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "large.md").write_text("x" * 5000)
    monkeypatch.setenv("UPLOAD_SIZE_LIMIT", "4KB")
    get_settings.cache_clear()
    answer = commands("si-cli", "ingest", str(docs), *TEST_WORKFLOW)
    assert answer.code == 1
    assert "large.md: " in answer.err
    assert "3 documents ingested, 1 failed" in answer.out


def test_without_waiting_the_work_is_left_to_a_worker(commands: CommandLine, docs: Path) -> None:
    summary = ingest(commands, str(docs), "--no-wait", *TEST_WORKFLOW)
    assert (summary["started_workflows"], summary["runs"]["completed"]) == (3, 0)
    assert commands("si-cli", "worker", "--drain").code == 0
    (group,) = commands.json("si-cli", "status")
    assert (group["status"], group["completed_runs"]) == ("COMPLETED", 3)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("/no/such/folder",), 2, "does not exist"),
        ((str(SAMPLES), "--workflow", "test_fw"), 1, "workflow 'test_fw' does not exist; did you mean 'test_wf'"),
        ((str(SAMPLES), "--params", "defualt"), 1, "did you mean 'default'"),
        ((str(SAMPLES), "--jobs", "0"), 2, "--jobs"),
        ((), 2, "PATH..."),
        ((str(SAMPLES / "README.md"), "--delete-missing"), 2, "--delete-missing"),
        ((str(SAMPLES), "--force"), 2, "--force"),
        ((str(SAMPLES), "--server", "http://127.0.0.1:9"), 1, "http://127.0.0.1:9: cannot be reached"),
        ((str(SAMPLES), "--server", "nonsense"), 2, "--server"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_uploaded(
    commands: CommandLine, arguments: tuple[str, ...], code: int, message: str
) -> None:
    answer = commands("si-cli", "ingest", *arguments)
    assert (answer.code, message in answer.err) == (code, True), answer.err
    assert "Traceback" not in answer.err
    assert commands.json("si-cli", "list-batches") == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("embed: {modell: minilm}", "embed.modell: there is no such parameter; did you mean 'model'?"),
        ("embed: {model: unheard-of}", "embed.provider: who runs the model 'unheard-of'?"),
        ("parse: {parser: fast}", "store.data_dir: name the RAG database to store into"),
    ],
)
def test_parameters_that_a_step_refuses_are_named_before_anything_is_uploaded(
    commands: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, message: str
) -> None:
    (tmp_path / "wrong.yaml").write_text(f"id: wrong\nconfig:\n  {config}\n")
    monkeypatch.setenv("PARAM_DIR", str(tmp_path))
    get_settings.cache_clear()
    answer = commands("si-cli", "ingest", str(SAMPLES), "--params", "wrong")
    assert answer.code == 2
    assert f"error: {message}" in answer.err
    assert commands.json("si-cli", "list-batches") == []


class Process:
    """`si-cli` as a process of its own, whose lines can be waited for."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "soliplex.ingester.cli", *arguments],
            env={**environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, start: str) -> None:
        """Wait for a line that begins so."""
        assert self.process.stderr is not None
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if line.startswith(start):
                return
        pytest.fail(f"it ended without saying {start!r}: {''.join(lines)}")

    def end(self) -> tuple[int, dict[str, Any]]:
        out, err = self.process.communicate(timeout=300)
        assert out, err
        return self.process.returncode, json.loads(out)

    def close(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Starts `si-cli` as a process that does not outlive the test."""
    with ExitStack() as started:

        def start(*arguments: str, **variables: str) -> Process:
            process = Process(*arguments, **variables)
            started.callback(process.close)
            return process

        yield start


def write_workflow(folder: Path, method: str) -> None:
    steps = {"validate": "soliplex.ingester.example.validate", "wait": method}
    items = {key: {"name": key, "method": each, "parameters": {"delay": 600}} for key, each in steps.items()}
    folder.mkdir(exist_ok=True)
    (folder / "slow.yaml").write_text(json.dumps({"id": "slow", "name": "Slow", "item_steps": items}))


def test_a_signal_while_processing_stops_gracefully_and_a_second_call_goes_on(
    database_url: str, docs: Path, tmp_path: Path, start: Callable[..., Process]
) -> None:
    settings = {
        "DOC_DB_URL": database_url,
        "DATA_DIR": str(tmp_path / "data"),
        "WORKFLOW_DIR": str(tmp_path / "workflows"),
        "PARAM_DIR": str(shipped_config_dir("params")),
        "WORKER_STOP_TIMEOUT_SECONDS": "0.1",
    }
    call = ("ingest", str(docs), "--workflow", "slow", "--params", "test_base", "--json")
    write_workflow(tmp_path / "workflows", "asyncio.sleep")
    first = start(*call, **settings)
    first.says("validate: 3/3")
    first.process.send_signal(signal.SIGINT)
    first.says("Stopping:")
    code, stopped = first.end()
    assert (code, stopped["status"]) == (130, "stopped")
    assert (stopped["uploaded"], stopped["runs"]["completed"]) == (3, 0)

    write_workflow(tmp_path / "workflows", "soliplex.ingester.example.store")
    code, again = start(*call, **settings).end()
    assert (code, again["status"], again["uploaded"]) == (0, "ok", 0)
    assert again["run_group_id"] == stopped["run_group_id"]
    assert again["runs"] == {"total": 3, "completed": 3, "failed": 0, "cancelled": 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_uploading_stops_gracefully_and_a_second_call_uploads_the_rest(
    tmp_path: Path, number: signal.Signals, start: Callable[..., Process]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    files = 250
    for index in range(files):
        (docs / f"{index:04}.md").write_text(f"text {index}")
    settings = {"DATA_DIR": str(tmp_path / "data")}
    call = ("ingest", str(docs), *TEST_WORKFLOW, "--json")
    first = start(*call, **settings)
    first.says("Comparing: ")
    first.process.send_signal(number)
    code, stopped = first.end()
    assert (code, stopped["status"], stopped["run_group_id"]) == (130, "stopped", None)
    assert stopped["uploaded"] < files

    code, again = start(*call, **settings).end()
    assert (code, again["status"]) == (0, "ok")
    assert stopped["uploaded"] + again["uploaded"] == files
    assert again["runs"]["completed"] == files


def test_a_server_takes_the_files_and_its_worker_processes_them(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = CommandLine("", monkeypatch, capsys)
    key = {"API_KEY": "secret", "API_KEY_ENABLED": "true"}
    with serving(tmp_path / "server", environment=key) as server:
        there = ("--server", server.url)
        refused = commands("si-cli", "ingest", str(docs), *there)
        assert (refused.code, refused.err) == (
            1,
            f"error: {server.url}: asks for a key, or for another one; set API_KEY\n",
        )
        monkeypatch.setenv("API_KEY", "secret")
        get_settings.cache_clear()

        first = ingest(commands, str(docs), *FAILING_WORKFLOW, *there)
        assert (first["uploaded"], first["runs"]["failed"], first["status"]) == (3, 3, "failed")
        assert {failure["reason"] for failure in first["failures"]} == {"RuntimeError: this step always fails"}
        second = commands("si-cli", "ingest", str(docs), *FAILING_WORKFLOW, *there)
        assert (second.code, "✗ Nothing new: all 3 files are unchanged, but 3 could" in second.out) == (1, True)

        group = str(first["run_group_id"])
        assert "chunk 3 0 3 0 0" in commands("si-cli", "status", group, *there).words
        assert commands("si-cli", "retry", group, *there).out == "9 steps of 3 runs will be tried again\n"
        assert commands("si-cli", "retry", "99", *there).err == f"error: {server.url}: run group 99 does not exist\n"
