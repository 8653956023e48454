"""A LibreOffice that is none: a program of that name which saves what the test says, fails, or never ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_HEAD = f"#!{sys.executable}\nimport os, pathlib, sys, time\n"
_SAVES = """
into = pathlib.Path(sys.argv[sys.argv.index("--outdir") + 1])
into.mkdir(exist_ok=True)
name = pathlib.Path(sys.argv[-1]).stem + "." + sys.argv[sys.argv.index("--convert-to") + 1]
(into / name).write_bytes(pathlib.Path({content!r}).read_bytes())
"""
_FAILS = 'print("Error: source file could not be loaded", file=sys.stderr); sys.exit(1)\n'
_STALLS = """
if (child := os.fork()) != 0:
    pathlib.Path({pids!r}).write_text(f"{{os.getpid()}} {{child}}")
time.sleep(600)
"""


class FakeOffice:
    """Puts a program `soffice` into the PATH of this process and those it starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder), prepend=":")

    def saves(self, content: bytes) -> None:
        saved = self._folder / "saved"
        saved.write_bytes(content)
        self._install(_SAVES.format(content=str(saved)))

    def fails(self) -> None:
        self._install(_FAILS)

    def stalls(self) -> None:
        """Together with a process that it forks, as LibreOffice does."""
        self._install(_STALLS.format(pids=str(self._folder / "pids")))

    @property
    def pids(self) -> list[int]:
        """Of the last that stalled."""
        path = self._folder / "pids"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def _install(self, program: str) -> None:
        path = self._folder / "soffice"
        path.write_text(_HEAD + program)
        path.chmod(0o755)
