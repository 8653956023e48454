from __future__ import annotations

import re

import pytest

from soliplex.ingester.cli import output
from soliplex.ingester.cli.output import print_rows

COLUMNS = {"group": "id", "workflow": "workflow", "status": "status", "note": "note"}
ROWS = [
    {"id": 1, "workflow": "batch_split_vacuum", "status": "COMPLETED", "note": None},
    {"id": 12, "workflow": "interactive", "status": "FAILED", "note": "a-rather-long-word-without-any-blank"},
]


def printed(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setattr(output, "_PIPE_WIDTH", width)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich then takes what it writes to for a terminal
    monkeypatch.setenv("TERM", "xterm")
    print_rows(ROWS, COLUMNS, as_json=False, nothing="none")
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


def test_rows_that_fit_are_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(100, monkeypatch, capsys)
    assert "batch_split_vacuum" in lines[3]
    assert "COMPLETED" in lines[3]


def test_rows_that_do_not_fit_stand_below_one_another_and_no_word_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(60, monkeypatch, capsys) == [
        "group    1",
        "workflow batch_split_vacuum",
        "status   COMPLETED",
        "",
        "group    12",
        "workflow interactive",
        "status   FAILED",
        "note     a-rather-long-word-without-any-blank",
    ]
