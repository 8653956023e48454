"""The state of a database's schema, and bringing it up to date.

Migrations are Alembic's, one history for both databases, numbered 0001, 0002, … A migration runs in one transaction on
both, so there is no half of one; processes that start together wait for the first on a lock that the transaction holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Final, override

import asyncpg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.models import connecting
from soliplex.ingester.lib.models.base import metadata

MIGRATIONS: Final = Path(__file__).parents[2] / "migrations"
_LOCK: Final = 0x50_6C_65_78  # any constant will do, so long as every process uses the same
_VERSION_FILE: Final = re.compile(r"^(\d{4})_\w+\.py$")


class Condition(Enum):
    """How a database's schema relates to this program's."""

    EMPTY = auto()
    CURRENT = auto()
    BEHIND = auto()
    NEWER = auto()
    DAMAGED = auto()


@dataclass(frozen=True, slots=True)
class State:
    """What was found in a database."""

    condition: Condition
    revision: str | None
    missing: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        return self.condition is Condition.CURRENT

    @override
    def __str__(self) -> str:
        match self.condition:
            case Condition.EMPTY:
                return "empty"
            case Condition.CURRENT:
                return f"up to date at revision {self.revision}"
            case Condition.BEHIND:
                return f"at revision {self.revision}, and this program needs {head()}"
            case Condition.NEWER:
                return f"at revision {self.revision}, newer than this program's {head()}"
            case Condition.DAMAGED:
                return f"incomplete: revision {self.revision or 'unknown'}, missing {', '.join(self.missing)}"


@cache
def revisions() -> tuple[str, ...]:
    names = (_VERSION_FILE.match(path.name) for path in (MIGRATIONS / "versions").iterdir())
    return tuple(sorted(name[1] for name in names if name))


def head() -> str:
    return revisions()[-1]


async def state_of(engine: AsyncEngine) -> State:
    async with engine.execution_options(read_only=True).connect() as connection:
        return await connection.run_sync(_state)


def _state(connection: sa.Connection) -> State:
    tables = set(sa.inspect(connection).get_table_names())
    ours = set(metadata.tables)
    revision = None
    if "alembic_version" in tables:
        revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    if revision is None:
        found = tables & ours
        return State(Condition.DAMAGED, None, ("the record of migrations",)) if found else State(Condition.EMPTY, None)
    if revision not in revisions():
        return State(Condition.NEWER, revision)
    if revision != head():
        return State(Condition.BEHIND, revision)
    missing = tuple(sorted(ours - tables))
    return State(Condition.DAMAGED if missing else Condition.CURRENT, revision, missing)


async def upgrade(engine: AsyncEngine) -> State:
    """Bring the schema up to date; gives the state that was found before."""
    async with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        return await connection.run_sync(_upgrade)


def _upgrade(connection: sa.Connection) -> State:
    before = _state(connection)
    match before.condition:
        case Condition.NEWER:
            raise ConfigurationError(
                connecting.SETTING, f"the database's schema is {before}", "upgrade soliplex-ingester"
            )
        case Condition.DAMAGED:
            fix = "restore a backup, or name an empty database"
            raise ConfigurationError(connecting.SETTING, f"the database's schema is {before}", fix)
        case Condition.EMPTY | Condition.BEHIND:
            migrate(connection, "head")
        case Condition.CURRENT:
            pass
    return before


def migrate(connection: sa.Connection, revision: str) -> None:
    """Run the migrations up or down to the revision, in the connection's transaction."""
    from alembic import command  # noqa: PLC0415  slow to import, and needed only where something is to be migrated
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    goes_down = revision.startswith("-") or revision == "base"
    (command.downgrade if goes_down else command.upgrade)(config, revision)


async def create_database(url: sa.URL) -> bool:
    """Create the PostgreSQL database of the URL if it is not there and the server lets us."""
    arguments = {"user": url.username, "password": url.password, "host": url.host, "port": url.port}
    arguments |= {"host": url.query["host"]} if "host" in url.query else {}
    try:
        connection = await asyncpg.connect(**arguments, database="postgres")  # pyright: ignore[reportCallIssue, reportArgumentType]  a URL's parts
    except (OSError, TimeoutError, asyncpg.PostgresError) as exc:
        raise connecting.explain(exc, url) from exc
    try:
        if await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", url.database):
            return False
        quoted = str(url.database).replace('"', '""')
        await connection.execute(f'CREATE DATABASE "{quoted}"')
    except asyncpg.DuplicateDatabaseError:
        return False
    except asyncpg.InsufficientPrivilegeError as exc:
        problem = f"database {url.database!r} does not exist, and user {url.username!r} may not create it"
        raise ConfigurationError(connecting.SETTING, problem, "create it as an administrator, or name another") from exc
    else:
        return True
    finally:
        await connection.close()
