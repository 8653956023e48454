"""`si-diag` and `si-cli` on what was ingested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

FAILING = ("--workflow", "test_wf_fail", "--params", "test_base")


@pytest.fixture
def ingested(commands: CommandLine, tmp_path: Path) -> CommandLine:
    """Two documents, of which both failed at the third step: batch 1, run group 1."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"text of {name}")
    assert (
        commands("si-cli", "ingest", str(tmp_path), "--include", "*.md", *FAILING, "--quiet", "--jobs", "1").code == 1
    )
    return commands


def test_batches_are_listed_the_newest_first(ingested: CommandLine, tmp_path: Path) -> None:
    ingested("si-cli", "ingest", str(tmp_path), "--include", "*.md", *FAILING, "--again", "--batch-name", "second")
    for command in (("si-diag", "batch", "list"), ("si-cli", "list-batches")):
        assert [batch["id"] for batch in ingested.json(*command)] == [2, 1]
        assert "1 of 2 are shown; --limit 0 shows all" in ingested(*command, "--limit", "1").out
        assert [batch["name"] for batch in ingested.json(*command, "--limit", "1")] == ["second"]


def test_documents_are_listed_found_and_told_of(ingested: CommandLine, tmp_path: Path) -> None:
    listed = ingested.json("si-diag", "document", "list", "--source", "files")
    assert listed == ingested.json("si-diag", "document", "list", "--batch", "1")
    assert [row["uri"] for row in listed] == [f"{tmp_path}/a.md", f"{tmp_path}/b.md"]
    (found,) = ingested.json("si-diag", "document", "find", "B.MD")
    assert found == listed[1]
    nothing = ingested("si-diag", "document", "find", "nix")
    assert (nothing.code, nothing.out) == (1, "no URI contains 'nix'\n")
    info = ingested.json("si-diag", "document", "info", found["doc_hash"])
    assert info["document"]["file_size"] == len("text of b.md")
    assert info["uris"] == [found]
    shown = ingested("si-diag", "document", "info", found["doc_hash"])
    assert f"hash {found['doc_hash']}" in shown.words
    (created,) = ingested.json("si-diag", "document", "history", found["doc_hash"])
    assert (created["action"], created["version"]) == ("created", 1)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("document", "list"), 2, "give one of --source and --batch"),
        (("document", "list", "--batch", "9"), 1, "batch 9 does not exist"),
        (("document", "list", "--source", "nix"), 1, "source 'nix' does not exist"),
        (("document", "info", "sha256-0"), 1, "document 'sha256-0' does not exist"),
        (("document", "history", "sha256-0"), 1, "document 'sha256-0' does not exist"),
        (("run-group", "list", "--batch", "9"), 1, "batch 9 does not exist"),
        (("run-group", "info", "9"), 1, "run group 9 does not exist"),
        (("run-group", "steps", "9"), 1, "run group 9 does not exist"),
        (("run-group", "step-stats", "9"), 1, "run group 9 does not exist"),
        (("run-group", "info", "none"), 2, "'none' is not a valid integer"),
        (("workflow", "info", "9"), 1, "workflow run 9 does not exist"),
        (("workflow", "reset", "9"), 1, "workflow run 9 does not exist"),
        (("workflow", "list", "--batch", "9"), 1, "batch 9 does not exist"),
        (("workflow", "list", "--group", "9"), 1, "run group 9 does not exist"),
        (("workflow", "list", "--status", "LOST"), 2, "'LOST' is not one of"),
        (("status", "recent", "--interval", "year"), 2, "'year' is none of minute, hour, day, week"),
        (("status", "details", "9"), 1, "run group 9 does not exist"),
    ],
)
def test_what_does_not_exist_is_named(
    commands: CommandLine, arguments: tuple[str, ...], code: int, message: str
) -> None:
    answer = commands("si-diag", *arguments)
    assert (answer.code, message in answer.err) == (code, True), answer.err
    assert "Traceback" not in answer.err


