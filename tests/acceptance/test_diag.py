from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from unittest.mock import ANY

import pytest

from soliplex.ingester.cli.lazy import Group, load_command
from soliplex.ingester.diag.main import COMMANDS
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import ResourceLockKind
from soliplex.ingester.lib.rag import rag_path, rag_resource_key
from soliplex.ingester.lib.wf import operations
from soliplex.ingester.lib.wf.definitions import StepDefinition, workflow_from_steps
from soliplex.ingester.lib.wf.operations.definitions import save_workflow
from tests.support.command_line import CommandLine
from tests.support.engine import Driver, linear, parked
from tests.support.rag_databases import fill

GROUPS = [name for name, target in COMMANDS.items() if isinstance(target, Group)]


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_lists_its_commands_and_every_command_takes_json(commands: CommandLine, group: str) -> None:
    table = COMMANDS[group]
    assert isinstance(table, Group)
    answer = commands("si-diag", group, "--help")
    assert table.sentence in answer.words
    for name, target in table.commands.items():
        assert f" {name} " in answer.words
        options = [option for parameter in load_command(name, target).params for option in parameter.opts]
        assert "--json" in options


def test_locks_are_listed_and_released(commands: CommandLine) -> None:
    assert commands("si-diag", "lock", "list").out == "no locks are held\n"
    key = "rag:/somewhere"
    commands.given(operations.acquire_resource_lock(key, "cli:me", ResourceLockKind.CLI))

    (lock,) = commands.json("si-diag", "lock", "list")
    assert (lock["resource_key"], lock["holder_id"], lock["holder_kind"]) == (key, "cli:me", "cli")
    assert key in commands("si-diag", "lock", "list").words

    released = commands("si-diag", "lock", "release", key)
    assert released.out == "released rag:/somewhere, which cli cli:me held\n"
    again = commands("si-diag", "lock", "release", key)
    assert (again.code, again.err) == (1, f"error: resource lock {key!r} does not exist\n")


def test_what_is_ready_and_what_waits_is_told(commands: CommandLine) -> None:
    assert commands("si-diag", "status", "queues").out == "nothing is ready or runs\n"
    assert commands("si-diag", "status", "waiting").out == "no step waits for a signal, a time or a worker\n"
    assert commands("si-diag", "status", "failures").out == "no step has failed\n"
    commands.given(_with_steps_that_wait())
    assert "a 1 0 0 2" in commands("si-diag", "status", "queues").words
    (queue,) = commands.json("si-diag", "status", "queues")
    assert (queue["ready"], queue["is_exact"], queue["oldest"]["step_id"]) == (1, True, 2)
    assert "signal: 1 step" in commands("si-diag", "status", "waiting").out
    assert "waits for the signal 'approval'" in commands("si-diag", "status", "waiting").words
    (step,) = commands.json("si-diag", "status", "waiting")["steps"]
    assert (step["reason"], step["awaits"]) == ("signal", "approval")


async def _with_steps_that_wait() -> None:
    driver = Driver()
    await driver.start(linear("a"), 2)
    await driver.finish(parked(await driver.claim_one(), awaits="approval"))


def test_workers_are_listed(commands: CommandLine) -> None:
    assert commands("si-diag", "worker", "list").out == "no workers are running\n"
    commands.given(operations.check_in("w1", hostname="here", pid=7))
    (worker,) = commands.json("si-diag", "worker", "list")
    assert (worker["id"], worker["hostname"], worker["pid"], worker["running_steps"]) == ("w1", "here", 7, 0)
    assert "w1 here 7 0" in commands("si-diag", "worker", "list").words


def test_the_memory_of_workers_is_listed_as_it_was_when_they_checked_in(commands: CommandLine) -> None:
    commands.given(operations.check_in("w1", hostname="elsewhere", pid=1))
    memory = {"own": 300 << 20, "children": 700 << 20}
    commands.given(operations.check_in("w2", hostname="elsewhere", pid=2, meta={"memory": memory}))
    silent, telling = commands.json("si-diag", "worker", "list")
    assert (silent["resident_mib"], silent["processes_resident_mib"]) == (None, None)
    assert (telling["resident_mib"], telling["processes_resident_mib"]) == (300, 700)


