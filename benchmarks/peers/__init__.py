"""Other engines, doing the same work on the same server, each in a virtual environment of its own.

Imported also by the peers' interpreters, so it uses nothing beyond the standard library. A new peer is one entry in
PEERS, and a module of its name that gives the harness a `Peer`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

type OpenDatabase = Callable[..., AbstractAsyncContextManager[str]]

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / "benchmarks" / ".peers"
LONGEST: Final = 600.0
"""Seconds after which a peer is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is installed for a peer, and how much it is given to do: half a minute's work."""

    label: str
    version: str
    requirements: tuple[str, ...]
    databases: tuple[str, ...] = ("postgres",)
    workflows: int = 1_000
    tasks: int
    starts: int = 100


PEERS: Final = {
    "pgqueuer": Entry(
        label="PgQueuer", version="1.6.0", requirements=("pgqueuer[asyncpg]==1.6.0", "asyncpg==0.32.0"), tasks=20_000
    ),
    "procrastinate": Entry(
        label="Procrastinate",
        version="3.10.0",
        requirements=("procrastinate==3.10.0", "psycopg[binary]==3.3.8"),
        tasks=5_000,
    ),
    "absurd": Entry(
        label="Absurd", version="0.5.1", requirements=("absurd-sdk==0.5.1", "absurdctl==0.5.1"), tasks=5_000
    ),
    "dbos": Entry(
        label="DBOS",
        version="3.3.0",
        requirements=("dbos==3.3.0", "pysqlite3-binary==0.5.4.post2; sys_platform == 'linux'"),
        databases=("postgres", "sqlite"),
        tasks=2_000,
        starts=30,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """What is installed for a peer that executes graphs, and how much it is given to do: half a minute's work."""

    label: str
    version: str
    requirements: tuple[str, ...]
    dags: int
    tasks: int
    calls: int = 20


FLOW_PEERS: Final = {
    "dbos": FlowEntry(label="DBOS", version="3.3.0", requirements=PEERS["dbos"].requirements, dags=100, tasks=2_000),
    "prefect": FlowEntry(
        label="Prefect",
        version="3.8.8",
        requirements=("prefect==3.8.8", "fastapi==0.139.0"),
        dags=4,
        tasks=200,
        calls=10,
    ),
}


async def measure_flows(database: str, open_database: OpenDatabase, *, quick: bool) -> dict[str, Any]:
    """Every peer that executes graphs, in turn. One that fails says why."""
    del database  # each works on both
    results: dict[str, Any] = {}
    for name, entry in FLOW_PEERS.items():
        print(f"peer {name}", file=sys.stderr)
        results[name] = {"label": entry.label, "version": entry.version, "failed": {}}
        try:
            async with asyncio.timeout(LONGEST):
                results[name] |= await _measure_flows(name, entry, open_database, 4 if quick else 1)
        except (OSError, TimeoutError, RuntimeError, ValueError) as exc:
            results[name]["failed"] = {"everything": f"{type(exc).__name__}: {exc}"}
    return results


async def _measure_flows(name: str, entry: FlowEntry, open_database: OpenDatabase, divisor: int) -> dict[str, Any]:
    python = await environment(name, entry)
    sizes = {"dags": entry.dags, "dag-steps": 50 * divisor, "tasks": entry.tasks, "calls": entry.calls}
    arguments = [f"--{size}={max(value // divisor, 1)}" for size, value in sizes.items()]
    async with open_database(empty=True) as url:
        answer = await _run(str(python), "-m", f"benchmarks.peers.flows_{name}", f"--url={url}", *arguments)
    return json.loads(answer.splitlines()[-1])


async def measure_all(database: str, open_database: OpenDatabase, *, quick: bool) -> dict[str, Any]:
    """Every peer that works on this kind of database, in turn. One that fails says why."""
    results: dict[str, Any] = {}
    for name, entry in PEERS.items():
        if database not in entry.databases:
            continue
        print(f"peer {name}", file=sys.stderr)
        results[name] = {"label": entry.label, "version": entry.version, "failed": {}}
        try:
            async with asyncio.timeout(LONGEST):
                results[name] |= await _measure(name, entry, open_database, 5 if quick else 1)
        except (OSError, TimeoutError, RuntimeError, ValueError) as exc:
            results[name]["failed"] = {"everything": f"{type(exc).__name__}: {exc}"}
    return results


async def _measure(name: str, entry: Entry, open_database: OpenDatabase, divisor: int) -> dict[str, Any]:
    python = await environment(name, entry)
    sizes = {"workflows": entry.workflows, "tasks": entry.tasks, "starts": entry.starts}
    arguments = [f"--{size}={value // divisor}" for size, value in sizes.items()]
    async with open_database(empty=True) as url:
        answer = await _run(str(python), "-m", f"benchmarks.peers.{name}", f"--url={url}", *arguments)
    return json.loads(answer)


async def environment(name: str, entry: Entry | FlowEntry) -> Path:
    """The interpreter of the peer's environment, which is made anew when its requirements have changed."""
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "requirements"
    wanted = "\n".join(entry.requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        await _run(sys.executable, "-m", "venv", str(folder))
        await _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *entry.requirements)
        stamp.write_text(wanted)
    return python


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[1:3])} ended with {process.returncode}: {_reason(errors.decode())}")
    return output.decode()


def _reason(errors: str) -> str:
    """The last line that names an error, or else the last."""
    lines = [line for line in errors.splitlines() if line.strip()] or ["without a word"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])
