"""The folder of data: which documents it holds, and what is known of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class MissingDataError(RuntimeError):
    """A measure needs documents that the folder does not hold."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"it needs {path}; name a folder of data with --data")


class Edit(NamedTuple):
    """A real change of a document."""

    path: str
    before: str
    after: str


class Abstract(NamedTuple):
    """A document of SciFact."""

    id: str
    title: str
    text: str

    @property
    def markdown(self) -> str:
        return f"# {self.title}\n\n{self.text}\n"


class Data:
    """What the folder holds. What it lacks is told by the measure that asks for it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def path(self, *parts: str) -> Path:
        if self._folder is None:
            raise MissingDataError("/".join(parts))
        path = self._folder.joinpath(*parts)
        if not path.exists():
            raise MissingDataError(path)
        return path

    def files(self, name: str) -> list[Path]:
        """The files of a folder, by name."""
        return sorted(path for path in self.path(name).iterdir() if path.is_file())

    def edits(self) -> list[Edit]:
        lines = json_lines(self.path("revisions", "mdn-edits.jsonl"))
        return [Edit(line["path"], line["before"], line["after"]) for line in lines]

    def abstracts(self) -> list[Abstract]:
        lines = json_lines(self.path("scifact", "corpus.jsonl"))
        return [Abstract(line["_id"], line["title"], line["text"]) for line in lines]

    def questions(self) -> dict[str, str]:
        """SciFact's questions by id; only those of `judgements` can be scored."""
        return {line["_id"]: line["text"] for line in json_lines(self.path("scifact", "queries.jsonl"))}

    def rationales(self) -> list[tuple[str, dict[str, list[int]]]]:
        """SciFact's claims, with the sentences of each document that speak for or against them, by their numbers."""
        lines = json_lines(self.path("scifact", "queries.jsonl"))
        return [
            (line["text"], {document: _sentences(marked) for document, marked in line["metadata"].items()})
            for line in lines
            if line["metadata"]
        ]

    def judgements(self) -> dict[str, dict[str, int]]:
        """For each question of the test set, how well each document that answers it does."""
        found: dict[str, dict[str, int]] = {}
        _, *lines = self.path("scifact", "qrels", "test.tsv").read_text("utf-8").splitlines()
        for line in lines:
            question, document, score = line.split("\t")
            found.setdefault(question, {})[document] = int(score)
        return found


def _sentences(marked: list[dict[str, Any]]) -> list[int]:
    return sorted({number for each in marked for number in each["sentences"]})


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
