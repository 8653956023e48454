"""DOC_DB_URL: accept what people write, insist on a driver that works, and never show the password."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from soliplex.ingester.lib.config.checks import Unfit

_DRIVERS = {"sqlite": "aiosqlite", "postgresql": "asyncpg"}
_SQLITE_EXAMPLE = "sqlite+aiosqlite:///data/documents.db"
_POSTGRES_EXAMPLE = "postgresql+asyncpg://user:password@localhost/soliplex"
_LARGEST_PORT = 65535


def normalise_database_url(url: str) -> str:
    """Return `url` with the driver this product uses, or raise `Unfit`, whose text never holds the password."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or not scheme:
        raise Unfit("names no database driver", f"write {_SQLITE_EXAMPLE} or {_POSTGRES_EXAMPLE}")
    dialect, _, driver = scheme.lower().partition("+")
    dialect = "postgresql" if dialect == "postgres" else dialect
    _refuse_unusable_driver(dialect, driver)
    if dialect == "sqlite":
        _refuse_missing_file(rest)
    else:
        _refuse_bad_server(rest)
        # asyncpg knows libpq's sslmode under the name ssl, and fails at the first connection on the other.
        rest = re.sub(r"(?<=[?&])sslmode=", "ssl=", rest)
    return f"{dialect}+{_DRIVERS[dialect]}://{rest}"


def mask_password(url: str) -> str:
    """Return `url` with its password, if it has one, replaced by stars."""
    url = re.sub(r"(?<=[?&])(password|passwd)=[^&]*", r"\1=***", url)
    # Greedy up to the last @ before the path: a password may hold an @ of its own.
    return re.sub(r"(://[^/:@]*):[^/]*@", r"\1:***@", url)


def _refuse_unusable_driver(dialect: str, driver: str) -> None:
    if dialect not in _DRIVERS:
        raise Unfit(f"{dialect!r} is not a supported database", f"write {_SQLITE_EXAMPLE} or {_POSTGRES_EXAMPLE}")
    usable = _DRIVERS[dialect]
    if driver not in {"", usable}:
        raise Unfit(
            f"the driver {driver!r} cannot be used, since every query is asynchronous",
            f"write {dialect}+{usable}:// instead of {dialect}+{driver}://",
        )


def _refuse_missing_file(rest: str) -> None:
    if rest and not rest.startswith(("/", "?")):
        raise Unfit(
            "has two slashes where SQLite needs three",
            f"write {_SQLITE_EXAMPLE}, or four slashes before an absolute path",
        )
    if not rest.partition("?")[0].strip("/"):
        raise Unfit("names no database file", f"write {_SQLITE_EXAMPLE}")


def _refuse_bad_server(rest: str) -> None:
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port
    except ValueError:
        port = 0
        parts = None
    if parts is None or (port is not None and not 0 < port <= _LARGEST_PORT):
        raise Unfit(
            "its port is not a number from 1 to 65535",
            "write host:5432, and percent-encode any of / ? # : @ in the password",
        )
    if not parts.path.strip("/"):
        raise Unfit("names no database", f"end it with the name, as in {_POSTGRES_EXAMPLE}")
