"""What is to be ingested, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from soliplex.ingester.installation.local_files import Rules
from soliplex.ingester.installation.values import Work
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storable import checked_integer, checked_name

LONGEST_NAME: Final = 200
"""Characters of the paths that the name of a batch holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Folders to walk and files to take, and what to do with them. A path that does not exist is refused."""

    paths: Sequence[Path]
    rules: Rules = field(default_factory=Rules)
    source: str = "files"
    batch_name: str | None = None
    """None: the batch is named after the paths."""
    work: Work = field(default_factory=Work)
    again: bool = False
    """Whether to ingest unchanged files, too."""
    dry_run: bool = False
    retry_failed: bool = False
    """Run again what failed before, of the files that are unchanged."""
    delete_missing: bool = False
    """Delete what is known of the folders and gone from them."""
    force: bool = False
    """Whether to delete missing files whatever speaks against it."""
    wait: bool = True
    uploads_at_once: int = 8

    def __post_init__(self) -> None:
        checked_name("source", self.source)
        checked_integer("priority", self.work.priority)
        if not self.paths:
            raise InvalidInputError("paths", "are none; name a folder or a file")
        for path in self.paths:
            if not path.exists():
                raise InvalidInputError("paths", f"{str(path)!r} does not exist; name a folder or a file that does")
        if self.delete_missing and not any(path.is_dir() for path in self.paths):
            raise InvalidInputError("delete_missing", "needs a folder: files that are named are there")
        if self.force and not self.delete_missing:
            raise InvalidInputError("force", "goes with delete_missing only")
        if self.uploads_at_once < 1:
            raise InvalidInputError("uploads_at_once", f"is {self.uploads_at_once}; give at least 1")

    @property
    def name(self) -> str:
        """The name of the batch, by which the same order finds later what it left unfinished."""
        return self.batch_name or name_of_batch(self.paths)


def name_of_batch(paths: Sequence[Path]) -> str:
    """The paths, whatever their order, cut where they are too long."""
    name = ", ".join(sorted({path.absolute().as_posix() for path in paths}))
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{name[:LONGEST_NAME]}… ({digest})"
