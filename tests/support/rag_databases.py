"""A small RAG database, made without an embedder."""

from __future__ import annotations

import os
from pathlib import Path

DIMENSIONS = 4


async def fill(path: Path) -> None:
    """A database of three documents of one chunk each, whose vectors nobody had to compute."""
    os.environ.setdefault("LOGFIRE_IGNORE_NO_CONFIG", "1")  # or haiku.rag's logfire would warn of itself
    from docling_core.types.doc.document import DoclingDocument
    from haiku.rag.client import DocumentImport, HaikuRAG
    from haiku.rag.config import AppConfig
    from haiku.rag.store.models.chunk import Chunk

    model = {"provider": "ollama", "name": "tiny", "vector_dim": DIMENSIONS}
    config = AppConfig.model_validate({"embeddings": {"model": model}, "storage": {"auto_vacuum": False}})
    async with HaikuRAG(path, config=config, create=True, skip_validation=True) as store:
        await store.import_documents(
            [
                DocumentImport(
                    docling_document=DoclingDocument(name=f"d{number}"),
                    chunks=[Chunk(content="some text", embedding=[0.5] * DIMENSIONS, order=0)],
                    uri=f"/{number}.pdf",
                    title=f"Report {number}",
                    metadata={"number": number},
                )
                for number in range(3)
            ]
        )
