"""The command lines, run in this process as their entry points run them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from soliplex.ingester.cli.main import main as si_cli
from soliplex.ingester.diag.main import main as si_diag
from soliplex.ingester.lib.models import Database

PROGRAMS = {"si-cli": si_cli, "si-diag": si_diag}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What was printed for people, without the lines of tables."""
        return " ".join(self.out.replace("│", " ").split())


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs `si-cli` and `si-diag` on one database."""

    url: str
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Answer:
        self.monkeypatch.setattr(sys, "argv", list(arguments))
        self.capsys.readouterr()
        try:
            PROGRAMS[arguments[0]]()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
        assert code is None or isinstance(code, int)
        printed = self.capsys.readouterr()
        return Answer(code or 0, printed.out, printed.err)

    def json(self, *arguments: str) -> Any:
        """What the command says as JSON."""
        answer = self(*arguments, "--json")
        assert answer.code == 0, answer.err
        return answer.json

    def given[R](self, preparation: Coroutine[Any, Any, R]) -> R:
        """Do something to the database before a command sees it."""

        async def prepare() -> R:
            await Database.initialize(self.url)
            try:
                return await preparation
            finally:
                await Database.close()

        return asyncio.run(prepare())
