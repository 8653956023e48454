from __future__ import annotations

import re
from pathlib import Path

from soliplex.ingester.cli.lazy import Group
from soliplex.ingester.cli.main import COMMANDS
from soliplex.ingester.diag.main import COMMANDS as DIAG_COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    spelled = re.findall(r"`(si-cli|si-diag) ((?:[a-z-]+ ?)+)", _tables())
    documented = {f"{program} {words.strip()}" for program, words in spelled}
    assert documented == {*_names("si-cli", COMMANDS), *_names("si-diag", DIAG_COMMANDS)}


def _tables() -> str:
    return "\n".join(line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|")


def _names(program: str, commands: dict[str, str] | dict[str, str | Group]) -> set[str]:
    names: set[str] = set()
    for name, target in commands.items():
        inner = target.commands if isinstance(target, Group) else {"": ""}
        names |= {f"{program} {name} {word}".strip() for word in inner}
    return names