def test_vacuum_says_which_database_is_missing_or_locked(commands: CommandLine) -> None:
    missing = commands("si-diag", "lancedb", "vacuum", "nothing")
    assert (missing.code, missing.err) == (1, "error: RAG database 'nothing' does not exist\n")
    assert commands("si-diag", "lancedb", "vacuum", "../data").code == 1

    path = Path(rag_path("mine"))
    path.mkdir(parents=True)
    commands.given(operations.acquire_resource_lock(rag_resource_key(path), "worker:x", ResourceLockKind.WORKER))
    locked = commands("si-diag", "lancedb", "vacuum", "mine")
    assert locked.code == 2
    assert "is in use by worker worker:x since" in locked.err

    every = commands("si-cli", "vacuum-all", "--json")
    assert every.code == 2
    assert [(row["kind"], row["status"]) for row in every.json] == [("rag", "locked"), ("documents", ANY)]
    assert [row["database"] for row in commands("si-diag", "lancedb", "vacuum-all", "--json").json] == ["mine"]


def test_vacuum_with_force_breaks_the_lock_and_compacts(commands: CommandLine, filled: Path) -> None:
    path = Path(rag_path("mine"))
    shutil.copytree(filled, path)
    versions = path.joinpath("chunks.lance", "_versions")
    assert len(list(versions.glob("*.manifest"))) > 1
    commands.given(operations.acquire_resource_lock(rag_resource_key(path), "worker:x", ResourceLockKind.WORKER))
    assert commands("si-cli", "vacuum", "mine").code == 2
    assert len(list(versions.glob("*.manifest"))) > 1

    answer = commands("si-diag", "lancedb", "vacuum", "mine", "--force")
    assert answer.code == 0, answer.err
    assert re.fullmatch(r"mine: [\d.]+ KiB before, [\d.]+ KiB now; broke the lock of worker worker:x\n", answer.out)
    assert len(list(versions.glob("*.manifest"))) == 1
    assert commands.json("si-diag", "lock", "list") == []
    row, _ = commands.json("si-cli", "vacuum-all")
    assert (row["database"], row["status"], row["broken_lock_of"]) == ("mine", "ok", None)


def test_verify_tells_databases_that_something_else_changed(commands: CommandLine) -> None:
    assert "no RAG databases in" in commands("si-cli", "verify-db").out
    path = Path(rag_path("mine"))
    asyncio.run(fill(path))
    (row,) = commands.json("si-cli", "verify-db")
    assert (row["status"], row["documents"], row["problems"]) == ("no record", 3, [])

    path.with_name("mine.sha256").write_text(row["checksum"] + "\n")
    (row,) = commands.json("si-diag", "lancedb", "verify", "mine")
    assert row["status"] == "unchanged"

    (path / "table").write_text("other rows")
    answer = commands("si-cli", "verify-db", "--json")
    assert answer.code == 1
    assert answer.json[0]["status"] == "changed"


def test_verify_tells_of_what_is_not_whole_and_repairs_it(commands: CommandLine) -> None:
    path = Path(rag_path("mine"))
    asyncio.run(fill(path))
    asyncio.run(_lose_a_row(path, "document_meta"))
    answer = commands("si-cli", "verify-db", "mine")
    assert answer.code == 1
    assert "mine: 1 half stored: some tables hold them and others do not" in answer.err
    assert "half stored" in answer.words
    assert "mine 2 1 0 0 no record" in answer.words
    assert "to mend it: si-cli verify-db mine --repair" in answer.err

    answer = commands("si-cli", "verify-db", "mine", "--repair")
    assert (answer.code, "mine: deleted 1 document" in answer.out) == (0, True), answer.err
    (row,) = commands.json("si-cli", "verify-db", "mine")
    assert (row["documents"], row["problems"]) == (2, [])


def test_what_nobody_can_store_again_is_told_and_kept(commands: CommandLine) -> None:
    path = Path(rag_path("mine"))
    asyncio.run(fill(path))
    asyncio.run(_lose_a_row(path, "documents"))
    answer = commands("si-cli", "verify-db", "mine", "--repair")
    assert answer.code == 1
    assert "mine: 1 cannot be mended: no run is known that stored them: ingest them again" in answer.err


