"""One document on one docling-serve: submit it, wait for the task, fetch the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx

from soliplex.ingester.lib.http_statuses import may_pass
from soliplex.ingester.lib.parsing.errors import ParseFailedError, unreadable
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.parsing.serve.servers import ServerTrouble, TaskFailed

WAIT_SECONDS: Final = 10
"""How long a server holds the question whether a task has ended; its answer comes as soon as it has."""
SILENCE_SECONDS: Final = 60.0
"""Longest that a server may say nothing, uploads of large files apart: it answers questions even while it works."""
CONNECT_SECONDS: Final = 10.0
_ENDED: Final = frozenset({"success", "partial_success", "failure", "skipped"})
_FAILURE: Final = "failure"
_READABLE: Final = frozenset({"success", "partial_success"})
_LONGEST_DETAIL: Final = 500
_OF_THIS_SERVER: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
"""Answers that tell of a wrong key or address, which another of the servers may not have."""


@dataclass(slots=True)
class Progress:
    """How far a document came on a server."""

    is_worked_on: bool = False
    """Whether a server has said, while it was asked, that it has not finished yet."""


async def convert(
    client: httpx.AsyncClient, base: str, path: Path, name: str, options: ParseOptions, progress: Progress
) -> dict[str, Any]:
    """The `document` of the answer. ServerTrouble if another server may do better; ParseFailedError if none will."""
    try:
        task = await _submit(client, base, path, name, options)
        status = await _wait(client, base, task, progress)
        result = await _result(client, base, task, status)
    except httpx.HTTPError as exc:
        raise ServerTrouble(f"{base}: {_words(exc)}") from exc
    return _document_in(result, Path(name).suffix)


def _words(exc: httpx.HTTPError) -> str:
    match exc:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return f"it cannot be reached ({exc or type(exc).__name__})"
        case httpx.TimeoutException():
            return f"it said nothing for {SILENCE_SECONDS:g} s"
        case _:
            return f"it broke off ({exc or type(exc).__name__})"


async def _submit(client: httpx.AsyncClient, base: str, path: Path, name: str, options: ParseOptions) -> str:
    with path.open("rb") as file:
        answer = await client.post(
            f"{base}/convert/file/async",
            files={"files": (name, file, "application/octet-stream")},
            data=fields_of(options),
        )
    return str(_content(answer, what="a new task")["task_id"])


async def _wait(client: httpx.AsyncClient, base: str, task: str, progress: Progress) -> str:
    while True:
        answer = await _ask(client, f"{base}/status/poll/{task}?wait={WAIT_SECONDS}", what="the status of a task")
        status = str(answer.get("task_status", ""))
        if status in _ENDED:
            return status
        progress.is_worked_on = True


async def _result(client: httpx.AsyncClient, base: str, task: str, status: str) -> dict[str, Any]:
    answer = await client.get(f"{base}/result/{task}")
    if answer.status_code == HTTPStatus.NOT_FOUND and status == _FAILURE:
        raise TaskFailed(f"{base}: its task failed, and left no result")
    return _content(answer, what=f"the result of a task that ended as {status}")


async def _ask(client: httpx.AsyncClient, url: str, *, what: str) -> dict[str, Any]:
    answer = await client.get(url)
    if answer.status_code == HTTPStatus.NOT_FOUND:
        # The server was restarted, or another replica of it took the task, or the task itself failed.
        raise ServerTrouble(f"{url}: the server does not know {what}")
    return _content(answer, what=what)


def _content(answer: httpx.Response, *, what: str) -> dict[str, Any]:
    if may_pass(answer.status_code) or answer.status_code in _OF_THIS_SERVER:
        raise ServerTrouble(f"{answer.url}: HTTP {answer.status_code} instead of {what}: {_detail(answer)}")
    if not answer.is_success:
        problem = f"docling-serve refused the document: HTTP {answer.status_code}: {_detail(answer)}"
        raise ParseFailedError(f"{problem}; correct the parameters of the parse step")
    try:
        content = answer.json()
    except ValueError as exc:
        raise ServerTrouble(f"{answer.url}: no JSON, but {answer.text[:100]!r}; is it a docling-serve?") from exc
    if not isinstance(content, dict):
        raise ServerTrouble(f"{answer.url}: {what} is no JSON object; is it a docling-serve?")
    return content


def _detail(answer: httpx.Response) -> str:
    return " ".join(answer.text[:_LONGEST_DETAIL].split())


def _document_in(result: Mapping[str, Any], extension: str) -> dict[str, Any]:
    document = result.get("document") or {}
    if result.get("status") not in _READABLE or not document.get("json_content"):
        raise unreadable(extension, reader="docling-serve", detail=_reasons(result))
    return document


def _reasons(result: Mapping[str, Any]) -> str:
    messages = [str(error.get("error_message", error)) for error in result.get("errors") or ()]
    return "; ".join(dict.fromkeys(messages))[:_LONGEST_DETAIL] or f"its status is {result.get('status')!r}"


def fields_of(options: ParseOptions) -> dict[str, Any]:
    """The options as fields of a form; a list becomes a field given several times."""
    given = options.model_dump(
        include={
            "force_ocr",
            "ocr_engine",
            "ocr_lang",
            "pdf_backend",
            "pipeline",
            "table_mode",
            "do_table_structure",
            "do_picture_description",
            "do_picture_classification",
            "do_code_enrichment",
            "do_formula_enrichment",
            "image_export_mode",
            "page_range",
        }
    )
    wanted = {"to_formats": ["json", "md"], "do_ocr": options.ocr, **given, **options.docling_options}
    return {name: _field(value) for name, value in wanted.items() if value is not None and value != ()}


def _field(value: Any) -> str | list[str]:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return [str(_field(each)) for each in value]
        case dict():
            return json.dumps(value)
        case _:
            return str(value)
