"""`si-cli top` in a real terminal: it shows frames until somebody leaves, and leaves the terminal as it was."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.serving import PROGRAM


def test_one_frame_is_for_scripts(commands: CommandLine) -> None:
    assert "no run group is under way" in commands("si-cli", "top", "--once").out
    told: dict[str, Any] = json.loads(commands("si-cli", "top", "--json").out)
    assert (told["steps"], told["worker_count"], told["groups"]) == ([], 0, [])


def test_without_a_terminal_it_says_what_to_do(commands: CommandLine) -> None:
    refused = commands("si-cli", "top")
    assert refused.code == 2
    assert "use --once or --json" in refused.err


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_it_is_left_by_a_key_and_leaves_the_terminal_as_it_was(
    key: bytes, tmp_path: Path, sqlite_template: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "documents.db")
    environment = {
        **os.environ,
        "DATA_DIR": str(tmp_path),
        "DOC_DB_URL": f"sqlite:///{tmp_path}/documents.db",
        "TERM": "xterm",
        "LOG_FORMAT": "json",  # whose records would else be all that may be written
        "COLUMNS": "80",
        "LINES": "24",
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", PROGRAM, "top"], environment)
    try:
        before = termios.tcgetattr(terminal)
        shown = _read_until(terminal, b"q leaves")
        assert b"no worker" in shown
        assert b"\x1b[?1049h" in shown  # a screen of its own
        os.write(terminal, key)
        assert b"\x1b[?1049l" in _read_until(terminal, b"\x1b[?1049l")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(terminal)


def _read_until(terminal: int, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        try:
            found += os.read(terminal, 4096)
        except OSError:  # the program has ended
            raise AssertionError(found) from None
    return found
