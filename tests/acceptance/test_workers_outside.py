"""A worker in plain bash and curl, against a real server: it claims, works, asks for more time, fails and completes."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import httpx
import pytest

from soliplex.ingester.lib.models import Database, WorkflowRun
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import workflow_from_mapping
from tests.support.serving import serving

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

WORKFLOW = workflow_from_mapping(
    {
        "id": "scans",
        "item_steps": {
            "ocr": {"type": "@ocr", "retries": 3, "backoff": "0s"},
            "after": {"method": "soliplex.ingester.example.parse"},
        },
    }
)
WORKER = r"""
set -euo pipefail
post() { curl -sS --fail-with-body -H 'Content-Type: application/json' -d "$2" "$API/$1"; }
field() { python3 -c 'import json,sys; v=json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v[int(k)] if k.isdigit() else v[k]
print(v)' "$1"; }
claimed=$(post claim '{"worker": "bash", "types": ["@ocr"], "wait_seconds": 20}')
lease=$(field lease <<<"$claimed"); id=$(field tasks.0.id <<<"$claimed")
post fail "{\"id\": $id, \"lease\": \"$lease\", \"message\": \"the lamp is broken\"}" > /dev/null
claimed=$(post claim '{"worker": "bash", "types": ["@ocr"], "wait_seconds": 20}')
lease=$(field lease <<<"$claimed"); id=$(field tasks.0.id <<<"$claimed")
post extend "{\"lease\": \"$lease\", \"progress\": 0.5, \"text\": \"half\"}" > /dev/null
words=$(field tasks.0.input.words <<<"$claimed")
post complete "{\"id\": $id, \"lease\": \"$lease\", \"output\": {\"text\": \"${words^^}\"}}"
post complete "{\"id\": $id, \"lease\": \"$lease\", \"output\": 2}" && exit 9 || true
"""


async def bash(script: str, **variables: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script,
        env=os.environ | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_a_worker_in_bash_and_curl_works_on_steps(
    tmp_path: Path, database: type[Database], database_url: str
) -> None:
    with serving(tmp_path, environment={"DOC_DB_URL": database_url}) as server:
        started = await ops.start_run(WORKFLOW, run=ops.NewRun(input={"words": "to be"}))
        code, printed = await bash(WORKER, API=f"{server.url}/api/v1/tasks")
        assert code == 0, printed
        assert '"status":"completed"' in printed
        assert "drop the result" in printed, "what comes twice is refused"
        run = await _ended(started.run_id)
        async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", timeout=60) as client:
            attempts = (await client.get(f"/workflow/runs/{started.run_id}/attempts")).json()
            bad = await client.post("/tasks/claim", json={"worker": "x", "types": ["ocr"]})
    assert run.status == "COMPLETED"
    assert [attempt["message"] for attempt in attempts] == ["the lamp is broken"]
    assert bad.status_code == 400
    assert "begin with an @" in bad.json()["error"]


async def _ended(run_id: int) -> WorkflowRun:
    async with asyncio.timeout(300):
        while True:
            async with Database.session(read_only=True) as session:
                run = await session.get_one(WorkflowRun, run_id)
            if run.completed_date is not None:
                return run
            await asyncio.sleep(0.05)
