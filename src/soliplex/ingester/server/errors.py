"""The one table of errors and HTTP statuses, and the shape every error answer has.

    {"error": "what is wrong, in a sentence", "detail": ...}

A caller's mistake is always a 4xx: clients in the field repeat a request that was answered 5xx or 429.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.params import Form
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from soliplex.ingester.lib.errors import (
    ConfigurationError,
    ConflictError,
    IngesterError,
    InvalidInputError,
    LockedError,
    NotFoundError,
)
from soliplex.ingester.lib.fetching import FetchFailedError
from soliplex.ingester.lib.guarded_http import ForbiddenAddressError
from soliplex.ingester.lib.models import NotInitializedError
from soliplex.ingester.lib.operations.apart import BusyError, TooMuchWorkError
from soliplex.ingester.lib.rag.lance_words import RagTroubleError
from soliplex.ingester.lib.storage import (
    DocumentTooLargeError,
    InvalidKeyError,
    StoreUnavailableError,
)
from soliplex.ingester.lib.wf.errors import DefinitionError, PayloadTooLargeError
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE, is_about_the_data
from soliplex.ingester.lib.wf.parameter_sets import ProtectedParameterSetError
from soliplex.ingester.segmenter.jobs.job_options import BadFieldError, UnsupportedTypeError
from soliplex.ingester.server.access import path_of

_log = logging.getLogger(__name__)

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH")
_PROBLEMS_LISTED: Final = 25
_UNREADABLE_BODY: Final = "There was an error parsing the body"
"""What FastAPI says where JSON cannot be read, but for errors of its syntax, which it names."""
FORMS: Final = ("multipart/form-data", "application/x-www-form-urlencoded")
FORM_EXPECTED: Final = "must be multipart/form-data with a boundary, or application/x-www-form-urlencoded"
_NO_OBJECT: Final = "model_attributes_type"
"""What pydantic says of a body that is no object. So is one in JSON whose headers do not say that it is."""
_POLICY_VIOLATION: Final = 1008
TRY_AGAIN_IN: Final = 5
"""Seconds after which what is unavailable now may be asked for again."""


class UnauthorizedError(IngesterError):
    """The request does not say who sends it, or says it wrongly."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class MissingScopeError(IngesterError):
    """Who sends the request is known, and may not do this."""

    def __init__(self, name: str, missing: str, scopes: Collection[str]) -> None:
        super().__init__(
            f"this needs the scope {missing!r}, and the key {name!r} has {', '.join(sorted(scopes)) or 'none'}"
        )
        self.missing = missing
        self.scopes = sorted(scopes)


