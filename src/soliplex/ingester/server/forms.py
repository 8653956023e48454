"""Forms of any size, read as they come: a file in one is handed on block by block, and never held.

Starlette's own reader writes a file to disk before anyone may look at it, and refuses fields of more than a megabyte;
a client's list of a hundred thousand hashes is one field.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storage import DocumentTooLargeError
from soliplex.ingester.server.bodies import DRAINED, read_without_bound
from soliplex.ingester.server.parameters import see_known

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks  # it exists for type checkers only

MOST_FIELDS: Final = 100
LARGEST_FIELD: Final = 2 << 20
ROOM_FOR_FIELDS: Final = 64 << 10
"""Of a body's length, what may belong to fields after the file."""

BODY: Final = "body"

_PLAIN: Final = re.compile(rb'form-data; name="([^"\\;%]+)"(?:; filename="([^"\\;%]*)")?')
"""How most clients name a part, with nothing in it that would have to be read twice."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file in a form, on its way in."""

    content: AsyncIterator[bytes]
    filename: str
    content_type: str
    expected: int | None
    """About how many bytes it has, if the client said how long the whole form is; never more than it has."""


@dataclass(frozen=True, slots=True)
class Form[F]:
    """The fields of a form, and what became of its file."""

    fields: dict[str, str]
    file: F | None = None


type FileReader[F] = Callable[[FilePart, dict[str, str]], Awaitable[F]]
"""Takes the file in; gets the fields that came before it."""


async def read_form[F](
    request: Request, *, file: str | None = None, take: FileReader[F] | None = None, largest: int = LARGEST_FIELD
) -> Form[F]:
    """Read a form, urlencoded or multipart. The part named `file` is given to `take`; `largest` bounds each field.

    All fields together may be as long as three of the longest.
    """
    read_without_bound(request)
    body = _Body(request)
    try:
        boundary = _boundary_of(request)
        if boundary is None:
            return Form(await _read_urlencoded(body, largest))
        return await _Multipart[F](body, boundary, largest).read(file, take)
    except ClientDisconnect as exc:
        raise InvalidInputError(BODY, "ended before all of it had come") from exc
    except Exception:
        await body.drain()
        raise


def validated[M: BaseModel](model: type[M], fields: Mapping[str, str]) -> M:
    """The fields as the model has them. One that is left empty is one that is not given; one it lacks is refused."""
    see_known(fields, model.model_fields)
    try:
        return model.model_validate({name: value for name, value in fields.items() if value})
    except ValidationError as exc:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in exc.errors()]) from exc


