from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from soliplex.ingester.lib.pieces import TEXT, json_in_pieces, read_large_object
from soliplex.ingester.server.forms import read_form

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=20)


async def blocks_of(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(content: bytes, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async for some in read_large_object(blocks_of(content, size)):
        found |= some
    return found


@given(OBJECTS, st.integers(1, 50), st.booleans(), st.sampled_from([None, 2]))
async def test_an_object_is_read_however_its_bytes_come(
    value: dict[str, Any], size: int, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    assert await read(text, size) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "begin with"),
        ("", "ends too early"),
        ("{", "ends too early"),
        ('{"a": 1', "ends too early"),
        ('{"a": 1,}', "property name"),
        ('{"a": x}', "Expecting value: char 6"),
        ('{"a" 1}', "':' delimiter"),
        ('{"a": 1 "b": 2}', "',' delimiter"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1} x', "more follows"),
        ('{"a": "' + "x" * 3 * TEXT + '"}', "more than"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
async def test_what_is_no_object_is_refused_with_a_reason(text: str, problem: str, size: int) -> None:
    with pytest.raises(ValueError, match=problem):
        await read(text.encode(), size if len(text) < TEXT else 1 << 20)


@given(OBJECTS)
async def test_an_object_is_written_as_it_is(value: dict[str, Any]) -> None:
    assert json.loads(b"".join(await json_in_pieces(value))) == value


def request_with(content: bytes, size: int) -> Request:
    pieces = [content[start : start + size] for start in range(0, len(content), size)]

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(0) if pieces else b"", "more_body": bool(pieces)}

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    return Request({"type": "http", "method": "POST", "headers": headers, "query_string": b""}, receive)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"]))
    ),
    st.integers(1, 20),
)
async def test_a_urlencoded_form_is_read_however_its_bytes_come(fields: dict[str, str], size: int) -> None:
    assert (await read_form(request_with(urlencode(fields).encode(), size))).fields == fields


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_odd_urlencoded_forms_are_read_as_browsers_would(size: int) -> None:
    form = await read_form(request_with(b"&&a&b=&c=1+2%2&d=%4", size))
    assert form.fields == {"a": "", "b": "", "c": "1 2%2", "d": "%4"}
