"""What libraries print, warn of and log: never in the live display, never as anything but JSON in a JSON log."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving import PATIENCE, serving

TALK = """
import logging, os, sys, threading, warnings


def talk() -> dict:
    print("PRINTED to stdout")
    print("PRINTED to stderr", file=sys.stderr)
    os.write(1, b"PRINTED to descriptor 1\\n")
    os.write(2, b"PRINTED to descriptor 2\\rPRINTED like a bar\\n")
    os.system("echo PRINTED by a process of its own")
    warnings.warn("PRINTED as a warning")
    logging.getLogger("talkative").warning("PRINTED as a record")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    sys.stdout.flush()
    return {}
"""
STEPS = """
id: talk
name: Talk
item_steps:
  here:
    name: here
    method: talkative_library.talk
    retries: 1
  apart:
    name: apart
    method: talkative_library.talk
    retries: 1
    isolation: process
"""
SAID = [
    "PRINTED to stdout",
    "PRINTED to stderr",
    "PRINTED to descriptor 1",
    "PRINTED to descriptor 2",
    "PRINTED like a bar",
    "PRINTED by a process of its own",
]


@pytest.fixture
def environment(tmp_path: Path, sqlite_template: Path) -> dict[str, str]:
    """Settings of an installation whose workflow talks, in the worker and in a process of its own."""
    shutil.copy(sqlite_template, tmp_path / "documents.db")
    for name, text in {
        "talkative_library.py": TALK,
        "workflows/talk.yaml": STEPS,
        "documents/a.txt": "some text",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return {
        "PYTHONPATH": str(tmp_path),
        "WORKFLOW_DIR": str(tmp_path / "workflows"),
        "DEFAULT_WORKFLOW_ID": "talk",
        "DATA_DIR": str(tmp_path / "data"),
        "DOC_DB_URL": f"sqlite+aiosqlite:///{tmp_path}/documents.db",
        "COLUMNS": "",
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "soliplex.ingester.cli", *arguments]


def run(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def in_terminal(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    """What a person sees of a command: all that came out of its terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=os.environ | environment | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        while block := _read(ours):
            seen += block
        process.wait(PATIENCE)
    finally:
        process.kill()
        os.close(ours)
    return seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody holds the other end any more
        return b""


def records(lines: list[str]) -> list[dict[str, Any]]:
    """The lines of a log, of which each must be an object."""
    found = [json.loads(line) for line in lines]
    assert all(isinstance(each, dict) and {"event", "level"} <= each.keys() for each in found)
    return found


def see_that_all_is_told(told: list[dict[str, Any]]) -> None:
    """Once by the step in the worker, once by the one in a process of its own."""
    events = [each["event"] for each in told]
    assert {said: events.count(said) for said in SAID} == dict.fromkeys(SAID, 2)
    assert sum("PRINTED as a warning" in event for event in events) == 2
    library = [each for each in told if each.get("logger") == "talkative"]
    assert [(each["event"], each["level"]) for each in library] == [("PRINTED as a record", "warning")] * 2
    assert any("ZeroDivisionError" in str(each) for each in told)


def test_nothing_that_a_library_says_is_seen_beside_the_bars(tmp_path: Path, environment: dict[str, str]) -> None:
    seen = in_terminal(tmp_path, environment, "ingest", "documents")
    assert "1 document ingested" in seen
    assert "here" in seen
    assert "apart" in seen
    assert "PRINTED" not in seen
    assert "ZeroDivisionError" not in seen
    assert "━" in seen, "there were bars"


def test_who_asks_for_everything_sees_it_in_lines_of_its_own(tmp_path: Path, environment: dict[str, str]) -> None:
    seen = in_terminal(tmp_path, environment | {"LOG_LEVEL": "DEBUG"}, "ingest", "documents")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen).replace("\r", "\n").split("\n")
    for said in SAID:
        assert lines.count(f"debug: {said}") == 2, said
    assert lines.count("warning: PRINTED as a record") == 2


def test_the_result_of_a_command_is_all_there_is_on_its_standard_output(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run(tmp_path, environment, "ingest", "documents", "--json")
    assert json.loads(done.stdout)["runs"]["completed"] == 1
    assert "PRINTED" not in done.stderr


def test_each_line_about_an_ingestion_is_a_record_where_the_log_is_json(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run(tmp_path, environment | {"LOG_FORMAT": "json"}, "ingest", "documents", "--json")
    assert json.loads(done.stdout)["runs"]["completed"] == 1
    told = records(done.stderr.splitlines())
    see_that_all_is_told(told)
    assert any(each["event"].startswith("apart: 1/1") for each in told), "the progress is told too"


def test_each_line_of_a_worker_is_a_record_where_the_log_is_json(tmp_path: Path, environment: dict[str, str]) -> None:
    assert run(tmp_path, environment, "ingest", "documents", "--no-wait").returncode == 0
    done = run(tmp_path, environment | {"LOG_FORMAT": "json"}, "worker", "--drain")
    assert done.returncode == 0
    assert done.stdout == ""
    told = records(done.stderr.splitlines())
    see_that_all_is_told(told)
    assert told[-1]["event"] == "stopped"


@pytest.mark.parametrize("processes", [1, 2])
def test_each_line_of_a_server_is_a_record_where_the_log_is_json(
    tmp_path: Path, environment: dict[str, str], processes: int
) -> None:
    (tmp_path / "documents.db").unlink()  # alembic has something to say then
    settings = environment | {"LOG_FORMAT": "json"}
    with serving(tmp_path, "--workers", str(processes), environment=settings, afresh=True) as server:
        sent = run(tmp_path, environment, "ingest", "documents", "--server", server.url)
        assert sent.returncode == 0, sent.stderr
        assert server.stop(signal.SIGTERM) == 0
        told = records(server.lines())
    see_that_all_is_told(told)
    assert any(each["logger"].startswith("uvicorn") for each in told)


def test_an_error_that_nobody_caught_is_a_record_where_the_log_is_json(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "from soliplex.ingester.lib.wf import runner\n"
        "def broken(*_, **__):\n    raise RuntimeError('a bug')\n"
        "runner.Worker.__init__ = broken\n"
    )
    done = run(tmp_path, environment | {"LOG_FORMAT": "json"}, "worker", "--drain")
    assert done.returncode == 1
    told = records((done.stdout + done.stderr).splitlines())
    assert (told[-1]["level"], told[-1]["event"]) == ("critical", "RuntimeError")
    assert "a bug" in told[-1]["exception"]