def test_run_groups_are_listed_and_told_of(ingested: CommandLine) -> None:
    (group,) = ingested.json("si-diag", "run-group", "list", "--batch", "1")
    assert (group["status"], group["failed_runs"], group["completed_runs"]) == ("FAILED", 2, 0)
    info = ingested.json("si-diag", "run-group", "info", "1")
    assert info["stats"]["counts"]["FAILED"] == 2
    assert 'runs {"FAILED": 2}' in ingested("si-diag", "run-group", "info", "1").words
    steps = ingested.json("si-diag", "run-group", "steps", "1", "--status", "failed")
    assert {(step["workflow_step_name"], step["retry"]) for step in steps} == {("chunk", 2)}
    counted = ingested.json("si-diag", "run-group", "step-stats", "1")
    assert [(row["workflow_step_name"], row["status"], row["count"]) for row in counted] == [
        ("validate", "COMPLETED", 2),
        ("parse", "COMPLETED", 2),
        ("chunk", "FAILED", 2),
        ("embed", "CANCELLED", 2),
        ("store", "CANCELLED", 2),
    ]


def test_runs_are_listed_told_of_and_reset(ingested: CommandLine) -> None:
    runs = ingested.json("si-diag", "workflow", "list", "--group", "1", "--status", "FAILED")
    assert [run["id"] for run in runs] == [2, 1]
    run = ingested.json("si-diag", "workflow", "info", "1")
    assert run == ingested.json("si-diag", "run", "1")
    attempts = run["attempts"]
    assert [each["attempt"] for each in attempts] == [1, 2]
    assert "RuntimeError: this step always fails" in attempts[0]["traceback"]
    assert ingested.json("si-cli", "status", "1", "--attempts") == attempts
    assert "chunk 1" in ingested("si-cli", "status", "1", "--attempts").words
    assert run["document_info"]["uri"].endswith("a.md")
    assert [step["status"] for step in run["steps"]] == ["COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "CANCELLED"]
    assert run["lifecycle"][-1]["event"] == "item_failed"
    assert "RuntimeError: this step always fails" in ingested("si-diag", "workflow", "info", "1").words

    (cause,) = ingested.json("si-diag", "status", "failures", "--group", "1")["causes"]
    assert (cause["failed"], cause["error_type"], cause["run_ids"]) == (2, "RuntimeError", [2, 1])
    assert "2 0 RuntimeError" in ingested("si-diag", "status", "failures").words

    assert ingested("si-diag", "workflow", "reset", "1").out == "3 steps of run 1 will be tried again\n"
    assert ingested.json("si-diag", "workflow", "reset", "2", "--hard")["reset_steps"] == 3
    assert ingested.json("si-diag", "workflow", "list", "--status", "failed") == []


def test_what_goes_on_is_told(ingested: CommandLine) -> None:
    assert ingested("si-diag", "status", "running").out == "nothing is running\n"
    recent = ingested.json("si-diag", "status", "recent", "--interval", "day", "--status", "failed")
    assert {row["workflow_step_name"] for row in recent} == {"chunk"}
    assert ingested("si-diag", "status", "details", "1").code == 1


def test_figures_are_told(ingested: CommandLine) -> None:
    figures = ingested.json("si-cli", "stats", "--interval", "day")
    assert figures["throughput"]["failed"] == 2
    assert [batch["failed_runs"] for batch in figures["batches"]] == [2]
    assert "last hour: 0 documents completed, 2 failed" in ingested("si-cli", "stats").out
    assert [row["step_type"] for row in ingested.json("si-cli", "stats", "1")][:2] == ["validate", "parse"]


def test_retrying_what_has_not_failed_says_so(ingested: CommandLine) -> None:
    retried = ingested.json("si-cli", "retry", "1")
    assert retried == {"run_group_id": 1, "reset_runs": 2, "reset_steps": 6}
    assert ingested("si-cli", "retry", "1").out == "nothing has failed in run group 1\n"
    assert ingested("si-cli", "retry", "9").code == 1


def test_retrying_all_that_is_not_completed_says_so_where_everything_is(commands: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    work = ("--workflow", "test_wf", "--params", "test_base", "--quiet")
    assert commands("si-cli", "ingest", str(tmp_path / "a.md"), *work).code == 0
    assert commands("si-cli", "retry", "1", "--hard").out == "everything is completed in run group 1\n"
