"""Which documents are searched.

What is asked of documents (their source, their batch, how their URI begins, what their metadata says) becomes a
condition on the table of documents, and the ids it finds one on the table of chunks, which LanceDB applies before it
counts to the limit: however rare the documents are, the search finds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from soliplex.ingester.lib.rag.readers import Reader

NOTHING: Final = "false"
"""The condition that no chunk fits."""
_PLAIN: Final = re.compile(r"-?\d+(\.\d+)?|true|false|null", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which documents to search; all that are given must fit."""

    source: str | None = None
    batch_id: int | None = None
    uri_prefix: str | None = None
    metadata: Mapping[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])

    def condition(self) -> str | None:
        """As a condition on documents. Their metadata is one JSON text, with a blank after each colon."""
        facts = {"source": self.source, "batch_id": self.batch_id}
        parts = [_holds(name, value) for name, value in facts.items() if value is not None]
        parts += [_holds(name, value) for name, value in self.metadata.items()]
        if self.uri_prefix:
            parts.append(f"uri LIKE '{_like(self.uri_prefix)}%' ESCAPE '\\'")
        return " AND ".join(parts) or None


async def chunks_within(reader: Reader, condition: str | None) -> str | None:
    """The condition on chunks that stands for one on documents; None where all documents fit."""
    if condition is None:
        return None
    inside = await _ids(reader, condition)
    if not inside:
        return NOTHING
    count = await reader.documents.count_rows()
    if len(inside) >= count:
        return None
    if len(inside) <= count // 2:
        return f"document_id IN ({quoted(inside)})"
    # The shorter list: LanceDB takes about 5 µs for each id.
    return f"document_id NOT IN ({quoted(await _ids(reader) - inside)})"


def quoted(ids: Collection[str]) -> str:
    return ", ".join("'{}'".format(each.replace("'", "''")) for each in sorted(ids))


async def _ids(reader: Reader, condition: str | None = None) -> set[str]:
    query = reader.documents.query().select(["id"])
    table = await (query.where(condition) if condition else query).to_arrow()
    return set(table.column("id").to_pylist())


def _holds(name: str, value: str | float) -> str:
    facts = [f"{json.dumps(name)}: {spelling}" for spelling in _spellings(value)]
    # The next character ends the value: without it, 1 would be found in 12.
    parts = [f"metadata LIKE '%{_like(fact)}{end}%' ESCAPE '\\'" for fact in facts for end in (",", "}")]
    return f"({' OR '.join(parts)})"


def _spellings(value: str | float) -> list[str]:
    """As JSON. A text that reads like a number or a truth value stands for that, too: whoever asks cannot tell."""
    spelled = [json.dumps(value)]
    return [*spelled, value] if isinstance(value, str) and _PLAIN.fullmatch(value) else spelled


def _like(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return text.replace("'", "''")
