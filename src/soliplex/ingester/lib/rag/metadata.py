"""What the metadata of a document say in a RAG database: what we know, and beside it what its senders say.

The names in `OURS` are ours alone: by them documents are found, shown and bounded in a search, and whoever uploads a
document must not be able to say that it belongs to another source. What a sender says under such a name is neither
believed nor lost: it is kept under `doc_meta.` and the name, such as `doc_meta.source`.

A document is one content, and the content may live at several places. `source` and `batch_id` are those of the place
that stands in the column `uri`, the one that came last; where there are several, `places` has them all:

    "places": [["/b.md", "beta", 2], ["/a.md", "alpha", 1]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

PLACES: Final = "places"
OF_A_PLACE: Final = ("source", "batch_id")
"""Names whose value each place of a document has for itself."""
OURS: Final = frozenset({*OF_A_PLACE, PLACES, "mime_type", "doc_hash"})
SENT: Final = "doc_meta."


class Placement(NamedTuple):
    """Where a document lives."""

    uri: str | None
    source: str | None
    batch_id: int | None


def index_metadata(known: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a document: what we know under names of ours, and what was sent with it."""
    assert known.keys() <= OURS, "a name that we use must be reserved"
    # Names that begin like a kept one are kept so too: else two of the sender's values could meet under one name.
    kept = {f"{SENT}{name}" if name in OURS or name.startswith(SENT) else name: value for name, value in sent.items()}
    return {**known, **kept}


def placed(metadata: Mapping[str, Any], places: Sequence[Placement]) -> dict[str, Any]:
    """The same metadata for a document that lives at these places; the first of them is the one that came last."""
    said = {**metadata, "source": places[0].source, "batch_id": places[0].batch_id}
    if PLACES in said and not _are_places(said[PLACES]):
        said[f"{SENT}{PLACES}"] = said[PLACES]  # a value of the sender, stored before the name was reserved
    said.pop(PLACES, None)
    return said if len(places) == 1 else {**said, PLACES: [list(place) for place in places]}


def places_of(uri: str | None, metadata: Mapping[str, Any]) -> list[Placement]:
    """Where a document lives, by its row in a RAG database."""
    found = metadata.get(PLACES)
    if _are_places(found):
        return [Placement(*place) for place in cast("list[Any]", found)]
    return [Placement(uri, *(metadata.get(name) for name in OF_A_PLACE))]


def name_at(uri: str) -> str:
    """What a document without a title is called: the last part of its URI."""
    return Path(uri).name or uri


def _are_places(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(map(_is_place, cast("list[Any]", found)))


def _is_place(found: Any) -> bool:
    match found:
        case [str(), str(), int() | None]:
            return True
        case _:
            return False
