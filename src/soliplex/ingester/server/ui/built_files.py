"""What was built of the web UI, held in memory: some hundred kilobytes, read when a file is first asked for.

A file is looked up by its name among those that are there. No name of a request ever becomes a path.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

DIST: Final = Path(__file__).parent / "dist"
START: Final = "index.html"
# Vite writes a hash of the content into the names of these, so what has such a name never changes.
_HASHED: Final = "assets/"
_TYPES: Final = {".js": "text/javascript", ".svg": "image/svg+xml", ".css": "text/css", ".html": "text/html"}
_SMALLEST_TO_COMPRESS: Final = 500


@dataclass(frozen=True)
class BuiltFile:
    """One file of the web UI."""

    name: str
    path: Path

    @cached_property
    def content(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def compressed(self) -> bytes | None:
        """By gzip; None where that saves nothing."""
        if len(self.content) < _SMALLEST_TO_COMPRESS:
            return None
        made = gzip.compress(self.content, mtime=0)
        return made if len(made) < len(self.content) else None

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @property
    def media_type(self) -> str:
        suffix = self.path.suffix
        return _TYPES.get(suffix) or mimetypes.guess_type(self.name)[0] or "application/octet-stream"

    @property
    def never_changes(self) -> bool:
        return self.name.startswith(_HASHED)


def find(name: str) -> BuiltFile | None:
    """The file of this name; None if there is none."""
    return _built(_version()).get(name)


def is_built() -> bool:
    return find(START) is not None


def _version() -> int:
    """Changes when the UI is built anew beside a server that runs."""
    try:
        return (DIST / START).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@lru_cache(maxsize=1)
def _built(version: int) -> Mapping[str, BuiltFile]:
    if not version:
        return {}
    files = (path for path in DIST.rglob("*") if path.is_file())
    return {name: BuiltFile(name, path) for path in files if (name := path.relative_to(DIST).as_posix())}
