"""Steps that need no code of users. Each takes the `params` of its task.

What takes long is not waited for in a slot: a step starts it, and asks to be called again (`Again`). All may be called
twice after a crash: an ingestion goes on where it was, a webhook is enqueued once by its key.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import httpx
from pathspec import GitIgnoreSpec

from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.tasks import FROM_OUTSIDE
from soliplex.ingester.installation.ingestion import Ingestion
from soliplex.ingester.installation.local_files import LocalFile, Rules, walk
from soliplex.ingester.installation.local_installation import LocalInstallation
from soliplex.ingester.installation.order import Order
from soliplex.ingester.installation.stages import Unwatched
from soliplex.ingester.installation.summary import Summary
from soliplex.ingester.lib.answers import Job, WebhookTry
from soliplex.ingester.lib.enums import WebhookStatus
from soliplex.ingester.lib.errors import IngesterError, InvalidInputError
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError, guarded_client
from soliplex.ingester.lib.http_statuses import may_pass
from soliplex.ingester.lib.search import search_documents
from soliplex.ingester.lib.webhooks import NewMessage, check_target, get_webhook, send_webhook
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.waiting import Again
from soliplex.ingester.lib.wiring import current_wiring

LOOKS_EVERY: Final = 0.3
LARGEST_ANSWER: Final = 1 << 20
BLOCK: Final = 64 << 10
MOST_TOLD: Final = 20
FIRST_LOOK: Final = 0.1
LONGEST_LOOK: Final = 10.0
"""Seconds between looks whether a receiver was told."""
HTTP_OK: Final = range(200, 300)


class StepFailedError(IngesterError):
    """A shipped step could not do its work now; it is tried again."""


def gather(input: dict[str, Any], task: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    """What the last subtasks of a task gave, by their ids."""
    del context
    beginning = f"{task['id']}__"
    return {name.removeprefix(beginning): value for name, value in input.items() if name.startswith(beginning)}


async def ingest(task: dict[str, Any], state: Any) -> Any:
    """Ingest a folder or a file (`path`, `include`, `source`), and wait for its end."""
    target = LocalInstallation(current_wiring())
    if state is None:
        order = await asyncio.to_thread(_order, task)
        summary = await Ingestion(order, target, Unwatched(), asyncio.Event()).run()
        if not summary.found:
            raise GoalError("path", _nothing_in(task, summary))
        told: dict[str, Any] = {
            name: getattr(summary, name) for name in ("found", "new", "changed", "unchanged", "uploaded")
        }
        told |= {"not_uploaded": summary.files_failed, "failed_before": len(summary.failed_before)}
        if summary.run_group_id is None:
            return _ended({**told, "completed": 0, "failed": 0})
        return Again({"group": summary.run_group_id, **told}, delay=LOOKS_EVERY)
    progress = await target.progress(state["group"])
    if not progress.is_over:
        return Again(state, delay=LOOKS_EVERY)
    return _ended({**state, "completed": progress.completed, "failed": progress.failed + progress.cancelled})


def _ended(told: dict[str, Any]) -> dict[str, Any]:
    """What an ingestion gives. One of which nothing came has failed."""
    failed = told["failed"] + told["not_uploaded"] + told["failed_before"]
    if failed and not told["completed"] and told["unchanged"] <= told["failed_before"]:
        raise PermanentError(f"none of {told['found']} files could be ingested; `si-cli status` tells why")
    return {**told, "failed": failed}


def _nothing_in(task: Mapping[str, Any], summary: Summary) -> str:
    left_out = ", ".join(f"{count} {why}" for why, count in summary.left_out.items())
    return f"{task['params']['path']!r} holds nothing to ingest{_as_asked(task)}" + (
        f"; left out: {left_out}" if left_out else ""
    )


def _as_asked(task: Mapping[str, Any]) -> str:
    include = _patterns(task)
    return f" ({', '.join(include)})" if include else ""


def _order(task: Mapping[str, Any]) -> Order:
    source = str(task["params"].get("source", "files"))
    return Order(paths=[_path(task)], rules=_rules(task), source=source, wait=False)


def _rules(task: Mapping[str, Any]) -> Rules:
    return Rules(include=[_in_any_case(pattern) for pattern in _patterns(task)])


def _patterns(task: Mapping[str, Any]) -> list[str]:
    """Which files are meant: a pattern, or several."""
    include = task["params"].get("include") or []
    patterns = cast("list[object]", include if isinstance(include, list) else [include])
    if not all(isinstance(each, str) for each in patterns):
        raise GoalError("include", f"is {include!r}; give a pattern such as *.pdf, or a list of them")
    return cast("list[str]", patterns)


def _in_any_case(pattern: str) -> str:
    """`*.pdf` as `*.[pP][dD][fF]`: whoever says PDFs means SCAN.PDF, too."""
    if "[" in pattern:
        return pattern
    return "".join(f"[{each.lower()}{each.upper()}]" if each.isascii() and each.isalpha() else each for each in pattern)


def _path(task: Mapping[str, Any]) -> Path:
    given = task["params"].get("path")
    if task.get(FROM_OUTSIDE):
        see_below_roots(given)  # first: a client that is refused must not learn what exists
    path = _expanded(given)
    if not given or not path.exists():
        raise GoalError("path", f"{given!r} does not exist; name a folder or a file of the worker's machine")
    if path.is_file() and not _is_meant(path, task):
        raise GoalError("path", f"{given!r} is no such file{_as_asked(task)}")
    return path


def _is_meant(path: Path, task: Mapping[str, Any]) -> bool:
    """Whether a file that is named is of the kind that is asked for: a walk would take it whatever it is."""
    patterns = _rules(task).include
    return not patterns or GitIgnoreSpec.from_lines(patterns).match_file(path.name)


def see_below_roots(path: object) -> None:
    """Refuse a path that a client names over HTTP and that, with all links followed, is below none of the folders."""
    real = _expanded(path).resolve()
    if not any(real.is_relative_to(root.resolve()) for root in current_wiring().settings.input_file_roots):
        raise GoalError("path", f"{path!r} is below no folder that clients may have read; see INPUT_FILE_ROOTS")


def _expanded(path: object) -> Path:
    if not isinstance(path, str) or "\x00" in path:
        raise GoalError("path", f"is {path!r}; give the name of a folder or a file")
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:
        raise GoalError("path", f"{path!r}: {exc}") from exc


async def segment(task: dict[str, Any], state: Any) -> Any:
    """Cut documents into articles (`path`, `include`): a segmentation job for each, one started at each call."""
    target = LocalInstallation(current_wiring())
    found: dict[str, Any] = state or {"files": await asyncio.to_thread(_files, task), "jobs": []}
    if len(found["jobs"]) < len(found["files"]):
        path = Path(found["files"][len(found["jobs"])])
        size = (await asyncio.to_thread(path.stat)).st_size
        accepted = await target.start_job(LocalFile(path, size), task["params"].get("options", {}))
        return Again({**found, "jobs": [*found["jobs"], [accepted.jobid, accepted.documentid]]})
    jobs = list[Job]()
    for job_id, _ in found["jobs"]:
        jobs.append(await target.job(job_id))
        if not jobs[-1].status.is_final:
            return Again(found, delay=LOOKS_EVERY)
    articles = sum([len(await target.articles(document)) for _, document in found["jobs"]])
    failed = [
        {"file": file, "job": job.id, "error": (job.errormessage or str(job.status)).partition("\n")[0]}
        for file, job in zip(found["files"], jobs, strict=True)
        if not job.status.is_success
    ]
    if failed and len(failed) == len(jobs):
        raise PermanentError(f"none of {len(jobs)} files could be segmented; the first: {failed[0]['error']}")
    return {
        "files": len(jobs),
        "articles": articles,
        "failed": len(failed),
        "failures": failed[:MOST_TOLD],
        "jobs": [job_id for job_id, _ in found["jobs"]],
    }


def _files(task: Mapping[str, Any]) -> list[str]:
    files = [str(each.path) for each in walk([_path(task)], _rules(task)) if isinstance(each, LocalFile)]
    if not files:
        raise GoalError("path", f"{task['params']['path']!r} holds nothing to segment{_as_asked(task)}")
    return files


async def parse(task: dict[str, Any], state: Any) -> Any:
    """Parse documents (`path`, `include`), as a part of ingesting them: what is parsed already is not parsed again."""
    return await ingest(task, state)


async def search(task: dict[str, Any]) -> dict[str, Any]:
    """The passages that answer `text` best (`limit`)."""
    params = task["params"]
    hits = await search_documents(str(params.get("text", "")), limit=int(params.get("limit", 5)))
    told = [{"uri": hit.uri, "score": hit.score, "content": hit.content[:500]} for hit in hits]
    return {"question": params.get("text"), "hits": told}


async def webhook(task: dict[str, Any], input: dict[str, Any], context: dict[str, Any], state: Any) -> Any:  # noqa: A002
    """Tell a receiver (`url`) what the tasks before gave: signed, and tried again until it has arrived."""
    if state is None:
        return Again(await _sent(task, input, context["run_id"]), delay=FIRST_LOOK)
    message = await get_webhook(state["message_id"])
    told = {"url": state["url"], "webhook_id": message.webhook_id, "message_id": message.id}
    match message.status:
        case WebhookStatus.DELIVERED:
            return told
        case WebhookStatus.DEAD:
            problem = _answer_of(message.last_try)
            raise PermanentError(
                f"{state['url']} could not be told: {problem}; see `si-cli webhooks show {message.id}`"
            )
        case WebhookStatus.PENDING:
            return Again({**state, "wait": min(state["wait"] * 2, LONGEST_LOOK)}, delay=state["wait"])


async def _sent(task: Mapping[str, Any], outputs: Mapping[str, Any], run_id: int) -> dict[str, Any]:
    settings = current_wiring().settings
    url = str(task["params"].get("url", ""))
    try:
        await check_target(url, settings)
    except InvalidInputError as exc:
        raise GoalError(exc.field, exc.problem) from exc  # another attempt would meet the same refusal
    body = {"type": "goal.task", "task": task["id"], "run_id": run_id, "outputs": outputs}
    message = NewMessage(
        stream=f"goal:{run_id}", url=url, event_type="goal.task", body=body, key=f"{run_id}:{task['id']}"
    )
    sent = await send_webhook(message, settings)
    return {"message_id": sent.id, "url": url, "wait": FIRST_LOOK}


def _answer_of(last: WebhookTry | None) -> str:
    if last is None:
        return "it was never tried"
    return last.error or f"it answered {last.status}"


async def http(task: dict[str, Any]) -> dict[str, Any]:
    """Ask an HTTP server (`url`, `method`, `body`); addresses inside are refused."""
    params, settings = task["params"], current_wiring().settings
    method, url = str(params.get("method", "GET")).upper(), str(params.get("url", ""))
    try:
        async with (
            guarded_client(allow_private=settings.allow_private_addresses) as client,
            client.stream(method, url, json=params.get("body")) as response,
        ):
            answer = await _limited(response)
    except (ForbiddenAddressError, httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
        raise PermanentError(f"{url}: {exc}") from exc
    except httpx.HTTPError as exc:
        raise StepFailedError(f"{url}: {exc or type(exc).__name__}") from exc
    status = response.status_code
    if status not in HTTP_OK:
        error = StepFailedError if may_pass(status) else PermanentError
        raise error(f"{url} answered {status}")
    return {"status": status, "body": answer}


async def _limited(response: httpx.Response) -> str:
    taken = bytearray()
    async for block in response.aiter_bytes():
        taken += block
        if len(taken) > LARGEST_ANSWER:
            raise PermanentError(f"{response.url} answered with more than {LARGEST_ANSWER} bytes")
    return taken.decode(errors="replace").replace("\x00", "�")


async def _last_output(process: Process) -> bytes:
    """The end of what the process says until it ends; what is before it may be of any size."""
    assert process.stdout is not None
    taken = b""
    while block := await process.stdout.read(BLOCK):
        taken = (taken + block)[-LARGEST_ANSWER:]
    await process.wait()
    return taken


async def shell(task: dict[str, Any]) -> dict[str, Any]:
    """Run a command (`command`) of the worker's machine, if ORCHESTRATOR_ALLOW_SHELL says so."""
    if not current_wiring().settings.orchestrator_allow_shell:
        raise PermanentError("commands are not run; set ORCHESTRATOR_ALLOW_SHELL=true on the workers to allow them")
    command = str(task["params"].get("command", ""))
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True
    )
    try:
        output = await _last_output(process)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    text = output.decode(errors="replace").replace("\x00", "�")
    if process.returncode:
        raise StepFailedError(f"{command!r} ended with {process.returncode}: {text[-500:].strip()}")
    return {"command": command, "output": text}