class ForeignHostError(IngesterError):
    """The request names a host that this server does not answer to."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"this server does not answer to the name {host!r}; "
            "if it should, add the name to the setting TRUSTED_HOSTS, or ask for a key (API_KEY_ENABLED)"
        )
        self.host = host


class ForeignOriginError(IngesterError):
    """A browser sends the request for a page of another origin."""

    def __init__(self, origin: str | None) -> None:
        page = f"pages of {origin!r}" if origin else "pages of other origins"
        super().__init__(
            f"{page} may not change anything here; "
            "if they should, add their origin, such as https://ui.example.org, to the setting ALLOWED_ORIGINS"
        )
        self.origin = origin


class SilentBrowserError(IngesterError):
    """A browser sends a GET that would change something, and does not say for which page."""

    def __init__(self) -> None:
        super().__init__(
            "this browser does not say for which page it sends this, and it would change something; send a POST"
        )


class RateLimitedError(IngesterError):
    """The client sends more than it may."""

    def __init__(self, rate: str, retry_after: int) -> None:
        super().__init__(f"more requests than {rate}: try again in {retry_after} seconds")
        self.retry_after = retry_after


# The nearest class of an error's ancestry decides.
STATUSES: Final[dict[type[BaseException], HTTPStatus]] = {
    InvalidInputError: HTTPStatus.BAD_REQUEST,
    BadFieldError: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnsupportedTypeError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    InvalidKeyError: HTTPStatus.BAD_REQUEST,
    DefinitionError: HTTPStatus.BAD_REQUEST,
    ForbiddenAddressError: HTTPStatus.BAD_REQUEST,
    UnauthorizedError: HTTPStatus.UNAUTHORIZED,
    MissingScopeError: HTTPStatus.FORBIDDEN,
    ForeignHostError: HTTPStatus.FORBIDDEN,
    ForeignOriginError: HTTPStatus.FORBIDDEN,
    SilentBrowserError: HTTPStatus.FORBIDDEN,
    ProtectedParameterSetError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    LockedError: HTTPStatus.CONFLICT,
    PayloadTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    DocumentTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    TooMuchWorkError: HTTPStatus.UNPROCESSABLE_ENTITY,
    RateLimitedError: HTTPStatus.TOO_MANY_REQUESTS,
    IngesterError: HTTPStatus.INTERNAL_SERVER_ERROR,
    # What this server is not set up for: repeating the request would not help.
    ConfigurationError: HTTPStatus.NOT_IMPLEMENTED,
    # Another server is at fault: the same request may succeed later.
    FetchFailedError: HTTPStatus.BAD_GATEWAY,
    StoreUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    RagTroubleError: HTTPStatus.SERVICE_UNAVAILABLE,
    BusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    NotInitializedError: HTTPStatus.SERVICE_UNAVAILABLE,
    **dict.fromkeys(TROUBLES_OF_THE_DATABASE, HTTPStatus.SERVICE_UNAVAILABLE),
}


class ErrorAnswer(BaseModel):
    """What is wrong, and where it helps, more about it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"error": "batch_id: must be at least 1", "detail": None}]}
    )

    error: str
    detail: Any = None


