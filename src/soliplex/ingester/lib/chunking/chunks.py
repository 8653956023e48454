"""From blocks to chunks: sections, what fits into one chunk, and each chunk's identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, Self

from soliplex.ingester.lib.chunking import docling_document, markdown_text
from soliplex.ingester.lib.chunking.blocks import Block, Kind, bounded
from soliplex.ingester.lib.chunking.options import ChunkerType, ChunkOptions
from soliplex.ingester.lib.chunking.packing import Part, pack
from soliplex.ingester.lib.chunking.splitting import Weighed, split
from soliplex.ingester.lib.chunking.tokens import weigh
from soliplex.ingester.lib.minilm import FRAME

_SHARE_OF_HEADINGS: Final = 3
"""Headings take at most a third of a chunk; of a longer path the outermost are left out."""


@dataclass(frozen=True, slots=True)
class ChunkMetadata:
    """Where a chunk comes from, in the form that haiku.rag stores."""

    doc_item_refs: list[str]
    headings: list[str]
    labels: list[str]
    page_numbers: list[int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document. Its id says what it holds: it stays the same while the passage and its headings do.

    Ids are unique within a document; a passage that stands in it several times is numbered.
    """

    id: str
    content: str
    order: int
    metadata: ChunkMetadata

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The chunk that `as_json` gave; keys that others have added are left out."""
        found: Mapping[str, Any] = value["metadata"]
        metadata: dict[str, Any] = {field.name: list(found.get(field.name) or ()) for field in fields(ChunkMetadata)}
        return cls(value["id"], value["content"], value["order"], ChunkMetadata(**metadata))


def embedding_text(chunk: Chunk) -> str:
    """What is embedded of a chunk: its headings, then its content, as haiku.rag puts them together."""
    return "\n".join((*chunk.metadata.headings, chunk.content))


def chunk(document: Mapping[str, Any] | None, markdown: str, options: ChunkOptions | None = None) -> list[Chunk]:
    """The chunks of a document, from its structure if that is known and else from its Markdown.

    Blocks while it computes, a few milliseconds for a page; most of that is counting tokens.
    """
    options = options or ChunkOptions()
    blocks = list(bounded(docling_document.blocks_of(document))) if document else []
    if not blocks:
        blocks = list(bounded(markdown_text.blocks_of(markdown, options.separator)))
    told = set[tuple[str, ...]]()
    return _numbered(passage for section in _sections(blocks) for passage in _passages(section, options, told))


type _Passage = tuple[tuple[str, ...], Sequence[Block]]
"""The headings that are embedded with a passage, and the blocks of the passage."""


def _sections(blocks: Sequence[Block]) -> Iterator[list[Weighed]]:
    """Neighbours that stand below the same heading, with what they weigh."""
    weighed = map(Weighed, blocks, weigh(block.text for block in blocks))
    for _, section in groupby(weighed, key=lambda it: it.block.section):
        yield list(section)


def _passages(section: Sequence[Weighed], options: ChunkOptions, told: set[tuple[str, ...]]) -> Iterator[_Passage]:
    path = section[0].block.headings
    headings, room = _headings(path, options.chunk_size)
    blocks = [*_left_out(path, len(headings), told), *section]
    for group in _groups(blocks, room, options):
        # Rather before a paragraph than between two items of a list.
        parts = [Part(it.block.text, it.weight, rank=int(it.block.kind is Kind.LIST_ITEM)) for it in group]
        for cut in pack(parts, room):
            yield headings, [it.block for it in group[cut.start : cut.stop]]


def _headings(path: tuple[str, ...], size: int) -> tuple[tuple[str, ...], int]:
    """The headings a chunk bears, and the room that is left for its content."""
    taken, kept = 0, list[str]()
    for heading in reversed(path):
        taken += weigh([heading])[0]
        if taken > size // _SHARE_OF_HEADINGS:
            break
        kept.insert(0, heading)
    return tuple(kept), size - FRAME - sum(weigh(kept))


def _left_out(path: tuple[str, ...], borne: int, told: set[tuple[str, ...]]) -> Iterator[Weighed]:
    """Headings too long to go with every chunk below them: text of the first of these, or nobody would find them."""
    for depth in range(1, len(path) - borne + 1):
        if path[:depth] not in told:
            told.add(path[:depth])
            heading = path[depth - 1]
            yield Weighed(Block(heading), weigh([heading])[0])


def _groups(blocks: Sequence[Weighed], room: int, options: ChunkOptions) -> Iterator[Sequence[Weighed]]:
    """The blocks in groups that may be put together into one chunk.

    A piece of a block that had to be cut stands alone: with the beginning of the next, it would speak of two things.
    """
    for is_cut, run in groupby(blocks, key=lambda it: it.weight > room):
        if is_cut:
            for it in run:
                yield from ([piece] for piece in split(it.block, room, options.chunk_overlap))
            continue
        match options.chunker_type:
            case ChunkerType.HYBRID:
                yield list(run)
            case ChunkerType.HIERARCHICAL:
                yield from _lists_whole(list(run))


def _lists_whole(blocks: Sequence[Weighed]) -> Iterator[Sequence[Weighed]]:
    """Each block for itself, the items of a list together."""
    for is_item, run in groupby(blocks, key=lambda it: it.block.kind is Kind.LIST_ITEM):
        together = list(run)
        yield from [together] if is_item else ([it] for it in together)


def _numbered(passages: Iterator[_Passage]) -> list[Chunk]:
    chunks, times = list[Chunk](), Counter[str]()
    for order, (headings, blocks) in enumerate(passages):
        chunk = Chunk("", _content(blocks), order, _metadata(headings, blocks))
        text = embedding_text(chunk)
        chunks.append(replace(chunk, id=_identity(text, times[text])))
        times[text] += 1
    return chunks


def _content(blocks: Sequence[Block]) -> str:
    first, *rest = blocks
    return first.text + "".join(block.joiner + block.text for block in rest)


def _metadata(headings: tuple[str, ...], blocks: Sequence[Block]) -> ChunkMetadata:
    origins = {origin.ref: origin for block in blocks for origin in block.origins}.values()
    return ChunkMetadata(
        doc_item_refs=[origin.ref for origin in origins],
        headings=list(headings),
        labels=[origin.label for origin in origins],
        page_numbers=sorted({page for origin in origins for page in origin.pages}),
    )


def _identity(text: str, time: int) -> str:
    numbered = f"{text}\0{time}" if time else text
    return sha256(numbered.encode("utf-8", "surrogatepass")).hexdigest()[:32]
