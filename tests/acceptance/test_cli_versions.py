"""`si-cli versions`, `diff` and `rollback`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import get_artifacts
from tests.support.command_line import CommandLine
from tests.support.documents import hash_of
from tests.support.engine import rows_of

TEST_WORKFLOW = ("--workflow", "test_wf", "--params", "test_base")
ONE, TWO = "# Office\n\nWe meet on Monday.\n", "# Office\n\nWe meet on Thursday.\n"


@pytest.fixture
def file(commands: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was ingested with two contents; its folder is where the commands are called."""
    path = tmp_path / "office.md"
    monkeypatch.chdir(tmp_path)
    for content in (ONE, TWO):
        path.write_text(content)
        assert commands("si-cli", "ingest", str(path), *TEST_WORKFLOW).code == 0
    return path


async def _pretend_that_it_was_parsed() -> None:
    """What the steps of the test workflow do not make."""
    configs = dict(await rows_of("SELECT step_type, step_config_id FROM runstep"))
    artifacts = get_artifacts()
    for content in (ONE, TWO):
        chunk = {"id": content, "content": content[10:], "metadata": {"headings": ["Office"], "page_numbers": [4]}}
        doc_hash = hash_of(content.encode())
        await artifacts.write(doc_hash, ArtifactType.PARSED_MD, configs["parse"], content.encode())
        await artifacts.write(doc_hash, ArtifactType.CHUNKS, configs["chunk"], json.dumps([chunk]).encode())


def test_versions_are_listed_and_gone_back_to_by_the_path_of_the_file(commands: CommandLine, file: Path) -> None:
    new, old = commands.json("si-cli", "versions", file.name)
    assert (new["version"], new["is_current"], old["version"], old["is_stored"]) == (2, True, 1, True)
    back = commands("si-cli", "rollback", file.name, "1")
    assert (back.code, back.out) == (
        0,
        f"✓ {file} has the content of version 1 again, as version 3. Searches find it now.\n",
    )
    assert "store: 1/1" in back.err
    assert "rolled back to 1" in commands("si-cli", "versions", str(file)).out
    again = commands("si-cli", "rollback", file.name, "1")
    assert (again.code, again.out) == (0, f"{file} has the content of version 1 already: nothing to do.\n")


def test_one_need_not_wait(commands: CommandLine, file: Path) -> None:
    done = commands.json("si-cli", "rollback", file.name, "1", "--no-wait")
    assert (done["version"], done["followed"]) == (3, None)
    (run,) = done["runs"]
    assert commands.json("si-cli", "status", str(run["run_group_id"]))["run_group"]["status"] == "PENDING"


def test_a_run_that_fails_is_told_with_what_to_do(commands: CommandLine, file: Path) -> None:
    failing = ("--workflow", "test_wf_fail", "--params", "test_base")
    back = commands("si-cli", "rollback", file.name, "1", *failing)
    assert back.code == 1
    assert "✗ " in back.out
    assert "si-cli retry 3" in back.out


def test_differences_are_shown_in_text_and_in_chunks(commands: CommandLine, file: Path) -> None:
    missing = commands("si-cli", "diff", file.name)
    assert (missing.code, "has no text: it was never parsed" in missing.err) == (1, True)
    commands.given(_pretend_that_it_was_parsed())
    shown = commands("si-cli", "diff", file.name)
    assert shown.out.splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " # Office",
        " ",
        "-We meet on Monday.",
        "+We meet on Thursday.",
        "",
        "chunks: 0 kept, 1 added, 1 removed",
        "- Office  ·  page 4",
        "  We meet on Monday.",
        "+ Office  ·  page 4",
        "  We meet on Thursday.",
    ]
    assert commands.json("si-cli", "diff", file.name, "--from", "2", "--to", "1")["text"]["added_lines"] == 1
    same = commands("si-cli", "diff", file.name, "--from", "2", "--to", "2")
    assert same.out.startswith(f"The text of versions 2 and 2 of {file} is the same.")


def test_what_is_not_there_is_named(commands: CommandLine, file: Path) -> None:
    for words in (("versions", "ffice.md"), ("diff", "ffice.md"), ("rollback", "ffice.md", "1")):
        answer = commands("si-cli", *words)
        assert (answer.code, f"did you mean {file} (--source files)?" in answer.err) == (1, True)
    unknown = commands("si-cli", "rollback", file.name, "7")
    assert (unknown.code, "it has had versions 1 to 2" in unknown.err) == (1, True)
