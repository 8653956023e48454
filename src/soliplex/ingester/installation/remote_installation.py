"""The installation behind a server, asked over HTTP; its workers do the work."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import batched
from typing import Any, Final
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay

from soliplex.ingester.installation.file_pieces import pieces_of
from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.installation.multipart import Form
from soliplex.ingester.installation.overview import Overview
from soliplex.ingester.installation.overview_by_routes import overview_by_routes
from soliplex.ingester.installation.values import (
    Changes,
    Failure,
    FileRefusedError,
    Group,
    GroupProgress,
    Question,
    Retried,
    StageProgress,
    Standing,
    Started,
    Work,
)
from soliplex.ingester.lib.answers import (
    Accepted,
    AuditRecord,
    CreatedKey,
    GroupCoverage,
    Hit,
    Job,
    JobSegment,
    JobSegments,
    Key,
    KnownSource,
    Redelivered,
    RolledBack,
    StoredVersion,
    VersionDiff,
    Waiting,
    Webhook,
    WebhookDetails,
)
from soliplex.ingester.lib.enums import RunStatus, Scope, WebhookStatus
from soliplex.ingester.lib.errors import ConflictError, IngesterError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.http_statuses import PASSING, wait_asked_for
from soliplex.ingester.lib.wf.answers import FailedAttempt, GroupEta, SentSignal
from soliplex.ingester.lib.wf.errors import UnknownDefinitionError

PREFIX: Final = "/api/v1"
FAULT_OF_THE_FILE: Final = frozenset({400, 409, 413, 415, 422})
SAID_OF_THE_FILE: Final = frozenset({"doctype", "enable_ocr"})
"""Fields of a job that may be wrong for one file and right for the next."""
UNKNOWN_ROUTE: Final = frozenset({404, 405})
PATIENCE: Final = 300.0
"""Seconds a request is tried again where the server is busy, restarting or asks to wait."""
LONGEST_WAIT: Final = 10.0
LONGEST_WAIT_ASKED_FOR: Final = 60.0
TELL_EVERY: Final = 5.0
"""Seconds between messages about waiting: all uploads under way wait for the same thing."""
TIMEOUT: Final = httpx.Timeout(60, connect=10, pool=None)

DELETED_AT_ONCE: Final = 500
"""URIs in one request: so many of the longest ones still make a body that the server takes."""

SILENCE: Final = httpx.Timeout(60, connect=10, pool=None)
"""The timeout for events: a server to which nothing happens still says so every quarter of a minute."""
LISTEN_AGAIN: Final = 2.0
LOOKS_EVERY: Final = 0.5
"""Seconds between questions how far a group is, while the server tells of changes."""
_log = logging.getLogger(__name__)

type Content = Callable[[], Mapping[str, Any]]


class RemoteError(IngesterError):
    """The server refused what was asked, or did not answer."""

    def __init__(self, url: str, problem: str, *, status: int | None = None, wait: timedelta | None = None) -> None:
        # Not `super()`: a subclass may have a second base class, with another constructor.
        IngesterError.__init__(self, f"{url}: {problem}")
        self.url = url
        self.problem = problem
        self.status = status
        self.wait = wait
        """How long the server asks to wait before the next request."""


class RemoteNotFoundError(RemoteError, NotFoundError):
    """A server does not have what was asked for: to be caught as if it had been asked for here."""

    kind, name = "thing", "what the server says"


class RemoteConflictError(RemoteError, ConflictError):
    """The state of the thing on the server forbids what was asked."""


ERRORS: Final[Mapping[int, type[RemoteError]]] = {
    HTTPStatus.NOT_FOUND: RemoteNotFoundError,
    HTTPStatus.CONFLICT: RemoteConflictError,
}


@asynccontextmanager
async def open_remote(
    url: str,
    *,
    api_key: str | None = None,
    tell: Callable[[str], None],
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncGenerator[RemoteInstallation]:
    """A server, for the time of the block. `tell` is told when it makes us wait."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    base = url.rstrip("/").removesuffix(PREFIX)
    async with httpx.AsyncClient(
        base_url=f"{base}{PREFIX}", headers=headers, timeout=TIMEOUT, transport=transport
    ) as client:
        yield RemoteInstallation(client, base, tell)


