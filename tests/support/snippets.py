"""The blocks of code in the documentation, page by page, and a folder in which they are executed in order.

A block that cannot be executed bears its reason on the line above it: `<!-- not run: it needs a bucket -->`. Blocks of
`text` are drawings, or what a command prints.

What a page finds in its folder: `handbook` and `reports` with a few documents, `samples`, and the checkout's `.venv`.
The addresses http://localhost:8000 and http://ingester.example.org:8000 stand for a real server on that folder, which
is started when a block first names it. `make` says what it would do, and does so only for `si-cli`: the rest, set-up
and the whole suite, is what brought us here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

from soliplex.ingester.lib.chunking import ChunkOptions
from soliplex.ingester.lib.embedding import EmbedOptions
from soliplex.ingester.lib.parsing import ParseOptions
from soliplex.ingester.lib.wf.definitions import parameter_set_from_mapping, workflow_from_json, workflow_from_mapping
from tests.support.forked import start_of
from tests.support.serving import serving

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
ADDRESS: Final = re.compile(r"http://(?:localhost|127\.0\.0\.1|ingester\.example\.org):8000")
PATIENCE: Final = 300.0
_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_REASON: Final = re.compile(r"<!-- not run: (.+?) -->\n\Z")
_STEPS: Final = {"parse", "chunk", "embed", "enrich", "route", "store"}
_MAKE: Final = """#!/bin/sh
set -e
asked=$("{make}" --dry-run --no-print-directory -C "{root}" "$@")
printf '%s\\n' "$asked" | sed -n 's#^\\.venv/bin/si-cli#si-cli#p' | sh -e
"""
_PYTHON: Final = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "the snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def run():
    found = eval(code, {"__name__": "snippet"})
    if inspect.isawaitable(found):
        await found
asyncio.run(run())
"""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of a page."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class SnippetError(AssertionError):
    """A block does not do what its page says."""

    def __init__(self, snippet: Snippet, output: str) -> None:
        super().__init__(f"{snippet}:\n{snippet.text}\n{output}")


def snippets_of(page: Path) -> Iterator[Snippet]:
    content = page.read_text("utf-8")
    for found in _FENCE.finditer(content):
        before = content[: found.start()]
        reason = _REASON.search(before)
        text = re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)
        yield Snippet(page, before.count("\n") + 1, found[2], text, reason and reason[1])


class PageFolder:
    """A fresh folder, in which the blocks of one page are executed: by processes that have imported all, or afresh."""

    def __init__(self, folder: Path, *, afresh: bool = False) -> None:
        self._folder, self._stack, self._server = folder, ExitStack(), ""
        _furnish(folder)
        commands = ROOT / ".venv" / "bin" if afresh else Path(start_of("si-cli")).parent
        self._python = [sys.executable, "-c"] if afresh else [start_of("python-c")]
        path = os.pathsep.join([str(folder / "bin"), str(commands), str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
        home = {"PATH": path, "HOME": str(folder), "COLUMNS": "120", "PYTHONPATH": str(folder)}
        quiet = {"PYDANTIC_DISABLE_PLUGINS": "logfire-plugin", "LOG_LEVEL": "WARNING"}
        # A page ingests a handful of files; a second process would load docling for nothing.
        self._environment = home | quiet | {"ISOLATION_PROCESSES": "1"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def execute(self, snippet: Snippet) -> None:
        match snippet.language:
            case "bash":
                self._call(snippet, "bash", "-euo", "pipefail", "-c", self._addressed(snippet.text))
            case "console":
                self._converse(snippet)
            case "python":
                self._call(snippet, *self._python, _PYTHON, given=self._addressed(snippet.text))
            case "env":
                self._set(snippet)
            case "yaml":
                check_definition(yaml.safe_load(snippet.text))
            case "json":
                check_definition(json.loads(snippet.text))
            case _:
                raise SnippetError(snippet, f"nobody knows how to execute {snippet.language or 'a block of no kind'}")

    def _set(self, snippet: Snippet) -> None:
        """Settings go into the `.env` that the page has made, and stay; without one they are only tried."""
        file = self._folder / ".env"
        kept = file.exists()
        with file.open("a") as lines:
            lines.write("\n" + snippet.text)
        self._call(snippet, "si-cli", "validate-settings")
        if not kept:
            file.unlink()

    def _converse(self, snippet: Snippet) -> None:
        """Commands after `$ `, each with the lines that it prints; a line may leave out its middle by an ellipsis."""
        for exchange in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
            lines = exchange.split("\n")
            length = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\"))
            command, shown = "\n".join(lines[:length]), lines[length:]
            printed = _loosely(self._call(snippet, "bash", "-euo", "pipefail", "-c", self._addressed(command)))
            for part in (part for line in shown for part in _loosely(line).split("…")):
                if part.strip() not in printed:
                    raise SnippetError(snippet, f"{part.strip()!r} is not in what it printed:\n{printed}")

    def _addressed(self, text: str) -> str:
        if ADDRESS.search(text) and not self._server:
            settings = {**self._environment, "DATA_DIR": str(self._folder / "data"), "INPUT_DIR": str(self._folder)}
            self._server = self._stack.enter_context(serving(self._folder / "log", environment=settings)).url
        return ADDRESS.sub(self._server, text)

    def _call(self, snippet: Snippet, *command: str, given: str | None = None) -> str:
        found = subprocess.run(
            command,
            check=False,
            cwd=self._folder,
            env=self._environment,
            input=given or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        if found.returncode:
            raise SnippetError(snippet, f"exit code {found.returncode}\n{found.stdout[-3000:]}")
        return found.stdout


def _loosely(text: str) -> str:
    """Numbers, hashes and the width of gaps differ from time to time."""
    return re.sub(r"\s+", " ", re.sub(r"\b(?:[0-9a-f]{16,}|\d+(?:[.,:]\d+)*)\b", "0", text))


def check_definition(value: Any) -> None:
    """Read the text as what it is: a workflow, a parameter set or a part of one, a configuration of haiku.rag."""
    if "embeddings" in value:
        from haiku.rag.config import AppConfig

        AppConfig.model_validate(value)
    elif "item_steps" in value:
        workflow_from_mapping(value)
    elif "steps" in value:
        workflow_from_json(value)
    else:
        config = value.get("config", value)
        assert set(config) <= _STEPS, config
        parameter_set_from_mapping({"id": "example", "config": config})
        for step, options in (("parse", ParseOptions), ("chunk", ChunkOptions), ("embed", EmbedOptions)):
            options.read(config.get(step, {}))


def _furnish(folder: Path) -> None:
    for name, text in _DOCUMENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "samples").symlink_to(ROOT / "samples")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    make = folder / "bin" / "make"
    make.parent.mkdir()
    found = subprocess.run(("sh", "-c", "command -v make"), check=True, capture_output=True, text=True).stdout.strip()
    make.write_text(_MAKE.format(make=found, root=ROOT))
    make.chmod(0o755)


_DOCUMENTS: Final = {
    "handbook/office.md": "# The office\n\n## Opening hours\n\nThe office opens at nine and closes at five.\n",
    "handbook/visitors/besuch.md": "# Besuch\n\nDas Museum ist von Dienstag bis Sonntag für Besucher geöffnet.\n",
    "reports/2026/bread.md": "# Bread\n\nA sourdough is started with flour and water, and fed every day.\n",
}
