"""The folders that an assistant may ingest from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from soliplex.ingester.lib.errors import InvalidInputError


class AllowedFolders:
    """Folders, and what lies in them wherever links lead."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = [_spelled(folder) for folder in folders]

    def __bool__(self) -> bool:
        return bool(self._folders)

    def __str__(self) -> str:
        return ", ".join(map(str, self._folders))

    def checked(self, path: str) -> Path:
        """The path as it is ingested; InvalidInputError if it leads out of the folders, or to nothing.

        It is checked as it is spelled, without dots, and as the system finds it, behind links. The first is what is
        ingested, so that a document has the same URI as by any other way in.
        """
        named = _spelled(Path(path))
        try:
            found = named.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # ValueError: a NUL in it; RuntimeError: links in a circle
            found = None
        for folder in self._folders:
            if named.is_relative_to(folder):
                if found is None:
                    raise InvalidInputError("path", f"{path!r} does not exist; name a folder or a file that does")
                if found.is_relative_to(folder.resolve()):
                    return named
        raise InvalidInputError("path", f"{path!r} is not in a folder that may be ingested from: {self}")


def _spelled(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  not resolved: see `checked`
