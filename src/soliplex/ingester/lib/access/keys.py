"""Named keys: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, delete, func, select, update

from soliplex.ingester.lib.answers import CreatedKey, Key
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import ApiKey, BrowserSession, Database, Scope
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page

_log = logging.getLogger(__name__)

MARK: Final = "si_"
"""The beginning of every named key, by which a key is recognised where it should not be, such as in a log."""
LENGTH_OF_BEGINNING: Final = len(MARK) + 6
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
USE_IS_NOTED_EVERY: Final = timedelta(hours=1)
INCLUDED: Final = {Scope.OPERATE: frozenset({Scope.READ}), Scope.ADMIN: frozenset(Scope)}
"""Scopes that include others."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whose key it is, and what it opens."""

    name: str
    scopes: frozenset[Scope]
    key_hash: str


def with_included(scopes: Collection[Scope]) -> frozenset[Scope]:
    """The scopes, and those that they include."""
    return frozenset(scopes).union(*(INCLUDED.get(each, frozenset()) for each in scopes))


def hash_of(secret: str) -> str:
    # JSON may hold half of a surrogate pair: such a text is the secret of nobody, and no error.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


async def create_key(
    name: str, scopes: Collection[Scope], *, created_by: str, expires_in: timedelta | None = None
) -> CreatedKey:
    """Make a key. The answer is the only place where it can be read."""
    if not NAME.fullmatch(name):
        raise InvalidInputError("name", "must be 1 to 64 letters, digits, and . _ @ -, beginning with one of the first")
    if not scopes:
        raise InvalidInputError("scopes", f"must name at least one of {', '.join(Scope)}")
    if expires_in is not None and expires_in <= timedelta():
        raise InvalidInputError("expires_in_days", "must be more than 0")
    secret = MARK + secrets.token_urlsafe(32)
    now = utcnow()
    row = ApiKey(
        name=name,
        key_hash=hash_of(secret),
        beginning=secret[:LENGTH_OF_BEGINNING],
        scopes=[each.value for each in Scope if each in scopes],
        created_at=now,
        created_by=created_by,
        expires_at=None if expires_in is None else now + expires_in,
    )
    try:
        async with Database.session() as session:
            session.add(row)
            await session.flush()
            made = _facts(row)
            await session.commit()
    except IntegrityError as exc:
        raise ConflictError(f"there is a key named {name!r} already; revoke it first, or take another name") from exc
    return CreatedKey(**made, key=secret)


async def list_keys(*, revoked: bool = False, paging: Paging = FIRST_PAGE) -> Page[Key]:
    """Keys by age, the newest first; with `revoked`, those too that nobody can use any more."""
    own = [] if revoked else [col(ApiKey.revoked_at).is_(None)]
    rows = paging.within(select(ApiKey).where(*own).order_by(col(ApiKey.id).desc()))
    page = await read_page(rows, select(func.count()).select_from(ApiKey).where(*own), paging)
    return page.with_items([Key(**_facts(row)) for row in page.items])


async def revoke_key(name: str) -> Key:
    """End a key and the sessions that began with it."""
    async with Database.session() as session:
        query = select(ApiKey).where(col(ApiKey.name) == name, col(ApiKey.revoked_at).is_(None)).with_for_update()
        row = (await session.exec(query)).first()
        if row is None:
            raise NotFoundError("key", name)
        row.revoked_at = utcnow()
        session.add(row)
        await session.exec(delete(BrowserSession).where(col(BrowserSession.key_hash) == row.key_hash))
        revoked = Key(**_facts(row))
        await session.commit()
    return revoked


async def bearer_of(secret: str) -> Bearer | None:
    """Whose key this is; None if it is nobody's, or nobody's any more."""
    # What does not look like one of our keys costs no look at the database.
    return await bearer_by_hash(hash_of(secret)) if secret.startswith(MARK) else None


async def bearer_by_hash(key_hash: str) -> Bearer | None:
    """Whose key has this hash."""
    now = utcnow()
    async with Database.session(read_only=True) as session:
        row = (await session.exec(select(ApiKey).where(col(ApiKey.key_hash) == key_hash))).first()
    if row is None or row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        return None
    if row.last_used_at is None or now - row.last_used_at > USE_IS_NOTED_EVERY:
        await _note_use(key_hash, now)
    return Bearer(row.name, with_included([Scope(each) for each in row.scopes]), key_hash)


async def _note_use(key_hash: str, now: datetime) -> None:
    try:
        async with Database.session() as session:
            await session.exec(update(ApiKey).where(col(ApiKey.key_hash) == key_hash).values(last_used_at=now))
            await session.commit()
    except Exception as exc:  # noqa: BLE001  whoever bears a key is let in whether or not its use can be noted
        _log.warning("the use of a key could not be noted: %s", exc)


def _facts(row: ApiKey) -> dict[str, Any]:
    names = ("id", "name", "beginning", "created_at", "created_by", "expires_at", "last_used_at", "revoked_at")
    return {name: getattr(row, name) for name in names} | {"scopes": [Scope(each) for each in row.scopes]}
