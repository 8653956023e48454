"""A real server whose parser needs no model, and does what hostile documents do to parsers if a document says so."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.faults import eventually
from tests.support.serving import Server, serving

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = """
from soliplex.ingester.lib.workflow import parsing
from tests.support.harmful_parsers import METHOD
parsing._PARSE = METHOD
from soliplex.ingester.cli import main
main()
"""
SETTINGS: Final = {
    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    "WEBHOOK_ALLOWED_TARGETS": "127.0.0.0/8",
    "WEBHOOK_FIRST_DELAY_SECONDS": "0.1",
    "WEBHOOK_LONGEST_DELAY_SECONDS": "0.5",
    "RETRY_FIRST_DELAY_SECONDS": "0.1",
}
THREE: Final = (
    "# Harbours\n\n"
    + "\n\n".join(
        f"## {name}\n\n" + f"The harbour of {name} is old, and ships of many countries come there every day. " * 12
        for name in ("Genoa", "Marseille", "Rotterdam")
    )
).encode()
"""A document of three articles, if they are to be small."""


@contextmanager
def segmenting(folder: Path, *options: str, afresh: bool = False, **environment: str) -> Generator[Server]:
    """A server. Several with one folder are replicas: they share a database and a store."""
    with serving(folder, *options, environment=SETTINGS | environment, program=PROGRAM, afresh=afresh) as server:
        yield server


async def send(client: httpx.AsyncClient, content: bytes, name: str = "harbours.md", **fields: str) -> dict[str, Any]:
    """Make a job; gives what the server answers."""
    answer = await client.post("/jobs", files={"uploadfile": (name, content)}, data={"article_size": "small", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def job_of(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(client: httpx.AsyncClient, job_id: str, **wanted: Any) -> dict[str, Any]:
    """The job, once it is as wanted."""
    job: dict[str, Any] = {}

    async def is_so() -> bool:
        nonlocal job
        job = await job_of(client, job_id)
        return all(job[name] == value for name, value in wanted.items())

    await eventually(is_so, f"the job is {wanted}", within=300)
    return job


async def ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    job: dict[str, Any] = {}

    async def is_final() -> bool:
        nonlocal job
        job = await job_of(client, job_id)
        return job["status"] in {"COMPLETED", "FAILED", "CANCELED"}

    await eventually(is_final, "the job has ended", within=300)
    return job


async def segments_of(client: httpx.AsyncClient, document_id: int) -> list[dict[str, Any]]:
    answer = await client.get(f"/documents/{document_id}/segments")
    assert answer.status_code == 200, answer.text
    return answer.json()["segments"]
