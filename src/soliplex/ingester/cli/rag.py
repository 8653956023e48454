"""Commands about the upkeep of databases: vacuum, vacuum-all, verify-db."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, echo, print_json, print_rows
from soliplex.ingester.lib.errors import IngesterError, LockedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

DatabaseName = Annotated[str, typer.Argument(metavar="DB", help="Name of a database below LANCEDB_DIR.")]
Force = Annotated[bool, typer.Option("--force", help="Break the lock if another holds the database.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for whoever holds the database.")]
_EXIT_CODES: Final = {"ok": 0, "nothing to do": 0, "failed": 1, "locked": 2}


async def vacuum(db: DatabaseName, *, force: Force = False, wait: Wait = 0, as_json: AsJson = False) -> None:
    """Compact a RAG database, and drop its old versions.

    Exit code 2 if another holds the database, 1 if there is none of this name.
    """
    async with open_database():
        done = await _vacuum(db, force=force, wait=wait)
    if as_json:
        print_json(done)
    else:
        echo(_sentence(done))


async def vacuum_all(*, force: Force = False, wait: Wait = 0, as_json: AsJson = False) -> None:
    """Compact all databases.

    Every RAG database, and the one that holds the documents and runs. Of SQLite, the file is written anew without the
    pages that deletions left; other writers wait meanwhile. PostgreSQL is asked for what it does by itself from time to
    time. One that another holds, or that fails, does not stop the others; the exit code is then 2, or 1.
    """
    await _vacuum_each(force=force, wait=wait, as_json=as_json, with_documents=True)


async def vacuum_all_rag(*, force: Force = False, wait: Wait = 0, as_json: AsJson = False) -> None:
    """Compact every RAG database.

    One that another holds, or that fails, does not stop the others; the exit code is then 2, or 1.
    """
    await _vacuum_each(force=force, wait=wait, as_json=as_json, with_documents=False)


async def _vacuum_each(*, force: bool, wait: float, as_json: bool, with_documents: bool) -> None:
    async with open_database():
        names = await _database_names()
        done = [await _tried(name, "rag", _vacuum(name, force=force, wait=wait)) for name in names]
        if with_documents:
            done.append(await _tried("documents", "documents", _compact(wait)))
    if as_json:
        print_json(done)
    else:
        if not any(each["kind"] == "rag" for each in done):
            echo(_no_databases())
        for each in done:
            echo(_sentence(each), err="error" in each)
    raise typer.Exit(max((_EXIT_CODES[each["status"]] for each in done), default=0))


async def _tried(name: str, kind: str, attempt: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Try to compact one database; gives the result or the failure, so that the next database has its turn."""
    try:
        return {**await attempt, "kind": kind}
    except Exception as error:
        told = error if isinstance(error, IngesterError) else _in_words(error)
        if told is None:
            raise
        status = "locked" if isinstance(told, LockedError) else "failed"
        return {"database": name, "kind": kind, "status": status, "error": str(told)}


def _in_words(error: Exception) -> IngesterError | None:
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.models.troubles import in_words

    settings = get_settings()
    return in_words(error, settings.doc_db_url, waited=settings.sqlite_busy_timeout_seconds)


async def _compact(wait: float) -> dict[str, Any]:
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.models.compacting import compact_database

    done = await compact_database(wait=max(wait, get_settings().sqlite_busy_timeout_seconds))
    return {
        "database": done.name,
        "status": "ok" if done.is_done else "nothing to do",
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "bytes_free": done.bytes_free,
        "is_held_back": done.is_held_back,
        "broken_lock_of": None,
    }


async def verify_db(
    db: Annotated[str | None, typer.Argument(metavar="[DB]", help="Name of a database. Default: all.")] = None,
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Store again what is half there or missing; delete what lives nowhere; correct places."
        ),
    ] = False,
    wait: Wait = 10,
    as_json: AsJson = False,
) -> None:
    """Check whether RAG databases are whole.

    A document must stand in all tables, once, or in none. What the runs have stored must be there, and what was deleted
    must not. Each document must be listed at the URIs where it lives. A workflow that ends with a vacuum writes a
    checksum beside the database; if the files do not match it any more, something else has changed them. Exit code 1 if
    something is wrong, 2 if another holds a database.
    """
    async with open_database():
        names = [db] if db else await _database_names()
        found = [await _verified(name, repair=repair, wait=wait) for name in names]
    print_rows(found, VERIFIED, as_json=as_json, nothing=_no_databases())
    if not as_json:
        _tell_more(found, repair=repair)
    if any(row["status"] == "changed" or (row["problems"] and not row["repaired"]) for row in found):
        raise typer.Exit(1)


async def _database_names() -> Sequence[str]:
    from soliplex.ingester.lib.rag.database_files import all_databases

    return await all_databases().names()


