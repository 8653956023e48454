"""The versions of a URI: which there are, what differs between two, and going back to an earlier one.

    version_list  which versions there are, and what is still stored of each
    diffing       what differs between two, in text and in chunks
    version_text  what was read from one
    line_diff     which lines of two texts are the same
    rollback      an earlier content becomes the newest version

History is only ever added to: going back makes a new version, which says which one it repeats.
"""

from __future__ import annotations

from soliplex.ingester.lib.answers import (
    ChunkChange,
    ChunkDiff,
    DiffedChunk,
    RolledBack,
    StartedRun,
    StoredVersion,
    TextDiff,
    VersionDiff,
)
from soliplex.ingester.lib.operations.versions.diffing import diff_versions, diff_versions_as_json
from soliplex.ingester.lib.operations.versions.finding import is_known
from soliplex.ingester.lib.operations.versions.rollback import roll_back
from soliplex.ingester.lib.operations.versions.version_list import list_versions
from soliplex.ingester.lib.operations.versions.version_text import version_text

__all__ = [
    "ChunkChange",
    "ChunkDiff",
    "DiffedChunk",
    "RolledBack",
    "StartedRun",
    "StoredVersion",
    "TextDiff",
    "VersionDiff",
    "diff_versions",
    "diff_versions_as_json",
    "is_known",
    "list_versions",
    "roll_back",
    "version_text",
]