def error_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of its error answers."""
    return {status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase} for status in statuses}


def status_of(error: BaseException) -> HTTPStatus:
    if isinstance(error, DBAPIError) and error.orig is not None:
        return _status_of_database_error(error.orig)
    if is_about_the_data(error) or isinstance(error, OverflowError):
        return HTTPStatus.BAD_REQUEST
    kinds = type(error).__mro__
    return next((STATUSES[kind] for kind in kinds if kind in STATUSES), HTTPStatus.INTERNAL_SERVER_ERROR)


def _status_of_database_error(cause: BaseException) -> HTTPStatus:
    # SQLAlchemy's adapter wraps the driver's error once more.
    chain = [cause, cause.__cause__, cause.__context__]
    if any(is_about_the_data(each) for each in chain if each is not None):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE


def answer_for(error: BaseException, *, debug: bool = False) -> JSONResponse:
    """The answer to a request that ended with this error."""
    status = status_of(error)
    if isinstance(error, StoreUnavailableError):
        # The message names folders and endpoints, so it goes to the log only.
        text = f"the {error.store} store does not work at the moment"
    elif isinstance(error, IngesterError):
        text = str(error)
    elif status is HTTPStatus.BAD_REQUEST:
        text = "a value cannot be stored: numbers must fit, and text must not hold NUL"
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        text = "the database cannot be reached at the moment"
    else:
        text = "an error of the server; its log tells more"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("answered %d: %s", status, error, exc_info=error)
    return error_answer(status, text, detail=_detail(error, debug=debug), headers=_headers(status, error))


async def refuse(error: IngesterError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the error in place of what was asked for; a websocket is closed before it is open."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": ""})
    else:
        await answer_for(error)(scope, receive, send)


def error_answer(
    status: int, text: str, *, detail: Any = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    content = {"error": text} if detail is None else {"error": text, "detail": jsonable_encoder(detail)}
    return JSONResponse(content, status_code=status, headers=dict(headers) if headers else None)


def _detail(error: BaseException, *, debug: bool) -> Any:
    match error:
        case PayloadTooLargeError():
            return {"field": error.field, "limit": error.limit}
        case InvalidInputError():
            return {"field": error.field}
        case MissingScopeError():
            return {"missing_scope": error.missing, "scopes": error.scopes}
        case DefinitionError():
            return [str(problem) for problem in error.problems]
        case DocumentTooLargeError():
            return {"limit": error.limit}
        case _:
            return repr(error) if debug and not isinstance(error, IngesterError) else None


def _headers(status: HTTPStatus, error: BaseException) -> dict[str, str]:
    if isinstance(error, RateLimitedError):
        return {"Retry-After": str(error.retry_after)}
    if status is HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(TRY_AGAIN_IN)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}


def install_error_answers(app: FastAPI, *, debug: bool) -> None:
    """Answer everything that is raised on purpose, and what the framework refuses, in the one shape."""

    async def on_error(_request: Request, error: Exception) -> JSONResponse:
        return answer_for(error, debug=debug)

    app.add_exception_handler(IngesterError, on_error)
    app.add_exception_handler(OverflowError, on_error)
    for kind in TROUBLES_OF_THE_DATABASE:
        app.add_exception_handler(kind, on_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND and text == HTTPStatus.NOT_FOUND.phrase:
        text = f"there is nothing at {request.url.path}; /docs lists what there is"
    elif text == _UNREADABLE_BODY:
        text = "body: must be JSON in UTF-8, of numbers that are not too long, and not nested too deeply"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        possible = ", ".join(_methods_at(request))
        text = f"{request.method} is not possible at {request.url.path}; {possible} is"
        return error_answer(error.status_code, text, headers={"Allow": possible})
    return error_answer(error.status_code, text, headers=error.headers)


def _methods_at(request: Request) -> list[str]:
    """All methods at a path: each route knows its own methods only, and the first route answers."""
    app: FastAPI = request.app
    if documented := app.openapi()["paths"].get(path_of(request.scope)):
        return [method for method in _METHODS if method.lower() in documented]
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in app.routes)
    ]


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if _is_no_form(request):  # of which the framework sees no field, and would say that each is missing
        text = f"content-type: {FORM_EXPECTED}, not {request.headers['content-type'].partition(';')[0]}"
        detail = [{"field": "content-type", "problem": text}]
        return error_answer(HTTPStatus.UNPROCESSABLE_ENTITY, text, detail=detail)
    found = error.errors()
    if any(each["type"] == _NO_OBJECT and tuple(each["loc"]) == ("body",) for each in found):
        told = request.headers.get("content-type", "none")
        if "json" not in told:
            text = f"body: must be JSON, sent with `Content-Type: application/json`; its type is {told[:100]!r}"
            return error_answer(HTTPStatus.UNPROCESSABLE_ENTITY, text, detail=[{"field": "body", "problem": text}])
    problems = [_problem(each) for each in found[:_PROBLEMS_LISTED]]
    more = f"; and {len(found) - len(problems)} more" if len(found) > len(problems) else ""
    return error_answer(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "; ".join(text for text, _ in problems) + more,
        detail=[{"field": field, "problem": text} for text, field in problems],
    )


def _is_no_form(request: Request) -> bool:
    """Whether the route reads a form, and something else was sent."""
    expected: Any = getattr(request.scope.get("route"), "body_field", None)
    kind = request.headers.get("content-type", "")
    return bool(kind) and expected is not None and isinstance(expected.field_info, Form) and not kind.startswith(FORMS)


def _problem(found: Mapping[str, Any]) -> tuple[str, str]:
    """One refusal of the framework as a sentence, and the field it is about; the value itself is not repeated."""
    where = [str(part) for part in found["loc"]]
    field = ".".join(where[1:]) or where[0]
    text = found["msg"].removeprefix("Value error, ")
    return f"{field}: {text[:1].lower()}{text[1:]}", field
