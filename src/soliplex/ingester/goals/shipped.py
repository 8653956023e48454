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
from typing import Any, Final

import httpx

from soliplex.ingester.goals.errors import GoalError
from soliplex.ingester.goals.tasks import FROM_OUTSIDE
from soliplex.ingester.installation.files import LocalFile, Rules, walk
from soliplex.ingester.installation.ingestion import Ingestion
from soliplex.ingester.installation.local import LocalInstallation
from soliplex.ingester.installation.order import Order
from soliplex.ingester.installation.stages import Unwatched
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError, guarded_client
from soliplex.ingester.lib.http_statuses import may_pass
from soliplex.ingester.lib.search import search_documents
from soliplex.ingester.lib.webhooks import NewMessage, check_target, send_webhook
from soliplex.ingester.lib.wf.errors import PermanentError
from soliplex.ingester.lib.wf.waiting import Again
from soliplex.ingester.lib.wiring import current_wiring

LOOKS_EVERY: Final = 0.3
LARGEST_ANSWER: Final = 1 << 20
BLOCK: Final = 64 << 10
MOST_TOLD: Final = 20
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
        order = _order(task)
        summary = await Ingestion(order, target, Unwatched(), asyncio.Event()).run()
        told = {name: getattr(summary, name) for name in ("found", "new", "changed", "unchanged", "uploaded")}
        told["not_uploaded"] = summary.files_failed
        if summary.run_group_id is None:
            return _ended(told, failed=summary.files_failed)
        return Again({"group": summary.run_group_id, **told}, delay=LOOKS_EVERY)
    progress = await target.progress(state["group"])
    if not progress.is_over:
        return Again(state, delay=LOOKS_EVERY)
    told = {**state, "completed": progress.completed, "failed": progress.failed + progress.cancelled}
    return _ended(told, failed=told["failed"] + told["not_uploaded"])


def _ended(told: dict[str, Any], *, failed: int) -> dict[str, Any]:
    if failed and not told.get("completed") and not told["unchanged"]:
        raise PermanentError(f"none of {told['found']} files could be ingested; `si-cli status` tells why")
    return {**told, "failed": failed}


def _order(task: Mapping[str, Any]) -> Order:
    params = task["params"]
    rules = Rules(include=[params["include"]] if params.get("include") else ())
    source = str(params.get("source", "files"))
    return Order(paths=[_path(task)], rules=rules, source=source, wait=False)


def _path(task: Mapping[str, Any]) -> Path:
    given = task["params"].get("path")
    if task.get(FROM_OUTSIDE):
        see_below_roots(given)  # first: who is refused learns nothing of what exists
    path = _expanded(given)
    if not given or not path.exists():
        raise GoalError("path", f"{given!r} does not exist; name a folder or a file of the worker's machine")
    return path


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
    jobs = [await target.job(job_id) for job_id, _ in found["jobs"]]
    if not all(job.status.is_final for job in jobs):
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
    rules = Rules(include=[task["params"]["include"]] if task["params"].get("include") else ())
    files = [str(each.path) for each in walk([_path(task)], rules) if isinstance(each, LocalFile)]
    if not files:
        raise GoalError("path", f"{str(_path(task))!r} holds no such files ({task['params'].get('include', 'any')})")
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


async def webhook(task: dict[str, Any], input: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    """Tell a receiver (`url`) what the tasks before gave: signed, and tried again until it has arrived."""
    settings = current_wiring().settings
    url = str(task["params"].get("url", ""))
    await check_target(url, settings)
    run_id = context["run_id"]
    body = {"type": "goal.task", "task": task["id"], "run_id": run_id, "outputs": input}
    message = NewMessage(
        stream=f"goal:{run_id}", url=url, event_type="goal.task", body=body, key=f"{run_id}:{task['id']}"
    )
    sent = await send_webhook(message, settings)
    return {"url": url, "webhook_id": sent.webhook_id, "message_id": sent.id}


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