class RemoteInstallation:
    """The installation behind a server."""

    is_here = False

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        tell: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._url = url
        self._tell = tell
        self._told_at = float("-inf")
        self._has_answered = False

    async def check(self, work: Work) -> None:
        workflows = await self._json("GET", "/workflow/definitions")
        _require("workflow", work.workflow_id, workflows)
        if work.param_id is not None:
            _require("parameter set", work.param_id, await self._json("GET", "/workflow/param-sets"))

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        if not hashes:
            return {}
        form = {"source": source, "hashes": json.dumps(dict(hashes))}
        rows = await self._json("POST", "/source-status", data=form)
        return {uri: Standing(row["status"]) for uri, row in rows.items()}

    async def metadata(self, doc_hash: str) -> Mapping[str, Any]:
        return (await self._json("GET", f"/document/{doc_hash}"))["document"]["doc_meta"]

    async def unread(self, kinds: Collection[str], work: Work) -> Mapping[str, str]:
        if not kinds:
            return {}
        chosen = {"workflow_definition_id": work.workflow_id, "param_id": work.param_id}
        query = {"kind": sorted(kinds), **{name: value for name, value in chosen.items() if value is not None}}
        return (await self._json("GET", "/document/unread-kinds", params=query))["unread"]

    async def uris_below(self, source: str, beginning: str) -> list[str]:
        found: list[str] = []
        is_last = False
        while not is_last:
            query = {"source": source, "uri_prefix": beginning, "after": found[-1] if found else ""}
            some = await self._json("GET", "/document/uris", params=query)
            found += some["uris"]
            is_last = some["is_last"]
        return found

    async def delete(self, source: str, uris: Sequence[str]) -> int:
        deleted = 0
        for some in batched(uris, DELETED_AT_ONCE):
            form = {"source": source, "uris": json.dumps(some)}
            deleted += (await self._json("POST", "/document/delete-uris", data=form))["deleted"]
        return deleted

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        try:
            answer = await self._json("GET", "/batch/unfinished", params={"source": source, "name": name})
        except RemoteError as error:
            if error.status not in UNKNOWN_ROUTE:
                raise
            return await self._unfinished_of_all(source, name)
        return answer["batch_id"]

    async def _unfinished_of_all(self, source: str, name: str) -> int | None:
        """As `unfinished_batch`, of a server of an earlier version, which can only list its batches."""
        batches = await self._json("GET", "/batch/")
        same = [batch for batch in batches if batch["source"] == source and batch["name"] == name]
        newest = max(same, key=lambda batch: batch["id"], default=None)
        return newest["id"] if newest and newest["completed_date"] is None else None

    async def create_batch(self, source: str, name: str) -> int:
        return (await self._json("POST", "/batch/", data={"source": source, "name": name}))["batch_id"]

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        fields = {
            "source_uri": file.uri,
            "source": source,
            "batch_id": str(batch_id),
            "doc_meta": json.dumps(dict(file.meta)),
            "priority": str(work.priority),
        }
        form = Form(fields, file.path.name, file.size)

        def content() -> Mapping[str, Any]:
            return {"content": form.body(pieces_of(file.bytes_at, sent)), "headers": form.headers}

        try:
            await self._send("POST", "/document/ingest-document", content)
        except RemoteError as error:
            if error.status in FAULT_OF_THE_FILE:
                raise FileRefusedError(error.problem) from error
            raise

    async def start_workflows(self, batch_id: int, work: Work) -> Started:
        form = {"batch_id": str(batch_id), "priority": str(work.priority), "only_unparsed": "true"}
        chosen = {"workflow_definition_id": work.workflow_id, "param_id": work.param_id}
        form |= {name: value for name, value in chosen.items() if value is not None}
        answer = await self._json("POST", "/batch/start-workflows", data=form)
        group_id = answer["run_group_id"]
        return Started(group_id, answer["workflows"])

    async def rates(self, work: Work) -> Mapping[str, Any]:
        chosen = {"workflow_definition_id": work.workflow_id, "param_id": work.param_id}
        asked = {name: value for name, value in chosen.items() if value is not None}
        try:
            return await self._json("GET", "/stats/processing-rates", params=asked)
        except RemoteError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}  # a server of an earlier version
            raise

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """The server's workers work anyway; we only watch."""
        yield

    @asynccontextmanager
    async def changes(self, group_id: int) -> AsyncGenerator[Changes]:
        """The server tells, by `/events`; for as long as it does not, one has to look."""
        changes = Changes(looks_every=LOOKS_EVERY)
        listening = asyncio.create_task(self._listen(group_id, changes))
        try:
            yield changes
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self, group_id: int, changes: Changes) -> None:
        while True:
            try:
                asked = self._client.stream("GET", "/events", params={"run_group_id": group_id}, timeout=SILENCE)
                async with asked as response:
                    changes.are_told = response.is_success
                    async for line in response.aiter_lines():
                        if line.startswith("data:"):
                            changes.happened.set()
            except httpx.HTTPError as error:
                _log.debug("the events of run group %s cannot be had: %r", group_id, error)
            changes.are_told = False
            changes.happened.set()  # changes may have been missed meanwhile
            await asyncio.sleep(LISTEN_AGAIN)

    async def has_workers(self) -> bool:
        workers = await self._json("GET", "/workers")
        return bool(workers["items"] if isinstance(workers, dict) else workers)

    async def start_fetches(self, batch_id: int, uris: Sequence[str], *, source: str, work: Work) -> Started:
        form = {"batch_id": str(batch_id), "source": source, "priority": str(work.priority), "uris": "\n".join(uris)}
        chosen = {"workflow_definition_id": work.workflow_id, "param_id": work.param_id}
        form |= {name: value for name, value in chosen.items() if value is not None}
        answer = await self._json("POST", "/batch/fetch-documents", data=form)
        return Started(answer["run_group_id"], answer["workflows"])

    async def groups(self, limit: int) -> tuple[Sequence[Group], int]:
        page = await self._json("GET", "/workflow/run-groups", params={"page": 1, "rows_per_page": limit})
        return [_group(each) for each in page["items"]], page["total"]

    async def group(self, group_id: int) -> Group:
        return _group(await self._json("GET", f"/workflow/run-groups/{group_id}"))

    async def overview(self) -> Overview:
        return await overview_by_routes(self._json, self.eta)

    async def coverage(self, group_id: int) -> GroupCoverage:
        try:
            answer = await self._json("GET", "/stats/coverage", params={"run_group_id": group_id})
        except RemoteError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return GroupCoverage(0, 0, 0, None, [])  # a server of an earlier version, which has no such route
        return TypeAdapter(GroupCoverage).validate_python(answer)

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        form = {"run_group_id": str(group_id), "hard": str(hard).lower()}
        answer = await self._json("POST", "/workflow/retry", data=form)
        return Retried(answer["reset_runs"], answer["reset_steps"])

    async def eta(self, group_id: int) -> GroupEta | None:
        try:
            answer = await self._json("GET", f"/workflow/run-groups/{group_id}/eta")
        except RemoteError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None  # a server of an earlier version, which has no such route
            raise
        return TypeAdapter(GroupEta).validate_python(answer)

    async def attempts(self, run_id: int, limit: int) -> tuple[Sequence[FailedAttempt], int]:
        query = {"page": 1, "rows_per_page": limit}
        page = await self._json("GET", f"/workflow/runs/{run_id}/attempts", params=query)
        return TypeAdapter(list[FailedAttempt]).validate_python(page["items"]), page["total"]

    async def signal(self, key: str, payload: Any) -> SentSignal:
        # Sent once: if only the answer was lost, the signal is recorded, and a second one would end another wait.
        content: Mapping[str, Any] = {"json": payload}
        response = await self._try("POST", f"/signals/{quote(key, safe='')}", lambda: content)
        return TypeAdapter(SentSignal).validate_python(response.json())

    async def webhooks(
        self, *, status: WebhookStatus | None, stream: str | None, limit: int
    ) -> tuple[Sequence[Webhook], int]:
        query = {"page": 1, "rows_per_page": limit, "status": status, "stream": stream}
        given = {name: value for name, value in query.items() if value is not None}
        page = await self._json("GET", "/webhooks", params=given)
        return TypeAdapter(list[Webhook]).validate_python(page["items"]), page["total"]

    async def webhook(self, message_id: int) -> WebhookDetails:
        return TypeAdapter(WebhookDetails).validate_python(await self._json("GET", f"/webhooks/{message_id}"))

    async def redeliver(self, message_id: int) -> Redelivered:
        return TypeAdapter(Redelivered).validate_python(await self._json("POST", f"/webhooks/{message_id}/redeliver"))

    async def redeliver_dead(self, since: datetime | None) -> Redelivered:
        given = {} if since is None else {"since": since.isoformat()}
        return TypeAdapter(Redelivered).validate_python(await self._json("POST", "/webhooks/redeliver", params=given))

    async def create_key(self, name: str, scopes: Collection[Scope], *, expires_in_days: float | None) -> CreatedKey:
        new = {"name": name, "scopes": [str(each) for each in scopes], "expires_in_days": expires_in_days}
        # Made once: were the answer lost, a second try would say that there is such a key already.
        return TypeAdapter(CreatedKey).validate_python(await self._json("POST", "/keys", json=new))

    async def keys(self, *, revoked: bool, limit: int) -> tuple[Sequence[Key], int]:
        query = {"page": 1, "rows_per_page": limit, "revoked": revoked}
        page = await self._json("GET", "/keys", params=query)
        return TypeAdapter(list[Key]).validate_python(page["items"]), page["total"]

    async def revoke_key(self, name: str) -> Key:
        return TypeAdapter(Key).validate_python(await self._json("DELETE", f"/keys/{quote(name, safe='')}"))

    async def audit(self, *, actor: str | None, action: str | None, limit: int) -> tuple[Sequence[AuditRecord], int]:
        query = {"page": 1, "rows_per_page": limit, "actor": actor, "action": action}
        given = {name: value for name, value in query.items() if value is not None}
        page = await self._json("GET", "/audit", params=given)
        return TypeAdapter(list[AuditRecord]).validate_python(page["items"]), page["total"]

    async def search(self, question: Question) -> list[Hit]:
        query = {
            "q": question.text,
            "kind": str(question.kind),
            "limit": question.limit,
            "db": question.db,
            "source": question.source,
            "batch_id": question.batch_id,
            "uri_prefix": question.uri_prefix,
            "min_score": question.min_score,
            "meta": [f"{name}={value}" for name, value in question.meta.items()],
        }
        given = {name: value for name, value in query.items() if value is not None}
        answer = await self._json("GET", "/search", params=given)
        return TypeAdapter(list[Hit]).validate_python(answer["results"])

    async def knows(self, uri: str, source: str) -> bool:
        try:
            await self.versions(uri, source, 1)
        except RemoteError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    async def find(self, text: str, limit: int) -> list[tuple[str, str]]:
        page = await self._json("GET", "/document/find", params={"pattern": text, "page": 1, "rows_per_page": limit})
        return [(each["uri"], each["source"]) for each in page["items"]]

    async def sources(self) -> list[KnownSource]:
        return TypeAdapter(list[KnownSource]).validate_python(await self._json("GET", "/document/sources"))

    async def text(self, uri: str, source: str, version: int | None) -> str:
        query = {"uri": uri, "source": source, "version": version}
        given = {"params": {name: value for name, value in query.items() if value is not None}}
        return (await self._send("GET", "/document/text", lambda: given)).text

    async def versions(self, uri: str, source: str, limit: int) -> tuple[Sequence[StoredVersion], int]:
        query = {"uri": uri, "source": source, "page": 1, "rows_per_page": limit}
        page = await self._json("GET", "/document/versions", params=query)
        return TypeAdapter(list[StoredVersion]).validate_python(page["items"]), page["total"]

    async def diff(
        self, uri: str, source: str, from_version: int | None, to_version: int | None, *, context: int
    ) -> VersionDiff:
        query = {"uri": uri, "source": source, "from": from_version, "to": to_version, "context": context}
        given = {name: value for name, value in query.items() if value is not None}
        return TypeAdapter(VersionDiff).validate_python(await self._json("GET", "/document/diff", params=given))

    async def roll_back(self, uri: str, source: str, version: int, work: Work) -> RolledBack:
        named = {"workflow_definition_id": work.workflow_id, "param_id": work.param_id}
        form = {
            "uri": uri,
            "source": source,
            "version": str(version),
            "priority": str(work.priority),
            **{name: value for name, value in named.items() if value is not None},
        }
        return TypeAdapter(RolledBack).validate_python(await self._json("POST", "/document/rollback", data=form))

    async def start_job(self, file: LocalFile, options: Mapping[str, str]) -> Accepted:
        form = Form(options, file.path.name, file.size, file="uploadfile")

        def content() -> Mapping[str, Any]:
            return {"content": form.body(pieces_of(file.bytes_at)), "headers": form.headers}

        try:
            answer = await self._send("POST", "/segmenter/jobs", content)
        except RemoteError as error:
            field, _, problem = error.problem.partition(": ")
            if field in options and field not in SAID_OF_THE_FILE:
                raise InvalidInputError(field, problem) from error
            if error.status in FAULT_OF_THE_FILE:
                raise FileRefusedError(error.problem) from error
            raise
        return TypeAdapter(Accepted).validate_json(answer.content)

    async def job(self, job_id: str) -> Job:
        return TypeAdapter(Job).validate_python(await self._json("GET", f"/segmenter/jobs/{quote(job_id)}"))

    async def cancel_job(self, job_id: str) -> None:
        try:
            await self._json("PATCH", f"/segmenter/jobs/{quote(job_id)}", json={"status": "CANCELED"})
        except RemoteConflictError:
            return  # it has ended

    async def delete_job(self, job_id: str) -> None:
        await self._send("DELETE", f"/segmenter/jobs/{quote(job_id)}", dict[str, Any])

    async def articles(self, document_id: int) -> list[JobSegment]:
        answer = await self._json("GET", f"/segmenter/documents/{document_id}/segments")
        return TypeAdapter(JobSegments).validate_python(answer).segments

    async def loads(self, group_id: int) -> Mapping[str, str]:
        del group_id
        return {}  # workers that have worked before have loaded what they need

    async def progress(self, group_id: int) -> GroupProgress:
        stats = await self._json("GET", f"/workflow/run-groups/{group_id}/stats")
        steps = await self._json("GET", "/stats/step-stats", params={"run_group_id": group_id})
        counts: dict[str, dict[str, int]] = {}
        for row in steps:  # in the order of the workflow
            counts.setdefault(row["workflow_step_name"], defaultdict(int))[row["status"]] += row["count"]
        return GroupProgress(
            status=RunStatus(stats["group_status"]),
            total=stats["total_runs"],
            completed=stats["completed"],
            failed=stats["failed"],
            cancelled=stats["cancelled"],
            stages=tuple(
                StageProgress(
                    name=name,
                    total=sum(count.values()),
                    completed=count[RunStatus.COMPLETED],
                    failed=count[RunStatus.FAILED],
                    cancelled=count[RunStatus.CANCELLED],
                    running=count[RunStatus.RUNNING],
                )
                for name, count in counts.items()
            ),
        )

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        query = {"run_group_id": group_id, "limit": limit}
        return [Failure.of(each) for each in await self._json("GET", "/workflow/failures", params=query)]

    async def reasons_to_wait(self, group_id: int, limit: int) -> list[Waiting]:
        query = {"run_group_id": group_id, "limit": limit}
        try:
            answer = await self._json("GET", "/workflow/reasons-to-wait", params=query)
        except RemoteError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return []  # a server of an earlier version, which has no such route
        return TypeAdapter(list[Waiting]).validate_python(answer)

    async def with_nothing_to_index(self, group_id: int, limit: int) -> list[str]:
        query = {"run_group_id": group_id, "limit": limit}
        return await self._json("GET", "/workflow/nothing-to-index", params=query)

    async def failed(self, source: str, beginning: str, limit: int) -> list[Failure]:
        query = {"source": source, "uri_prefix": beginning, "limit": limit}
        return [Failure.of(each) for each in await self._json("GET", "/workflow/failures", params=query)]

    async def _json(self, method: str, path: str, **content: Any) -> Any:
        response = await self._send(method, path, lambda: content)
        try:
            return response.json()
        except ValueError as error:
            raise RemoteError(
                self._url, f"answers {path} with {_kind(response)}, not JSON: is it an ingester?", status=200
            ) from error

    async def _send(self, method: str, path: str, content: Content) -> httpx.Response:
        retrying = AsyncRetrying(
            retry=retry_if_exception(self._may_pass),
            wait=_wait,
            stop=stop_after_delay(PATIENCE),
            before_sleep=self._tell_of_wait,
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(self._try, method, path, content)

    async def _try(self, method: str, path: str, content: Content) -> httpx.Response:
        try:
            response = await self._client.request(method, path, **content())
        except httpx.LocalProtocolError as error:  # more or less bytes came than were announced
            raise FileRefusedError("changed while it was being uploaded") from error
        except httpx.TransportError as error:
            raise RemoteError(self._url, _said(error)) from error
        self._has_answered = True
        if response.is_error:
            status = response.status_code
            kind = ERRORS.get(status, RemoteError)
            raise kind(self._url, _reason(response), status=status, wait=wait_asked_for(response.headers))
        return response

    def _may_pass(self, error: BaseException) -> bool:
        """Whether trying again can help. A server that has never answered is one whose address is wrong."""
        if not isinstance(error, RemoteError):
            return False
        return error.status in PASSING or (error.status is None and self._has_answered)

    def _tell_of_wait(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        seconds = state.next_action.sleep if state.next_action else 0
        now = time.monotonic()
        if isinstance(error, RemoteError) and seconds >= 1 and now - self._told_at >= TELL_EVERY:
            self._told_at = now
            self._tell(f"{error}; going on in {seconds:.0f} s")


def _require(kind: str, name: str | None, known: Sequence[Mapping[str, Any]]) -> None:
    names = [each["id"] for each in known]
    if name is not None and name not in names:
        raise UnknownDefinitionError(kind, name, names)


def _group(facts: Mapping[str, Any]) -> Group:
    moments = {name: _moment(facts[name]) for name in ("created_date", "completed_date")}
    return Group.of({**facts, **moments})


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _wait(state: RetryCallState) -> float:
    """What the server asks for; else twice as long each time, from a quarter of a second."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, RemoteError) and error.wait is not None:
        return min(error.wait.total_seconds(), LONGEST_WAIT_ASKED_FOR)
    return min(0.25 * 2 ** (state.attempt_number - 1), LONGEST_WAIT)


def _reason(response: httpx.Response) -> str:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "error" not in answer:
        return f"{response.status_code} {response.reason_phrase}".strip()
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        return "asks for a key, or for another one; set API_KEY"
    detail = answer.get("detail")
    return f"{answer['error']}: {detail}" if isinstance(detail, str) and detail else str(answer["error"])


def _said(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError):
        return _why_unreached(error)
    if isinstance(error, httpx.TimeoutException):
        return "does not answer"
    return f"the connection broke ({error or type(error).__name__})"


def _why_unreached(error: httpx.ConnectError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"cannot be reached: its certificate is not trusted ({cause.verify_message})"
            case ssl.SSLError():
                return "cannot be reached: it does not speak https there; is http:// meant?"
            case socket.gaierror():
                return "cannot be reached: there is no host of this name"
            case _:
                cause = cause.__cause__ or cause.__context__
    return "cannot be reached; is the server running?"


def _kind(response: httpx.Response) -> str:
    return response.headers.get("Content-Type", "something").partition(";")[0]
