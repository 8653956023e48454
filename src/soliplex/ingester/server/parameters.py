"""What several routes take and give: ids, texts, pages, and values that come in the query or in the body."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi import Depends, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.params import Form
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from starlette.datastructures import UploadFile

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import RunStatus
from soliplex.ingester.lib.pieces import ROWS, json_array_in_pieces
from soliplex.ingester.lib.storable import LARGEST_INTEGER, unstorable_in
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.errors import suggestion
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.views import FIRST_ROWS, LARGEST_PAGE, Page, Paging
from soliplex.ingester.server.bodies import is_form

LARGEST_BIG_INTEGER: Final = 2**63 - 1
DEFAULT_ROWS: Final = 50
LONGEST_NAME: Final = 100
"""Characters of a field's name that are repeated in an answer."""
READING: Final = frozenset({"GET", "HEAD"})
_FLAG: Final = TypeAdapter(bool)


def _storable(text: str) -> str:
    if found := unstorable_in(text):
        raise ValueError(f"must not hold {found}")
    return text


Id = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
"""The id of a batch or a group."""
ID_SCHEMA: Final = {"type": "integer", "minimum": 1, "maximum": LARGEST_INTEGER}
BigId = Annotated[int, Field(ge=1, le=LARGEST_BIG_INTEGER)]
"""The id of a run, a step or an event."""
Priority = Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER, description="Higher goes first.")]
Text = Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(_storable)]
LongText = Annotated[str, Field(min_length=1), AfterValidator(_storable)]
TextIfAny = Annotated[str, Field(max_length=2048), AfterValidator(_storable)]
"""A text of a form, where an empty field counts as not given."""
OldestFirst = Annotated[bool, Query(description="The other way round: the oldest first.")]
Status = Annotated[
    RunStatus,
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
    Field(description="In capitals or not.", examples=["FAILED"]),
]


class Body(BaseModel):
    """What a request holds as a JSON object. Like a form, it holds nothing that nobody reads."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_known(cls, value: object) -> object:
        # Pydantic would list each unknown name: a body that holds nothing else keeps it busy for seconds.
        if isinstance(value, dict):
            see_known(value, cls.model_fields)
        return value


async def _registry() -> Registry:
    return get_registry()


def _written_out(value: object) -> object:
    # pydantic would take a number for seconds since 1970.
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\d", value):
        raise ValueError("must be a date and a time as in ISO 8601")
    return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("must lie within the years 1 to 9999") from exc


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_utc)]
"""A date and a time with a zone, written out."""


async def _settings(request: Request) -> Settings:
    return request.app.state.settings


CurrentSettings = Annotated[Settings, Depends(_settings)]
"""The settings of the application."""
Definitions = Annotated[Registry, Depends(_registry)]
"""The workflows and parameter sets of the application."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows a client asked for, and whether it knows of pages."""

    paging: Paging
    is_paged: bool

    async def answer[T](self, page: Page[T], request: Request, response: Response) -> Any:
        """The page; or, for a client that asked for none, the plain list, with a link to the rest if there is more."""
        self._link_to_rest(page, request, response)
        if len(page.items) > ROWS:
            return self._written(page, await json_list(page.items), response)
        return page.as_response() if self.is_paged else page.items

    async def answer_written(
        self, page: Page[Any], items: list[bytes], request: Request, response: Response
    ) -> Response:
        """The same, where each item of the page is written as JSON already."""
        self._link_to_rest(page, request, response)
        return self._written(page, await json_array_in_pieces(items, bytes), response)

    def _link_to_rest(self, page: Page[Any], request: Request, response: Response) -> None:
        if not self.is_paged and page.has_more:
            rest = request.url.include_query_params(page=2, rows_per_page=page.rows_per_page)
            response.headers["Link"] = f'<{rest}>; rel="next"'
            response.headers["X-Total-Count"] = str(page.total)

    def _written(self, page: Page[Any], pieces: list[bytes], response: Response) -> Response:
        if self.is_paged:
            rest = page.with_items([]).as_response().model_dump_json(exclude={"items"}).encode()
            pieces = [b'{"items":', *pieces, b",", rest[1:]]
        return json_answer(pieces, response)


async def json_list(rows: Sequence[Any], size: int = ROWS) -> list[bytes]:
    """A list as FastAPI would write it, in pieces of so many rows; nobody else has to wait for it."""
    if not rows:
        return [b"[]"]
    row: TypeAdapter[Any] = TypeAdapter(type(rows[0]))
    return await json_array_in_pieces(rows, lambda item: row.dump_json(item, by_alias=True), size)


def json_answer(pieces: Sequence[bytes], response: Response | None = None) -> Response:
    """What is written already, piece by piece as the client takes it, with the headers that the route has set."""
    headers = {} if response is None else dict(response.headers)
    headers["Content-Length"] = str(sum(map(len, pieces)))
    return StreamingResponse(_each(pieces), media_type="application/json", headers=headers)


