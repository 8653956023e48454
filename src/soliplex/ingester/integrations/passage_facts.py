"""What is told of a passage beside its text."""

from __future__ import annotations

from typing import Any, Final

from soliplex.ingester.lib.answers import Hit

FOR_PROGRAMS: Final = ("score", "doc_hash", "chunk_id")
"""Facts that mean nothing to a language model."""


def facts_of(hit: Hit) -> dict[str, Any]:
    """Where the passage stands, for whoever cites it."""
    named = ("uri", "source", "title", "headings", "pages", *FOR_PROGRAMS)
    return {name: getattr(hit, name) for name in named}