async def _vacuum(name: str, *, force: bool, wait: float) -> dict[str, Any]:
    from soliplex.ingester.lib import rag
    from soliplex.ingester.lib.access import audited
    from soliplex.ingester.lib.models import ResourceLockKind
    from soliplex.ingester.lib.rag.database_files import all_databases
    from soliplex.ingester.lib.wf.operations import force_release_resource_lock

    path, files = await _existing(name), all_databases()
    broken = None
    before = await files.size(name)
    async with audited("vacuum", database=name, force=force):
        if force:
            broken = await force_release_resource_lock(rag.rag_resource_key(path), requested_by="vacuum --force")
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


VERIFIED = {
    "database": "database",
    "documents": "documents",
    "half stored": "half",
    "missing": "missing",
    "stale": "stale",
    "checksum": "status",
    "since": "since",
}


async def _verified(name: str, *, repair: bool, wait: float) -> dict[str, Any]:
    from soliplex.ingester.lib.rag.database_files import all_databases

    path = await _existing(name)
    files = all_databases()
    now, record = await files.checksum(name), await files.recorded(name)
    status = "no record" if record is None else "unchanged" if record.checksum == now else "changed"
    return {
        "database": name,
        "status": status,
        "since": record.since if record else None,
        "checksum": now,
        "recorded": record.checksum if record else None,
        **await _held_beside_runs(path, repair=repair, wait=wait),
    }


async def _held_beside_runs(path: str, *, repair: bool, wait: float) -> dict[str, Any]:
    """What is wrong with the documents of a database, and what was done about it."""
    from soliplex.ingester.lib.operations import check_rag, repair_rag
    from soliplex.ingester.lib.rag.opening import RagUnusableError

    try:
        check = await check_rag(path, max_wait=wait)
    except RagUnusableError as error:
        return {
            "documents": None,
            "half": None,
            "missing": None,
            "stale": None,
            "misplaced": None,
            "problems": [str(error)],
        } | _NOTHING_DONE
    counts = {name: len(getattr(check, name)) for name in ("half", "missing", "stale", "misplaced")}
    problems = [
        f"{counts['half']} half stored: some tables hold them and others do not",
        f"{counts['missing']} missing: they were stored, and are not there",
        f"{counts['stale']} stale: they are there, and live at no URI any more",
        f"{counts['misplaced']} misplaced: they are said to live elsewhere than they do",
    ]
    said = [words for words, count in zip(problems, counts.values(), strict=True) if count]
    answer = {"documents": check.documents, **counts, "problems": said, **_NOTHING_DONE}
    if repair and not check.is_whole:
        done = await repair_rag(check, max_wait=wait)
        groups = {"run_group_ids": done.run_group_ids, "stored_again": done.stored_again, "deleted": done.deleted}
        groups["placed"] = done.placed
        answer |= {"repaired": not done.left, **groups}
        if done.left:
            again = "no run is known that stored them: ingest them again, or delete them"
            answer["problems"] = [*said, f"{len(done.left)} cannot be mended: {again}"]
    return answer


_NOTHING_DONE = {"repaired": False, "run_group_ids": [], "stored_again": 0, "deleted": 0, "placed": 0}


def _tell_more(found: Sequence[dict[str, Any]], *, repair: bool) -> None:
    for row in found:
        for problem in row["problems"]:
            echo(f"{row['database']}: {problem}", err=True)
        if done := _done_about(row):
            echo(f"{row['database']}: {', and '.join(done)}")
        elif row["problems"] and not repair and row["documents"] is not None:
            echo(f"to mend it: si-cli verify-db {row['database']} --repair", err=True)


def _done_about(row: dict[str, Any]) -> list[str]:
    """What was done about the problems of a database, whether or not it was all."""
    from soliplex.ingester.cli.output import counted

    done: list[str] = []
    if row["deleted"]:
        done.append(f"deleted {counted(row['deleted'], 'document')}")
    if row["run_group_ids"]:
        groups = "; ".join(f"si-cli status {group_id}" for group_id in row["run_group_ids"])
        stored = counted(row["stored_again"], "document")
        done.append(f"{stored} will be stored again by a worker (`si-cli worker --drain`); see {groups}")
    if row["placed"]:
        done.append(f"corrected where {counted(row['placed'], 'document')} is said to live")
    return done


async def _existing(name: str) -> str:
    from soliplex.ingester.lib.rag.inventory import existing_path

    return await existing_path(name)


def _sentence(done: dict[str, Any]) -> str:
    from soliplex.ingester.cli.output import as_size

    if "error" in done:
        return f"{done['database']}: {done['error']}"
    broken = f"; broke the lock of {done['broken_lock_of']}" if done["broken_lock_of"] else ""
    free = f" ({as_size(done['bytes_free'])} of deleted rows)" if done.get("bytes_free") else ""
    later = "; the file shrinks as soon as nobody reads from before" if done.get("is_held_back") else ""
    before, after = as_size(done["bytes_before"]), as_size(done["bytes_after"])
    return f"{done['database']}: {before} before{free}, {after} now{broken}{later}"


def _no_databases() -> str:
    from soliplex.ingester.lib.rag.folder import rag_folder

    return f"no RAG databases in {rag_folder().address}"