async def _lose_a_row(path: Path, name: str) -> None:
    import lancedb

    table = await (await lancedb.connect_async(path)).open_table(name)
    (row, *_) = await table.query().select(["id"]).to_list()
    await table.delete(f"id = '{row['id']}'")


def test_a_database_that_was_never_finished_is_told_of_in_a_sentence(commands: CommandLine) -> None:
    (Path(rag_path("mine")) / "documents.lance").mkdir(parents=True)
    for command in (("verify-db", "mine"), ("search", "words", "--db", "mine"), ("vacuum", "mine")):
        answer = commands("si-cli", *command)
        assert answer.code != 0, command
        assert "the RAG database mine cannot be used: " in answer.err, command
        assert "Traceback" not in answer.err


def test_databases_elsewhere_are_refused_with_a_reason(commands: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEDB_DIR", "gs://bucket/rag")
    get_settings.cache_clear()
    answer = commands("si-cli", "verify-db")
    assert answer.code == 2
    assert answer.err == "error: LANCEDB_DIR: gs://bucket/rag is not supported; use a folder, or s3://bucket/prefix\n"


@pytest.mark.parametrize(
    ("listing", "dumping", "known"),
    [
        (("si-cli", "list-workflows"), ("si-cli", "dump-workflow"), "test_wf"),
        (("si-diag", "config", "workflows"), ("si-diag", "config", "workflow-def"), "test_wf"),
        (("si-cli", "list-param-sets"), ("si-cli", "dump-param-set"), "test_base"),
        (("si-diag", "config", "params"), ("si-diag", "config", "param-def"), "test_base"),
    ],
)
def test_definitions_are_listed_and_dumped(
    commands: CommandLine, listing: tuple[str, ...], dumping: tuple[str, ...], known: str
) -> None:
    assert known in {row["id"] for row in commands.json(*listing)}
    assert f" {known} " in commands(*listing).words
    assert f"\nid: {known}\n" in "\n" + commands(*dumping, known).out
    assert commands.json(*dumping, known)["id"] == known
    unknown = commands(*dumping, known[:-1])
    assert unknown.code == 1
    assert "does not exist; did you mean" in unknown.err


def test_a_workflow_that_is_stored_in_the_database_is_listed_and_dumped(commands: CommandLine) -> None:
    step = StepDefinition(key="a", method="tests.handlers.nothing")
    commands.given(save_workflow(workflow_from_steps("made_in_code", [step])))
    (listed,) = [row for row in commands.json("si-cli", "list-workflows") if row["id"] == "made_in_code"]
    assert (listed["steps"], listed["file"]) == (["a"], "database")
    assert commands.json("si-cli", "dump-workflow", "made_in_code")["id"] == "made_in_code"


@pytest.mark.parametrize("listing", ["list-workflows", "list-param-sets"])
def test_listing_definitions_creates_no_database(
    commands: CommandLine, listing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOC_DB_URL", f"sqlite+aiosqlite:///{tmp_path}/none/documents.db")
    get_settings.cache_clear()
    answer = commands("si-cli", listing)
    assert (answer.code, answer.err) == (0, "")
    assert not (tmp_path / "none").exists()


def test_the_parameter_set_to_dump_is_by_default_the_default(commands: CommandLine) -> None:
    assert commands.json("si-cli", "dump-param-set")["id"] == "default"


def test_bootstrap_prepares_a_folder_and_does_no_harm_the_second_time(
    commands: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = commands("si-cli", "bootstrap")
    assert first.code == 0, first.err
    assert (tmp_path / ".env").is_file()
    assert (tmp_path / "config" / "workflows" / "test_wf.yaml").is_file()
    (tmp_path / ".env").write_text("# mine\n")
    second = commands("si-cli", "bootstrap")
    assert second.code == 0
    assert (tmp_path / ".env").read_text() == "# mine\n"
    assert "kept .env" in second.out
    assert json.loads(commands("si-cli", "validate-settings", "--json").out)["problems"] == []