def _boundary_of(request: Request) -> bytes | None:
    """What stands between the parts of a multipart form; a urlencoded one has none."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    match kind:
        case b"application/x-www-form-urlencoded":
            return None
        case b"multipart/form-data" if options.get(b"boundary"):
            return options[b"boundary"]
        case _:
            raise InvalidInputError(
                "content-type", "must be multipart/form-data with a boundary, or application/x-www-form-urlencoded"
            )


class _Body:
    """The bytes of a request, counted."""

    def __init__(self, request: Request) -> None:
        self._stream = request.stream()
        length = request.headers.get("content-length", "")
        self._length = int(length) if length.isascii() and length.isdigit() else None
        self._read = 0

    @property
    def expected_rest(self) -> int | None:
        return None if self._length is None else self._length - self._read

    async def next(self) -> bytes | None:
        chunk = await anext(self._stream, None)
        self._read += len(chunk or b"")
        return chunk

    async def drain(self) -> None:
        """Read what is still to come, unless it is much."""
        rest = self.expected_rest
        if rest is not None and rest > DRAINED:
            return
        until = self._read + DRAINED
        try:
            while self._read < until and await self.next() is not None:
                pass
        except ClientDisconnect:
            return


async def _read_urlencoded(body: _Body, largest: int) -> dict[str, str]:
    text = bytearray()
    while (chunk := await body.next()) is not None:
        text += chunk
        if len(text) > largest * 3:  # each byte may be written as three
            raise DocumentTooLargeError(largest, f"the form is larger than {largest * 3} bytes")
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict", encoding="utf-8"
        )
    except UnicodeError as exc:
        raise InvalidInputError(BODY, "must be urlencoded UTF-8") from exc
    except ValueError as exc:
        raise InvalidInputError(BODY, f"must have at most {MOST_FIELDS} fields") from exc
    fields: dict[str, str] = {}
    for name, value in pairs:
        _add(fields, name, value)
    return fields


def _add(fields: dict[str, str], name: str, value: str) -> None:
    if name in fields:
        raise InvalidInputError(name, "is given more than once")
    if len(fields) >= MOST_FIELDS:
        raise InvalidInputError(BODY, f"must have at most {MOST_FIELDS} fields")
    fields[name] = value


@dataclass(slots=True)
class _Begin:
    """A part begins; its headers are known."""

    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])


class _End:
    """A part ends."""


type _Event = _Begin | bytes | _End


class _Multipart[F]:
    """The parts of a multipart form, one after the other."""

    def __init__(self, body: _Body, boundary: bytes, largest: int) -> None:
        self._body = body
        self._largest = largest
        self._events: deque[_Event] = deque()
        self._is_complete = False
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = bytearray(), bytearray()
        try:
            self._parser = MultipartParser(boundary, self._callbacks())
        except FormParserError as exc:
            raise InvalidInputError("content-type", f"has a boundary that cannot be used ({exc})") from exc

    async def read(self, file: str | None, take: FileReader[F] | None) -> Form[F]:
        fields: dict[str, str] = {}
        taken: list[F] = []
        room = self._largest * 3
        while (event := await self._next()) is not None:
            assert isinstance(event, _Begin)
            name, filename = _names(event.headers)
            if take is not None and name == file:
                if taken:
                    raise InvalidInputError(name, "is given more than once")
                taken.append(await take(self._file_part(event.headers, filename or ""), fields))
            elif filename is not None:
                raise InvalidInputError(name, "must be a field, not a file")
            else:
                _add(fields, name, await self._field(name))
                room -= len(fields[name])
                if room < 0:
                    raise DocumentTooLargeError(self._largest, f"the form is larger than {self._largest * 3} bytes")
        return Form(fields, taken[0] if taken else None)

    def _file_part(self, headers: dict[bytes, bytes], filename: str) -> FilePart:
        rest = self._body.expected_rest
        waiting = sum(len(event) for event in self._events if isinstance(event, bytes))
        expected = None if rest is None else max(0, rest + waiting - ROOM_FOR_FIELDS)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        return FilePart(self._content(), filename, content_type, expected)

    async def _content(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._next(), bytes):
            yield event

    async def _field(self, name: str) -> str:
        value = bytearray()
        async for block in self._content():
            value += block
            if len(value) > self._largest:
                raise DocumentTooLargeError(self._largest, f"{name}: is larger than {self._largest} bytes")
        try:
            return value.decode()
        except UnicodeDecodeError as exc:
            raise InvalidInputError(name, "must be UTF-8 text") from exc

    async def _next(self) -> _Event | None:
        while not self._events:
            chunk = await self._body.next()
            try:
                if chunk is None:
                    return self._finish()
                self._parser.write(chunk)
            except FormParserError as exc:
                raise InvalidInputError(BODY, f"is not a multipart form ({exc})") from exc
        return self._events.popleft()

    def _finish(self) -> None:
        if not self._is_complete:
            raise InvalidInputError(BODY, "is not a whole multipart form: its last boundary is missing")

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._headers.clear,
            "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._on_header_end,
            "on_headers_finished": lambda: self._events.append(_Begin(dict(self._headers))),
            "on_part_data": lambda data, start, end: self._events.append(bytes(data[start:end])),
            "on_part_end": lambda: self._events.append(_End()),
            "on_end": self._on_end,
        }

    def _on_header_end(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _on_end(self) -> None:
        self._is_complete = True


def _names(headers: dict[bytes, bytes]) -> tuple[str, str | None]:
    """The name of a part, and of its file if it is one."""
    disposition = headers.get(b"content-disposition", b"")
    if plain := _PLAIN.fullmatch(disposition):
        name, filename = plain.groups()
        return _decoded(name), None if filename is None else _decoded(filename)
    kind, options = parse_options_header(disposition.decode("latin-1"))
    if kind != b"form-data" or b"name" not in options:
        raise InvalidInputError(BODY, "has a part without a name")
    filename = options.get(b"filename")
    return _decoded(options[b"name"]), None if filename is None else _decoded(filename)


def _decoded(text: Any) -> str:
    return bytes(text).decode("utf-8", "replace")
