"""What LanceDB could not do, in words for people. Its own name files of its source, and stand in the traceback."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.errors import IngesterError

_ITS_WORDS: Final = re.compile(r"^(?:lance error: )?LanceError\(\w+\): |^lance error: |, \S+\.rs:\d+(?::\d+)?.*$")
_NO_ROOM: Final = ("No space left on device", "Disk quota exceeded")
_NO_RIGHT: Final = ("Permission denied", "Read-only file system")
LONGEST: Final = 200


class RagTroubleError(IngesterError):
    """A RAG database could not be read or written at this moment; trying again may help."""

    def __init__(self, db_path: str | Path, problem: str) -> None:
        name = Path(db_path).name
        super().__init__(f"the RAG database {name} could not be read or written: {problem}")
        self.name = name
        self.problem = problem


@contextmanager
def lance_in_words(db_path: str | Path) -> Generator[None]:
    """Whatever Lance raises within the block is raised as RagTroubleError; all else as it is."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as exc:  # Lance raises these for any trouble, and gives no code
        if not _ITS_WORDS.match(str(exc)):
            raise
        raise RagTroubleError(db_path, _problem(str(exc))) from exc


def _problem(text: str) -> str:
    if any(each in text for each in _NO_ROOM):
        return "the disk that LANCEDB_DIR is on is full; make room on it, then try again"
    if any(each in text for each in _NO_RIGHT):
        return "LANCEDB_DIR may not be written to; permit it, then try again"
    words = _ITS_WORDS.sub("", text.splitlines()[0])
    return f"{words[:LONGEST]}; see to it that LANCEDB_DIR can be reached and written to, then try again"
