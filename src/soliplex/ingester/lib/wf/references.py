"""References: what stands in the row of a step or a run in place of a value that is too large for it.

A row of a step is rewritten with every change of its status, and read by every claim; the output of a step is copied
into that of its run, and into the signal to a step that waits for the run. So JSON of more than 64 KiB stands in a
table of its own (`payload`), and a reference is what is written, read and copied:

    {":payload": 17, "bytes": 91000, "pages": 12}

Beside the id it keeps the numbers and short texts of the value, so that views find them where they always are. Handlers
see values. A reference stands where the value would: also inside the list of what the tasks of a map gave, in the
output of a run, and in what a step is told of the run that it waited for; never deeper. No value of a user may have the
key, so that nobody can make a reference to what is not theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

LARGE: Final = 64 * 1024
"""JSON of more bytes than this does not stand in a row."""
KEY: Final = ":payload"
DEEPEST: Final = 4
"""How deep references are looked for: a subflow's answer holds the run's output, which holds outputs of steps, which
hold those of tasks."""
_MARK: Final = f'"{KEY}":'
"""How the key of a reference appears in JSON. A text that holds the same characters cannot be mistaken for it, since
quotes inside texts are escaped."""
_MOST_KEPT: Final = 2_048
"""Most bytes of the numbers and short texts that are kept beside a reference."""


def is_large(text: str) -> bool:
    """Whether JSON is too large for a row."""
    return len(text) > LARGE or (4 * len(text) > LARGE and len(text.encode()) > LARGE)


def may_refer(text: str | None) -> bool:
    """Whether JSON has the key of references: in a row, that is a reference; in a user's value, it is refused."""
    return text is not None and _MARK in text


def reference_to(payload_id: int, size: int, value: Any = None) -> str:
    """What is written in place of the value, as JSON."""
    return json.dumps({KEY: payload_id, "bytes": size, **_kept_of(value)}, ensure_ascii=False)


def _kept_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    kept, left = dict[str, Any](), _MOST_KEPT
    for name, each in cast("dict[str, Any]", value).items():
        cost = len(name) + (len(each) if isinstance(each, str) else 8)
        if isinstance(each, str | int | float) and name != "bytes" and cost <= left:
            kept[name], left = each, left - cost
    return kept


def references_in(value: Any, depth: int = DEEPEST) -> Iterator[int]:
    """The ids of the payloads that the value refers to."""
    match value:
        case {":payload": int(payload_id)}:
            yield payload_id
        case dict() if depth:
            for each in cast("dict[str, Any]", value).values():
                yield from references_in(each, depth - 1)
        case list() if depth:
            for each in cast("list[Any]", value):
                yield from references_in(each, depth - 1)
        case _:
            pass


def filled(value: Any, contents: Mapping[int, Any], depth: int = DEEPEST) -> Any:
    """The value with contents in place of the references to them."""
    match value:
        case {":payload": int(payload_id)}:
            return contents[payload_id]
        case dict() if depth:
            return {name: filled(each, contents, depth - 1) for name, each in cast("dict[str, Any]", value).items()}
        case list() if depth:
            return [filled(each, contents, depth - 1) for each in cast("list[Any]", value)]
        case _:
            return value