async def _each(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    """As async, or each piece would be sent to a thread and back."""
    for piece in pieces:
        yield piece


def _asked(
    page: Annotated[
        int | None, Query(ge=1, le=LARGEST_INTEGER, description="Which page, from 1; without it the answer is a list.")
    ] = None,
    rows_per_page: Annotated[int | None, Query(ge=1, le=LARGEST_PAGE, description="How many rows a page has.")] = None,
) -> Asked:
    if page is None and rows_per_page is None:
        return Asked(FIRST_ROWS, is_paged=False)
    return Asked(Paging(page or 1, rows_per_page or DEFAULT_ROWS), is_paged=True)


AskedPage = Annotated[Asked, Depends(_asked)]


async def given(request: Request, name: str, *aliases: str) -> str | None:
    """A value that clients send in the query, in a form or in a JSON object; in two places, it must be the same."""
    found = await _found(request, name, *aliases)
    return _the_one(name, {_storable_input(name, _as_text(name, value)) for value in found})


async def flag(request: Request, name: str) -> bool:
    """A yes or no, looked for as `given` does; no, if it is not given."""
    return _the_one(name, {_as_flag(name, value) for value in await _found(request, name)}) or False


async def _found(request: Request, *names: str) -> list[Any]:
    places: tuple[Mapping[str, Any], ...] = (request.query_params, await _body_of(request))
    return [place[name] for place in places for name in names if place.get(name) is not None]


def _the_one[V](name: str, values: set[V]) -> V | None:
    if len(values) > 1:
        raise InvalidInputError(name, "is given more than once, and not the same each time")
    return next(iter(values), None)


def _as_flag(name: str, value: Any) -> bool:
    try:
        return _FLAG.validate_python(value)
    except ValidationError as exc:
        raise InvalidInputError(name, "must be true or false") from exc


async def required(request: Request, name: str, *aliases: str) -> str:
    value = await given(request, name, *aliases)
    if value is None or not value.strip():
        raise InvalidInputError(name, "is missing; send it in the query or in the body")
    return value


async def required_id(request: Request, name: str, *aliases: str) -> int:
    text = await required(request, name, *aliases)
    is_number = text.strip().isascii() and text.strip().isdigit()
    if not is_number or not 1 <= int(text[:20]) <= LARGEST_INTEGER:
        raise InvalidInputError(name, f"must be a whole number from 1 to {LARGEST_INTEGER}")
    return int(text)


def _as_text(name: str, value: Any) -> str:
    """What a form holds is text; in JSON, a number may stand for one."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise InvalidInputError(name, "must be a text" if isinstance(value, UploadFile) else "must be a text or a number")


def _storable_input(name: str, text: str) -> str:
    try:
        return _storable(text)
    except ValueError as exc:
        raise InvalidInputError(name, str(exc)) from exc


async def _body_of(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if is_form(request.headers):
        form = (await request.form()).multi_items()
        see_given_once(name for name, _ in form)
        return _known(request, dict(form))
    return _known(request, await _json_object(request)) if kind == "application/json" and await request.body() else {}


def _known(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    route = request.scope.get("route")
    if isinstance(route, APIRoute):
        see_known(body, names_in_query(route))  # such a route takes its values in the query or in the body
    return body


async def _json_object(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError("body", "must be valid JSON") from exc
    if not isinstance(body, dict):
        raise InvalidInputError("body", "must be a JSON object")
    return body


def see_given_once(names: Iterable[str]) -> None:
    """Refuse a value that is given twice: nobody could tell which of the two was meant."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(name, "is given more than once")
        seen.add(name)


def see_known(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a value that no one reads: whoever sent it believes that it counts."""
    for name in names:
        if name not in known:
            raise InvalidInputError(name[:LONGEST_NAME], f"there is no such field; {suggestion(name, sorted(known))}")


def names_in_body(route: APIRoute) -> frozenset[str]:
    """The fields that a route takes in its body, as its documentation lists them."""
    declared = {each.alias for dependant in _all(route.dependant) for each in dependant.body_params}
    extra = route.openapi_extra or {}
    written = (
        each["schema"].get("properties", ()) for each in extra.get("requestBody", {}).get("content", {}).values()
    )
    return frozenset(declared.union(*written))


def names_in_query(route: APIRoute) -> frozenset[str]:
    """The names that a route takes in its query. One that reads its body by itself looks for fields there, too."""
    declared = {each.alias for dependant in _all(route.dependant) for each in dependant.query_params}
    written = (route.openapi_extra or {}).get("parameters", ())
    anywhere = names_in_body(route) if route.body_field is None else frozenset[str]()
    return anywhere | declared | {each["name"] for each in written if each["in"] == "query"}


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _all(each)


async def _in_order(request: Request) -> None:
    route = request.scope.get("route")
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        lists = _lists_of(route) if isinstance(route, APIRoute) else frozenset[str]()
        see_given_once(name for name in names if name not in lists)
    if isinstance(route, APIRoute) and route.body_field is not None:
        await _see_body_in_order(request, route)
    if names and isinstance(route, APIRoute) and request.method not in READING:
        see_known(names, names_in_query(route))


async def _see_body_in_order(request: Request, route: APIRoute) -> None:
    """FastAPI has read the body already. Routes that read forms as they come see to it themselves."""
    assert route.body_field is not None, "the route has a body"
    if isinstance(route.body_field.field_info, Form):
        form = [name for name, _ in (await request.form()).multi_items()]
        see_given_once(form)
        see_known(form, names_in_body(route))
    elif is_form(request.headers):
        raise InvalidInputError("body", "is a form; send a JSON object, with `Content-Type: application/json`")


def _lists_of(route: APIRoute) -> frozenset[str]:
    """The names in the query that a route takes several times."""
    return frozenset(each.alias for each in route.dependant.query_params if _is_list(each.field_info.annotation))


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(each) is list for each in get_args(annotation))


IN_ORDER: Final = Depends(_in_order)
"""Every value of a request stands in it once. One that changes something holds none that nobody knows: it would change
something else than was asked. A question may, such as the number that some programs add to get past a cache."""
