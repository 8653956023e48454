"""Commands about the RAG databases: vacuum, vacuum-all, verify-db."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, print_json, print_rows
from soliplex.ingester.lib.errors import IngesterError, LockedError

if TYPE_CHECKING:
    from collections.abc import Sequence

DatabaseName = Annotated[str, typer.Argument(metavar="DB", help="Name of a database below LANCEDB_DIR.")]
Force = Annotated[bool, typer.Option("--force", help="Break the lock if another holds the database.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for whoever holds the database.")]


async def vacuum(db: DatabaseName, *, force: Force = False, wait: Wait = 0, as_json: AsJson = False) -> None:
    """Compact a RAG database, and drop its old versions.

    Exit code 2 if another holds the database, 1 if there is none of this name.
    """
    async with open_database():
        done = await _vacuum(db, force=force, wait=wait)
    if as_json:
        print_json(done)
    else:
        typer.echo(_sentence(done))


async def vacuum_all(*, force: Force = False, wait: Wait = 0, as_json: AsJson = False) -> None:
    """Compact every RAG database.

    One that another holds, or that fails, does not stop the others; the exit code is then 2, or 1.
    """
    from soliplex.ingester.cli.main import exit_code_of

    done: list[dict[str, Any]] = []
    code = 0
    async with open_database():
        for name in await _database_names():
            try:
                done.append(await _vacuum(name, force=force, wait=wait))
            except IngesterError as error:
                done.append({"database": name, "status": "locked" if isinstance(error, LockedError) else "failed"})
                done[-1]["error"] = str(error)
                code = max(code, exit_code_of(error))
    if as_json:
        print_json(done)
    else:
        for each in done:
            typer.echo(_sentence(each), err="error" in each)
        if not done:
            typer.echo(_no_databases())
    raise typer.Exit(code)


async def verify_db(
    db: Annotated[str | None, typer.Argument(metavar="[DB]", help="Name of a database. Default: all.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check RAG databases against their checksums.

    A workflow that ends with a vacuum writes the checksum of the database beside it. Exit code 1 if a database has
    changed since.
    """
    found = [await _verified(name) for name in ([db] if db else await _database_names())]
    columns = {"database": "database", "status": "status", "since": "since", "checksum": "checksum"}
    print_rows(found, columns, as_json=as_json, nothing=_no_databases())
    if any(row["status"] == "changed" for row in found):
        raise typer.Exit(1)


async def _database_names() -> Sequence[str]:
    from soliplex.ingester.lib.rag.files import all_databases

    return await all_databases().names()


async def _vacuum(name: str, *, force: bool, wait: float) -> dict[str, Any]:
    from soliplex.ingester.lib import rag
    from soliplex.ingester.lib.models import ResourceLockKind
    from soliplex.ingester.lib.rag.files import all_databases
    from soliplex.ingester.lib.wf.operations import force_release_resource_lock

    path, files = await _existing(name), all_databases()
    broken = None
    if force:
        broken = await force_release_resource_lock(rag.rag_resource_key(path), requested_by="vacuum --force")
    before = await files.size(name)
    async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.CLI, max_wait=wait) as lock:
        await rag.vacuum(path, fence=lock)
    holder = f"{broken.holder_kind} {broken.holder_id}" if broken else None
    return {
        "database": name,
        "status": "ok",
        "bytes_before": before,
        "bytes_after": await files.size(name),
        "broken_lock_of": holder,
    }


async def _verified(name: str) -> dict[str, Any]:
    from soliplex.ingester.lib.rag.files import all_databases

    await _existing(name)
    files = all_databases()
    now, record = await files.checksum(name), await files.recorded(name)
    if record is None:
        return {"database": name, "status": "no record", "since": None, "checksum": now, "recorded": None}
    return {
        "database": name,
        "status": "unchanged" if record.checksum == now else "changed",
        "since": record.since,
        "checksum": now,
        "recorded": record.checksum,
    }


async def _existing(name: str) -> str:
    from soliplex.ingester.lib.rag.reading import existing_path

    return await existing_path(name)


def _sentence(done: dict[str, Any]) -> str:
    from soliplex.ingester.cli.output import as_size

    if "error" in done:
        return f"{done['database']}: {done['error']}"
    broken = f"; broke the lock of {done['broken_lock_of']}" if done["broken_lock_of"] else ""
    return f"{done['database']}: {as_size(done['bytes_before'])} before, {as_size(done['bytes_after'])} now{broken}"


def _no_databases() -> str:
    from soliplex.ingester.lib.rag.locking import lancedb_dir

    return f"no RAG databases in {lancedb_dir()}"
