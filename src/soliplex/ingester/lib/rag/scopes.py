"""Which documents are searched.

What is asked of documents (their source, their batch, how their URI begins, what their metadata says) becomes a
condition on the table of documents, and the ids it finds one on the table of chunks, which LanceDB applies before it
counts to the limit: however rare the documents are, the search finds them.

The metadata of a document are one JSON text to LanceDB. What looks like a fact in that text may stand inside of another
value, where whoever uploaded the document put it. So the condition only chooses who is looked at; where the text allows
for doubt, it is read as JSON.

A document that lives at several places is within the scope if one of them is: in that source, in that batch and below
that URI at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from soliplex.ingester.lib.rag.metadata import OF_A_PLACE, PLACES, Placement, places_of
from soliplex.ingester.lib.rag.readers import Reader

NOTHING: Final = "false"
"""The condition that no chunk fits."""
_SEVERAL: Final = f"metadata LIKE '%\"{PLACES}\": [[%'"
"""A document that lives at several places. Other documents may fit as well, if their metadata hold such a text."""
_DOUBTFUL: Final = f"(metadata LIKE '_%{{%' OR metadata LIKE '%\\\\%' ESCAPE '\\' OR {_SEVERAL})"
"""Documents whose metadata have to be read as JSON: they hold an object, an escaped letter, or several places. In all
other metadata, a name followed by its value is a fact."""
_PLAIN: Final = re.compile(r"-?\d+(\.\d+)?|true|false|null", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which documents to search; all that are given must fit."""

    source: str | None = None
    batch_id: int | None = None
    uri_prefix: str | None = None
    metadata: Mapping[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])

    @property
    def facts(self) -> list[tuple[str, str | int | bool]]:
        """What the metadata must say, by name."""
        ours = (("source", self.source), ("batch_id", self.batch_id))
        return [*((name, value) for name, value in ours if value is not None), *self.metadata.items()]

    def condition(self) -> str | None:
        """A condition that all documents of the scope fulfil. JSON texts have a blank after each colon."""
        parts = [_holds(name, value) for name, value in self.facts]
        if self.uri_prefix:
            parts.append(_begins(self.uri_prefix))
        return " AND ".join(parts) or None

    @property
    def doubtful(self) -> str:
        """Which of the documents that fulfil the condition have to be looked at."""
        return _DOUBTFUL if self.facts else _SEVERAL

    def fits(self, uri: str | None, metadata: str) -> bool:
        """Whether a document with this URI, and this JSON text for metadata, says all that is asked for."""
        said: dict[str, Any] = json.loads(metadata)
        return any(self.holds(place, said) for place in places_of(uri, said))

    def holds(self, place: Placement, metadata: Mapping[str, Any]) -> bool:
        """Whether one place of a document with these metadata is within the scope."""
        said = {**metadata, **{name: getattr(place, name) for name in OF_A_PLACE if name in metadata}}
        is_below = not self.uri_prefix or (place.uri or "").startswith(self.uri_prefix)
        return is_below and all(
            name in said and json.dumps(said[name]) in _spellings(value) for name, value in self.facts
        )


async def chunks_within(reader: Reader, scope: Scope | None) -> str | None:
    """The condition on chunks that stands for a scope; None where all documents fit."""
    condition = scope.condition() if scope else None
    if scope is None or condition is None:
        return None
    inside = await _inside(reader, scope, condition)
    if not inside:
        return NOTHING
    count = await reader.documents.count_rows()
    if len(inside) >= count:
        return None
    if len(inside) <= count // 2:
        return f"document_id IN ({quoted(inside)})"
    # The shorter of the two lists: LanceDB takes time for each id.
    return f"document_id NOT IN ({quoted(await _ids(reader) - inside)})"


async def _inside(reader: Reader, scope: Scope, condition: str) -> set[str]:
    certain = await _ids(reader, f"{condition} AND NOT {scope.doubtful}")
    query = reader.documents.query().select(["id", "uri", "metadata"]).where(f"{condition} AND {scope.doubtful}")
    doubtful = await query.to_arrow()
    # Reading the texts of very many documents takes its time: not on the loop.
    return certain | await asyncio.to_thread(_fitting, scope, doubtful)


def _fitting(scope: Scope, documents: Any) -> set[str]:
    rows = zip(*(documents.column(name).to_pylist() for name in ("id", "uri", "metadata")), strict=True)
    return {document_id for document_id, uri, metadata in rows if scope.fits(uri, metadata)}


def quoted(ids: Collection[str]) -> str:
    return ", ".join("'{}'".format(each.replace("'", "''")) for each in sorted(ids))


async def _ids(reader: Reader, condition: str | None = None) -> set[str]:
    query = reader.documents.query().select(["id"])
    table = await (query.where(condition) if condition else query).to_arrow()
    return set(table.column("id").to_pylist())


def _holds(name: str, value: str | float) -> str:
    facts = [f"{json.dumps(name)}: {spelling}" for spelling in _spellings(value)]
    # The next character ends the value: without it, 1 would be found in 12.
    parts = [_says(f"{fact}{end}") for fact in facts for end in (",", "}")]
    if name in OF_A_PLACE:
        parts += [f"{_SEVERAL} AND {_says(spelling)}" for spelling in _spellings(value)]
    return f"({' OR '.join(parts)})"


def _begins(prefix: str) -> str:
    quoted_prefix = json.dumps(prefix)[:-1]  # without the quote that ends it
    return f"(uri LIKE '{like(prefix)}%' ESCAPE '\\' OR {_SEVERAL} AND {_says('[' + quoted_prefix)})"


def _says(text: str) -> str:
    return f"metadata LIKE '%{like(text)}%' ESCAPE '\\'"


def _spellings(value: str | float) -> list[str]:
    """The value as JSON. A text that reads like a number or a truth value stands for that value, too."""
    spelled = [json.dumps(value)]
    return [*spelled, value] if isinstance(value, str) and _PLAIN.fullmatch(value) else spelled


def like(text: str) -> str:
    """The text as a part of a LIKE pattern in quotes, whose escape character is the backslash."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return text.replace("'", "''")
