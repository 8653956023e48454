"""What the metadata of a document say in a RAG database: what we know, and beside it what its senders say.

The names in `OURS` are ours alone: by them documents are found, shown and bounded in a search, and whoever uploads a
document must not be able to say that it belongs to another source. What a sender says under such a name is neither
believed nor lost: it is kept under `doc_meta.` and the name, such as `doc_meta.source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OURS: Final = frozenset({"source", "batch_id", "mime_type", "doc_hash"})
SENT: Final = "doc_meta."


def index_metadata(known: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a document: what we know under names of ours, and what was sent with it."""
    assert known.keys() <= OURS, "a name that we use must be reserved"
    # Names that begin like a kept one are kept so too: else two of the sender's values could meet under one name.
    kept = {f"{SENT}{name}" if name in OURS or name.startswith(SENT) else name: value for name, value in sent.items()}
    return {**known, **kept}
