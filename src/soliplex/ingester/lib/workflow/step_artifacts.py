"""What steps make of documents, kept by document, kind and the cumulative configuration of the step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import batched
from typing import Any, Final

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Document, WorkflowStepType
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.workflow.arguments import Earlier
from soliplex.ingester.lib.workflow.executing import step_config_of

SKIPPED: Final = {"skipped": True, "reason": "the artifact exists for this document and configuration"}


SHORT: Final = 64 << 10
"""Bytes of JSON that are read or written in less time than it takes to hand them to a thread and back."""
AT_ONCE: Final = 16
"""Documents whose artifacts are read or written beside one another: each waits for the disk most of the time."""


async def each_alone[A, R](work: Callable[[A], Awaitable[R]], items: Iterable[A]) -> list[R | Exception]:
    """The result of the work on each item, in their order. An error is the result of its item alone."""

    async def attempt(item: A) -> R | Exception:
        try:
            return await work(item)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the error of this item alone
            return exc

    results = list[R | Exception]()
    for some in batched(items, AT_ONCE):
        results += await asyncio.gather(*map(attempt, some))
    return results


def required(document: Document | None, doc_hash: str | None) -> Document:
    """The document of the run, which may have been deleted in the meantime."""
    if document is None:
        raise NotFoundError("document", doc_hash)
    return document


def the_step(earlier: Mapping[str, Earlier], step_type: WorkflowStepType) -> Earlier:
    """The earlier step of this type, whose artifact is needed."""
    try:
        return earlier[step_type]
    except KeyError:
        problem = f"the workflow has no {step_type} step before this one, whose result it needs"
        raise PermanentError(f"{problem}; add one") from None


async def are_there(doc_hash: str, config_id: int, *kinds: ArtifactType) -> bool:
    artifacts = get_artifacts()
    for kind in kinds:
        if not await artifacts.has(doc_hash, kind, config_id):
            return False
    return True


async def read_json(doc_hash: str, kind: ArtifactType, config_id: int) -> Any:
    return await decoded(await get_artifacts().read(doc_hash, kind, config_id))


async def decoded(content: bytes) -> Any:
    """The value of this JSON."""
    return json.loads(content) if len(content) <= SHORT else await asyncio.to_thread(json.loads, content)


async def write_json(doc_hash: str, kind: ArtifactType, config_id: int, value: Any, *, is_short: bool = False) -> None:
    """Store the value; one that is short is encoded here and now."""
    content = encoded(value) if is_short else await asyncio.to_thread(encoded, value)
    await get_artifacts().write(doc_hash, kind, config_id, content)


async def store_artifact(
    doc_hash: str, kind: ArtifactType, content: bytes | str | Any, *, step_config_id: int | None = None
) -> None:
    """Store what a handler made of a document: bytes and texts as they are, all else as JSON.

    It is kept under the configuration of the step that is being executed, or the one that is given; what the same step
    stored before is replaced.
    """
    config_id = await step_config_of(doc_hash) if step_config_id is None else step_config_id
    match content:
        case bytes():
            data = content
        case str():
            data = content.encode()
        case _:
            data = await asyncio.to_thread(encoded, content)
    await get_artifacts().write(doc_hash, kind, config_id, data)


def encoded(value: Any) -> bytes:
    """The value as JSON, in the form in which all JSON is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
