"""Forms of any size, read as they come: a file in one is handed on block by block, and never held.

Starlette's own reader writes a file to disk before anyone may look at it, and refuses fields of more than a megabyte;
a client's list of a hundred thousand hashes is one field.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.storage import DocumentTooLargeError
from soliplex.ingester.server.bodies import DRAINED, read_without_bound
from soliplex.ingester.server.errors import FORM_EXPECTED
from soliplex.ingester.server.parameters import see_known

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks  # the module exists for type checkers only

MOST_FIELDS: Final = 100
LARGEST_FIELD: Final = 2 << 20
ROOM_FOR_FIELDS: Final = 64 << 10
"""Bytes of a body that may belong to fields after the file."""

UNQUOTED: Final = 64 << 10
"""Bytes of a urlencoded value that are decoded in one go."""

BODY: Final = "body"

_MARK: Final = re.compile(rb"[=&]")
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
        _see_nothing_in_address(request)
        boundary = _boundary_of(request)
        if boundary is None:
            urlencoded: _Urlencoded[F] = _Urlencoded(body, largest)
            return await urlencoded.read(file, take)
        multipart: _Multipart[F] = _Multipart(body, boundary, largest)
        return await multipart.read(file, take)
    except ClientDisconnect as exc:
        raise InvalidInputError(BODY, "ended before all of it had come") from exc
    except Exception:
        await body.drain()
        raise


def validated[M: BaseModel](model: type[M], fields: Mapping[str, str]) -> M:
    """The fields as the model. An empty field counts as not given; a field that the model lacks is refused."""
    see_known(fields, model.model_fields)
    try:
        return model.model_validate({name: value for name, value in fields.items() if value})
    except ValidationError as exc:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in exc.errors()]) from exc


def _see_nothing_in_address(request: Request) -> None:
    """Refuse fields in the query, which nobody reads here. Being known to the route, they have not been refused yet."""
    for name in request.query_params:
        raise InvalidInputError(name, "stands in the address of the request; send it as a field of the form")


def _boundary_of(request: Request) -> bytes | None:
    """What stands between the parts of a multipart form; a urlencoded one has none."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    match kind:
        case b"application/x-www-form-urlencoded":
            return None
        case b"multipart/form-data" if options.get(b"boundary"):
            return options[b"boundary"]
        case _:
            raise InvalidInputError("content-type", FORM_EXPECTED)


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
        """Read the rest of the body, unless it is long."""
        rest = self.expected_rest
        if rest is not None and rest > DRAINED:
            return
        until = self._read + DRAINED
        try:
            while self._read < until and await self.next() is not None:
                pass
        except ClientDisconnect:
            return


class _Urlencoded[F]:
    """The fields of a urlencoded form, one after the other, decoded as they come."""

    def __init__(self, body: _Body, largest: int) -> None:
        self._body = body
        self._largest = largest
        self._rest = b""
        self._read = 0
        self._is_whole = False

    async def read(self, file: str | None, take: FileReader[F] | None) -> Form[F]:
        fields: dict[str, str] = {}
        taken: list[F] = []
        while (name := await self._name()) is not None:
            if take is not None and name == file:
                if taken:
                    raise InvalidInputError(name, "is given more than once")
                part = FilePart(self._value(), "", "", None)
                taken.append(await take(part, fields))
                async for _ in part.content:
                    pass
            else:
                _add(fields, name, await self._field())
        return Form(fields, taken[0] if taken else None)

    async def _name(self) -> str | None:
        """The name of the next field, up to its `=`; None after the last."""
        name = bytearray()
        while self._rest or await self._more():
            found = _MARK.search(self._rest)
            end = found.start() if found else None
            name += self._rest[:end]
            if len(name) > LARGEST_FIELD:
                raise InvalidInputError(BODY, "has a field with too long a name")
            if end is None:
                self._rest = b""
            elif self._rest[end : end + 1] == b"=":
                self._rest = self._rest[end + 1 :]
                return _unquoted_text(name)
            else:
                if name:
                    self._rest = self._rest[end:]  # a name without a value
                    return _unquoted_text(name)
                self._rest = self._rest[end + 1 :]
        return _unquoted_text(name) if name else None

    async def _value(self) -> AsyncIterator[bytes]:
        """What the field holds, up to the next `&`."""
        while self._rest or await self._more():
            value, mark, rest = self._rest.partition(b"&")
            # A character that is written as %xx may come in two pieces.
            held = (
                b"" if mark else next((value[-at:] for at in (1, 2) if value[-at : len(value) - at + 1] == b"%"), b"")
            )
            self._rest = rest if mark else b""
            for start, end in _whole_escapes(value[: len(value) - len(held)]):
                yield unquote_to_bytes(value[start:end].replace(b"+", b" "))
            if mark:
                return
            if held and not await self._more():
                yield held
                return
            self._rest = held + self._rest

    async def _field(self) -> str:
        value = bytearray()
        async for block in self._value():
            value += block
        return _utf8(value)

    async def _more(self) -> bool:
        """Read the next block; False at the end of the body."""
        while not self._is_whole:
            chunk = await self._body.next()
            if chunk is None:
                self._is_whole = True
            elif chunk:
                self._read += len(chunk)
                if self._read > self._largest * 3:  # each byte may be written as three
                    raise DocumentTooLargeError(self._largest, f"the form is larger than {self._largest * 3} bytes")
                if not chunk.isascii():
                    raise _not_urlencoded()
                self._rest = bytes(chunk)
                return True
        return False


def _whole_escapes(value: bytes) -> Iterator[tuple[int, int]]:
    """Where pieces of some milliseconds begin and end, none of them within a `%xx`."""
    start = 0
    while start < len(value):
        end = min(len(value), start + UNQUOTED)
        end += next((3 - back for back in (1, 2) if end < len(value) and value[end - back] == ord("%")), 0)
        yield start, min(end, len(value))
        start = end


def _unquoted_text(name: bytearray) -> str:
    return _utf8(unquote_to_bytes(bytes(name).replace(b"+", b" ")))


def _utf8(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise _not_urlencoded() from exc


def _not_urlencoded() -> InvalidInputError:
    return InvalidInputError(BODY, "must be urlencoded UTF-8")


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
