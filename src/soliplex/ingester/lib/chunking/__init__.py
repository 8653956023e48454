"""Cuts documents into chunks: small enough to embed, whole enough to understand, and the same again after an edit.

    DoclingDocument ─▶ docling_document ─┐
                                         ├─▶ blocks ─▶ splitting ─▶ packing ─▶ chunks
    Markdown ───────▶ markdown_text ─────┘

A chunk never crosses a heading, and bears the headings it stands below. Within a section, paragraphs, list items and
tables are put together as long as they fit; what does not fit by itself is cut between sentences, lines or rows.
Paragraphs are parted where the topic changes, as far as words tell it (`packing`). Where cuts are made depends on the
text around them alone, so an edit changes the chunks it touches and few others.

Owns the cutting. Knows no storage, no embedding provider, no workflow.
"""

from __future__ import annotations

from soliplex.ingester.lib.chunking.chunks import Chunk, ChunkMetadata, chunk, embedding_text
from soliplex.ingester.lib.chunking.options import ChunkerType, ChunkOptions

__all__ = ["Chunk", "ChunkMetadata", "ChunkOptions", "ChunkerType", "chunk", "embedding_text"]
