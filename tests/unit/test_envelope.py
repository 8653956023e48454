"""Compression that the blob itself tells of."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from soliplex.ingester.lib.storage import DamagedBlobError
from soliplex.ingester.lib.storage.blobs import BLOCK
from soliplex.ingester.lib.storage.envelope import (
    HEADER,
    MARKER,
    compress,
    compress_file,
    is_compressed,
    original,
    original_size,
)

TEXT = b"all work and no play " * 150_000
MIXED = TEXT + os.urandom(BLOCK) + TEXT


async def in_pieces(content: bytes, size: int) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def back(stored: bytes, size: int = BLOCK) -> bytes:
    return b"".join([block async for block in original(in_pieces(stored, size), "key")])


@pytest.mark.parametrize("content", [b"", b"x", b"x" * HEADER, TEXT, MIXED, os.urandom(3 * BLOCK)])
async def test_what_was_compressed_comes_back(content: bytes) -> None:
    stored = compress(content)
    assert len(stored) <= len(content)
    for size in (1000, BLOCK - 1, 10 * BLOCK):
        assert await back(stored, size) == content


async def test_even_byte_by_byte() -> None:
    content = TEXT[:5000]
    assert is_compressed(compress(content))
    assert await back(compress(content), 1) == content


def test_what_gains_nothing_stays_as_it_is() -> None:
    noise = os.urandom(10_000)
    assert compress(noise) == noise
    assert compress(b"short") == b"short"


async def test_what_looks_compressed_comes_back_as_it_was() -> None:
    stored = compress(TEXT)
    twice = compress(stored)
    assert is_compressed(twice)
    assert twice != stored
    assert await back(twice) == stored
    assert await back(compress(MARKER)) == MARKER


def test_the_original_size_can_be_told_from_the_beginning() -> None:
    assert original_size(compress(TEXT)[:HEADER]) == len(TEXT)
    assert original_size(TEXT) is None
    assert original_size(MARKER) is None


def test_other_programs_can_read_it() -> None:
    reader = zstandard.ZstdDecompressor().stream_reader(BytesIO(compress(MIXED)), read_across_frames=True)
    assert reader.read() == MIXED


async def test_a_file_is_compressed_like_bytes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(MIXED)
    assert compress_file(source, target)
    assert target.read_bytes() == compress(MIXED)
    (tmp_path / "noise").write_bytes(os.urandom(100))
    assert not compress_file(tmp_path / "noise", tmp_path / "unused")


async def test_a_reader_holds_one_block_whatever_the_ratio() -> None:
    stored = compress(bytes(64 * BLOCK))
    assert len(stored) < BLOCK
    assert [len(block) async for block in original(in_pieces(stored, BLOCK), "key")] == [BLOCK] * 64


@pytest.mark.parametrize("seed", range(40))
async def test_damage_is_noticed(seed: int) -> None:
    chance = random.Random(seed)
    stored = bytearray(compress(MIXED))
    at = chance.randrange(len(MARKER), len(stored))
    stored[at] ^= 1 << chance.randrange(8)
    with pytest.raises(DamagedBlobError):
        await back(bytes(stored))


@pytest.mark.parametrize("left", [HEADER, HEADER + 5, HEADER + 12, 5000, -1])
async def test_a_blob_cut_short_is_damaged(left: int) -> None:
    with pytest.raises(DamagedBlobError, match="key is damaged"):
        await back(compress(MIXED)[:left])


async def test_a_blob_with_something_after_its_end_is_damaged() -> None:
    with pytest.raises(DamagedBlobError):
        await back(compress(TEXT) + b"x")
