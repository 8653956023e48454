"""`/keys`, `/session` and `/audit`: who may use the server, and who did what."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, SecretStr

from soliplex.ingester.lib import access
from soliplex.ingester.lib.answers import AuditRecord, CreatedKey, Key
from soliplex.ingester.lib.enums import Scope
from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models import PaginatedResponse
from soliplex.ingester.server.auditing import note
from soliplex.ingester.server.auth import COOKIE, STRANGER, bearer_of_key, caller_of, session_in
from soliplex.ingester.server.errors import UnauthorizedError, error_answers
from soliplex.ingester.server.parameters import AskedPage, Body, CurrentSettings, Text

router = APIRouter(tags=["access"])

type Keys = list[Key] | PaginatedResponse[Key]
type Records = list[AuditRecord] | PaginatedResponse[AuditRecord]


class NewKey(Body):
    """What a key is to be."""

    name: Text
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))]
    expires_in_days: Annotated[float | None, Field(gt=0, le=36_500, allow_inf_nan=False)] = None


class LogIn(Body):
    """What a browser logs in with."""

    key: Annotated[SecretStr, Field(min_length=1, max_length=1000)]


class Session(BaseModel):
    """The caller, as far as this server asks who calls."""

    needs_key: bool
    """Whether this server asks for a key at all."""
    name: str | None
    """The name of the key or the user; null for a caller who has not logged in."""
    scopes: list[Scope]
    expires_at: datetime | None = None
    """When the session ends, in the answer to logging in."""


@router.get("/keys", summary="Named keys, the newest first", response_model=Keys)
async def list_keys(
    request: Request,
    response: Response,
    asked: AskedPage,
    *,
    revoked: Annotated[bool, Query(description="Those too that were revoked.")] = False,
) -> Keys:
    """Names, scopes and dates. The keys themselves are not kept, so nobody can list them."""
    return await asked.answer(await access.list_keys(revoked=revoked, paging=asked.paging), request, response)


@router.post("/keys", status_code=201, summary="Make a named key", responses=error_answers(409))
async def create_key(new: NewKey, request: Request) -> CreatedKey:
    """The answer holds the key, once and never again. `operate` includes `read`, and `admin` includes all scopes."""
    note(request, name=new.name, scopes=new.scopes)
    lifetime = None if new.expires_in_days is None else timedelta(days=new.expires_in_days)
    by = caller_of(request.scope).name
    return await access.create_key(new.name, new.scopes, created_by=by, expires_in=lifetime)


@router.delete("/keys/{name}", summary="Revoke a named key", responses=error_answers(404))
async def revoke_key(name: Text) -> Key:
    """The key opens nothing from now on, and browsers that logged in with it are logged out."""
    return await access.revoke_key(name)


@router.get("/session", summary="Who am I")
async def get_session(request: Request, settings: CurrentSettings) -> Session:
    """The name and the scopes of the caller; a caller without a name has to log in."""
    caller = caller_of(request.scope)
    return Session(
        needs_key=settings.api_key_enabled,
        name=None if caller is STRANGER else caller.name,
        scopes=[each for each in Scope if each in caller.scopes],
    )


@router.post("/session", status_code=201, summary="Log a browser in", responses=error_answers(401, 409))
async def log_in(given: LogIn, request: Request, response: Response, settings: CurrentSettings) -> Session:
    """Takes a key, and sets a cookie that stands for it until the session ends."""
    if not settings.api_key_enabled:
        raise ConflictError("this server asks nobody for a key, so there is nothing to log in to")
    bearer = await bearer_of_key(given.key.get_secret_value().strip(), settings)
    if bearer is None:
        raise UnauthorizedError("this key is not known, or was revoked")
    lifetime = timedelta(hours=settings.session_hours)
    token, ends = await access.begin_session(bearer, lifetime)
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        path=_path(request),
        secure=request.url.scheme == "https" or settings.enable_hsts,
        httponly=True,
        samesite="strict",
    )
    scopes = [each for each in Scope if each in bearer.scopes]
    return Session(needs_key=True, name=bearer.name, scopes=scopes, expires_at=ends)


@router.delete("/session", status_code=204, summary="Log a browser out")
async def log_out(request: Request, response: Response) -> None:
    """Ends the session; it is no error if there is none."""
    if token := session_in(request.headers):
        await access.end_session(token)
    response.delete_cookie(COOKIE, path=_path(request), httponly=True, samesite="strict")


@router.get("/audit", summary="What was stopped, repeated or deleted, and by whom", response_model=Records)
async def list_audit(
    request: Request,
    response: Response,
    asked: AskedPage,
    actor: Annotated[Text | None, Query(description="Only what this key or user did.")] = None,
    action: Annotated[Text | None, Query(description="Only this kind of act.")] = None,
) -> Records:
    """The newest first. Entries are kept: nothing deletes them."""
    page = await access.list_audit(actor=actor, action=action, paging=asked.paging)
    return await asked.answer(page, request, response)


def _path(request: Request) -> str:
    """Where the cookie is sent: to this server alone, also below a root path that others share a host with."""
    return request.scope.get("root_path", "").rstrip("/") or "/"
