"""Long lists, as JSON, in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.storage import Artifacts, get_artifacts
from soliplex.ingester.lib.workflow.arrays import ArrayFile, ArrayReader, read_pieces, read_short, writing_pieces

DOCUMENT = "sha256-" + "0" * 64
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(items=st.lists(values, max_size=8), indent=st.sampled_from([None, 0, 2]), size=st.integers(1, 40))
def test_an_array_is_read_as_it_is_however_it_is_cut_and_laid_out(items: list[Any], indent: int, size: int) -> None:
    content = json.dumps(items, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        content.decode()
    except UnicodeDecodeError:
        return  # half of a surrogate pair cannot be stored
    reader, found = ArrayReader(), list[Any]()
    for start in range(0, len(content), size):
        found += reader.feed(content[start : start + size])
    reader.close()
    assert found == items


@pytest.mark.parametrize("content", [b"", b"[", b"[1, 2", b'[{"a": 1}, {"b"', b'{"a": 1}', b"[1 2]", b"null"])
def test_what_is_no_whole_array_is_told(content: bytes) -> None:
    def read() -> None:
        reader = ArrayReader()
        reader.feed(content)
        reader.close()

    with pytest.raises(ValueError, match="a stored list ends before its last item, or is none"):
        read()


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_a_file_that_was_written_in_pieces_is_one_array(tmp_path: Path, count: int) -> None:
    file, items = ArrayFile(tmp_path / "new folder" / "file"), [{"text": f"line\n{number}"} for number in range(count)]
    for start in range(0, count, 3):
        file.append(items[start : start + 3])
    file.append([])
    file.finish()
    assert json.loads(file.path.read_bytes()) == items
    assert file.count == count


@pytest.fixture
async def artifacts() -> AsyncIterator[Artifacts]:
    artifacts = get_artifacts()
    yield artifacts
    await artifacts.close()


async def test_what_is_written_in_pieces_is_read_in_pieces_or_whole(artifacts: Artifacts) -> None:
    async with writing_pieces(DOCUMENT, ArtifactType.CHUNKS, 1) as made:
        for start in range(0, 2500, 500):
            await made.add(range(start, start + 500))
    async with aclosing(read_pieces(DOCUMENT, ArtifactType.CHUNKS, 1, size=1000)) as found:
        assert [len(piece) async for piece in found] == [1000, 1000, 500]
    assert json.loads(await artifacts.read(DOCUMENT, ArtifactType.CHUNKS, 1)) == list(range(2500))
    assert list(artifacts.spool.folder.iterdir()) == []


async def test_a_list_whose_writing_fails_is_not_there_and_leaves_nothing(artifacts: Artifacts) -> None:
    async def write() -> None:
        async with writing_pieces(DOCUMENT, ArtifactType.CHUNKS, 1) as made:
            await made.add([1, 2, 3])
            await made.add([1 / number for number in range(3)])

    with pytest.raises(ZeroDivisionError):
        await write()
    assert not await artifacts.has(DOCUMENT, ArtifactType.CHUNKS, 1)
    assert list(artifacts.spool.folder.iterdir()) == []


async def test_only_a_short_list_is_read_at_once(artifacts: Artifacts) -> None:
    await artifacts.write(DOCUMENT, ArtifactType.CHUNKS, 1, b"[1, 2, 3]")
    assert await read_short(DOCUMENT, ArtifactType.CHUNKS, 1, most=9) == [1, 2, 3]
    assert await read_short(DOCUMENT, ArtifactType.CHUNKS, 1, most=8) is None
