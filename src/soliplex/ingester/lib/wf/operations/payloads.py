"""Writing large values apart from the rows that refer to them, and bringing them back.

A payload is written before the row that refers to it. If the worker dies in between, or has lost its lease, nothing
refers to the payload, and it goes with its run. `references.py` says where references stand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import batched
from typing import Any, Final, cast

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import to_json
from soliplex.ingester.lib.models.transactions import Rows, Script
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.references import KEY, LARGE, filled, is_large, may_refer, reference_to, references_in
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.work import ClaimedStep, Completed, Expanded, Parked, Result

READ_AT_ONCE: Final = 16
WRITTEN_AT_ONCE: Final = 16


def refuse_references(field: str, text: str) -> None:
    """Refuse a user's JSON that has the key of references."""
    if may_refer(text):
        raise InvalidInputError(field, f"has an object with the key {KEY!r}, which is kept for references; rename it")


async def values_of(texts: Sequence[str | None]) -> list[Any]:
    """What the columns of JSON say, with values in place of references."""
    values = [None if text is None else json.loads(text) for text in texts]
    referring = [place for place, text in enumerate(texts) if may_refer(text)]
    if referring:
        contents = await _contents({each for place in referring for each in references_in(values[place])})
        for place in referring:
            values[place] = filled(values[place], contents)
    return values


async def value_of(text: str | None) -> Any:
    """What a column of JSON says, with values in place of references."""
    return (await values_of([text]))[0]


async def json_of_value(value: Any) -> list[bytes]:
    """The value as JSON, in pieces. In place of a reference stands the stored text, which need not be parsed."""
    match value:
        case {":payload": int(payload_id)}:
            (row,) = await _rows({payload_id})
            text = row["content"]
            return await json_of_value(json.loads(text)) if may_refer(text) else [text.encode()]
        case dict() | list() if may_refer(to_json(value)):
            return await _json_of_parts(cast("dict[str, Any] | list[Any]", value))
        case _:
            return [to_json(value).encode()]


async def _json_of_parts(value: dict[str, Any] | list[Any]) -> list[bytes]:
    named = isinstance(value, dict)
    pieces = list[bytes]()
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        pieces += [b"," if pieces else b"", f"{to_json(key)}:".encode() if named else b"", *await json_of_value(each)]
    return [b"{", *pieces, b"}"] if named else [b"[", *pieces, b"]"]


async def _contents(ids: set[int]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for some in batched(sorted(ids), READ_AT_ONCE):
        rows = await _rows(set(some))
        contents = await values_of([row["content"] for row in rows])  # a list that was gathered may hold references
        found |= {row["id"]: content for row, content in zip(rows, contents, strict=True)}
    return found


async def _rows(ids: set[int]) -> Rows:
    rows = await Database.read(SQL.payloads_by_id(ids=sorted(ids)))
    if missing := ids - {row["id"] for row in rows}:
        raise PermanentError(f"payload {min(missing)} is gone: the run that it belonged to was deleted")
    return rows


def refers_to_payloads(step: ClaimedStep) -> bool:
    """Whether the row of a claimed step refers to what has to be read before its handler is called."""
    row = step.row
    return may_refer(row["input"]) or may_refer(row["state"]) or may_refer(row["answer"])


async def bring_payloads(steps: Sequence[ClaimedStep]) -> None:
    """Read what the rows of claimed steps refer to: a task's item, the state of a handler, the answer to a wait."""
    for step in steps:
        names = [name for name in ("input", "state", "answer") if may_refer(step.row[name])]
        if names:
            values = await values_of([step.row[name] for name in names])
            step.values = dict(zip(names, values, strict=True))


def any_large(results: Sequence[Result]) -> bool:
    """Whether a result holds what is too large for a row."""
    for result in results:
        text = result.output if isinstance(result, Completed) else result.state if isinstance(result, Parked) else None
        if text is not None and is_large(text):
            return True
    return False


async def lay_aside(results: Sequence[Result], steps: Sequence[ClaimedStep]) -> list[Result]:
    """The results with references in place of what is too large for a row."""
    given = {step.id: step.row["state"] for step in steps}
    return [await _laid_aside(result, given.get(result.step_id)) for result in results]


async def _laid_aside(result: Result, given_state: str | None) -> Result:
    match result:
        case Completed(output=str(text)) if is_large(text):
            reference = await Database.transact(_write(result.step_id, text))
            return replace(result, output=reference)
        case Parked(state=str(text)) if is_large(text):
            reference = await Database.transact(_write(result.step_id, text, is_state=True, given=given_state))
            return replace(result, state=reference)
        case _:
            return result


async def lay_aside_items(expanded: Expanded) -> Expanded:
    """The tasks of a map step with references in place of items that are too large for a row."""
    large = {place: text for place, item in enumerate(expanded.items) if is_large(text := to_json(item))}
    items = list(expanded.items)
    for some in batched(large.items(), WRITTEN_AT_ONCE):
        references = await Database.transact(_write_all(expanded.step_id, [text for _, text in some]))
        for (place, _), reference in zip(some, references, strict=True):
            items[place] = json.loads(reference)
    return replace(expanded, items=items)


def _write_all(step_id: int, texts: Sequence[str]) -> Script[list[str]]:
    references: list[str] = []
    for text in texts:
        references += [(yield from _write(step_id, text))]
    return references


def _write(step_id: int, text: str, *, is_state: bool = False, given: str | None = None) -> Script[str]:
    """Write a payload of the step; gives the reference to it. Of states, only the last two are of use."""
    rows = yield SQL.insert_payload_of_step(step_id=step_id, is_state=is_state, content=text, now=utcnow())
    if is_state and may_refer(given):
        yield SQL.delete_older_states(step_id=step_id, before=min(references_in(json.loads(given or "null"))))
    # No row: the step was deleted. The result will find no row either.
    return _reference(rows[0]["id"], text) if rows else "null"


def _reference(payload_id: int, text: str) -> str:
    # Only of an object anything is kept beside the reference. A list may be very long: it is not parsed for nothing.
    return reference_to(payload_id, len(text.encode()), json.loads(text) if text.startswith("{") else None)


def set_inputs(run_ids: Sequence[int], inputs: Sequence[str | None], now: datetime) -> Script[None]:
    """Give new runs, in the transaction that inserts them, the inputs that are too large for their rows."""
    for run_id, text in zip(run_ids, inputs, strict=True):
        if text is not None:
            rows = yield SQL.insert_payload_of_run(run_id=run_id, content=text, now=now)
            yield SQL.set_run_input(run_id=run_id, reference=_reference(rows[0]["id"], text))


def lay_aside_gathered(step_ids: Sequence[int], now: datetime) -> Script[None]:
    """Put references in place of the outputs of map steps, just gathered, that are too large for their rows."""
    for row in (yield SQL.lay_aside_large_outputs(ids=step_ids, large=LARGE, now=now)):
        yield SQL.set_step_output(step_id=row["step_id"], reference=reference_to(row["id"], row["size"]))
