from __future__ import annotations

import re

import pytest

from soliplex.ingester.cli import output
from soliplex.ingester.cli.output import print_facts, print_rows

COLUMNS = {"group": "id", "workflow": "workflow", "status": "status", "note": "note"}
ROWS = [
    {"id": 1, "workflow": "batch_split_vacuum", "status": "COMPLETED", "note": None},
    {"id": 12, "workflow": "interactive", "status": "FAILED", "note": "a-rather-long-word-without-any-blank"},
]


FACTS = {"name": "some words that are wrapped where there is room", "url": f"sqlite:///{'long/' * 40}documents.db"}


def set_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", width)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich then takes what it writes to for a terminal
    monkeypatch.setenv("TERM", "xterm")


def printed(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    set_width(width, monkeypatch)
    print_rows(ROWS, COLUMNS, as_json=False, nothing="none")
    return lines_of(capsys)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
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


def test_no_value_is_cut_in_a_pipe_however_long_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts(FACTS, as_json=False)
    print_rows([FACTS], {"name": "name", "url": "url"}, as_json=False, nothing="none")
    assert [FACTS["url"] in line for line in lines_of(capsys)].count(True) == 2


def test_a_fact_is_wrapped_between_words_and_one_that_has_none_stays_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_width(40, monkeypatch)
    print_facts({"name": FACTS["name"]}, as_json=False)
    assert [line.rstrip() for line in lines_of(capsys)] == [
        "name  some words that are wrapped where",
        "      there is room",
    ]
    print_facts(FACTS, as_json=False)
    assert f"url  {FACTS['url']}" in lines_of(capsys)
