"""Sessions of browsers, which have logged in with a key and bear a cookie in its place."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from sqlmodel import col, delete, select

from soliplex.ingester.lib.access.keys import Bearer, bearer_by_hash, hash_of
from soliplex.ingester.lib.models import BrowserSession, Database
from soliplex.ingester.lib.models.columns import utcnow


async def begin_session(bearer: Bearer, lifetime: timedelta) -> tuple[str, datetime]:
    """Make a session for who bears the key; gives what the cookie is to hold, and when the session ends."""
    token, now = secrets.token_urlsafe(32), utcnow()
    ends = now + lifetime
    async with Database.session() as session:
        await session.exec(delete(BrowserSession).where(col(BrowserSession.expires_at) <= now))
        row = BrowserSession(token_hash=hash_of(token), key_hash=bearer.key_hash, created_at=now, expires_at=ends)
        session.add(row)
        await session.commit()
    return token, ends


async def bearer_of_session(token: str, master: Bearer | None) -> Bearer | None:
    """Whose session it is, while it lasts and its key does; `master` bears the key of the settings."""
    query = select(BrowserSession).where(col(BrowserSession.token_hash) == hash_of(token))
    async with Database.session(read_only=True) as session:
        row = (await session.exec(query)).first()
    if row is None or row.expires_at <= utcnow():
        return None
    if master is not None and row.key_hash == master.key_hash:
        return master
    return await bearer_by_hash(row.key_hash)


async def end_session(token: str) -> None:
    """Log out. A session that is not there has ended already."""
    async with Database.session() as session:
        await session.exec(delete(BrowserSession).where(col(BrowserSession.token_hash) == hash_of(token)))
        await session.commit()
