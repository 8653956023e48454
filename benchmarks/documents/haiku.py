"""haiku-ingester, the ingester that comes with haiku.rag, on the same files and with the same vectors.

It is part of a package that is installed here anyway. Its environment holds what it needs beyond, and sees ours. It is
given our own embedder, which is faster than the ones it has.

    python -m benchmarks.documents.haiku FOLDER --embedder instant|local

ingests a folder and prints how long that took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks import peers, processes
from benchmarks.databases import real_disk
from benchmarks.documents.data import Abstract
from benchmarks.documents.instant import InstantEmbedder
from benchmarks.report import Result
from soliplex.ingester.lib import minilm
from soliplex.ingester.lib.embedding import Embedder
from soliplex.ingester.lib.embedding.local import LocalEmbedder

PEER: Final = "haiku_ingester"
ENTRY: Final = peers.Entry(
    label="haiku-ingester", version=version("haiku.rag-slim"), requirements=("obstore==0.9.5",), databases=(), tasks=0
)
EMBEDDERS: Final[dict[str, type[Embedder]]] = {"instant": InstantEmbedder, "local": LocalEmbedder}
WARM: Final = 4


async def measure(abstracts: Sequence[Abstract]) -> Result:
    """Documents a second with each embedder."""
    found = {name: await _ingest(abstracts, name) for name in EMBEDDERS}
    return {
        "documents_per_second": {name: len(abstracts) / each["seconds"] for name, each in found.items()},
        "processor_ms_per_document": {
            name: each["processor_seconds"] / len(abstracts) * 1000 for name, each in found.items()
        },
        "sizes": {"documents": len(abstracts)},
    }


async def _ingest(abstracts: Sequence[Abstract], embedder: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="benchmark-haiku-", dir=real_disk(), ignore_cleanup_errors=True) as folder:
        for name, some in (("warm", abstracts[:WARM]), ("all", abstracts)):
            (Path(folder) / name).mkdir()
            for each in some:
                (Path(folder) / name / f"{each.id}.md").write_text(each.markdown, encoding="utf-8")
        python = await peers.environment(PEER, ENTRY)
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", "benchmarks.documents.haiku", folder, f"--embedder={embedder}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=peers.ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"it ended with {process.returncode}: {errors.decode()[-300:]}")
    return json.loads(output.splitlines()[-1])


async def _run(folder: Path, embedder: Embedder) -> dict[str, float]:
    await _run_batch(folder, "warm", embedder)
    began, used = time.perf_counter(), processes.processor_seconds(os.getpid())
    await _run_batch(folder, "all", embedder)
    return {
        "seconds": time.perf_counter() - began,
        "processor_seconds": processes.processor_seconds(os.getpid()) - used,
    }


async def _run_batch(folder: Path, name: str, embedder: Embedder) -> None:
    from haiku.rag.ingester.app import IngesterApp

    with _embedding_by(embedder):
        report = await IngesterApp(config=_config(folder, name)).run_batch()
    expected = len(list((folder / name).iterdir()))
    if report.succeeded != expected:
        raise RuntimeError(f"{report.succeeded} of {expected} documents were ingested: {report}")


def _tokenizer(folder: Path) -> Path:
    """The folder with the model's tokenizer, in the form that transformers reads."""
    folder.mkdir(exist_ok=True)
    minilm.tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return folder


def _config(folder: Path, name: str) -> Any:
    from haiku.rag.config import AppConfig

    model = {"provider": "openai", "name": "instant", "vector_dim": InstantEmbedder.dim}
    return AppConfig.model_validate(
        {
            "lancedb": {"databases": {name: str(folder / f"{name}.lancedb")}},
            "embeddings": {"model": model},
            "processing": {"chunking_tokenizer": str(_tokenizer(folder / "tokenizer"))},
            "ingester": {
                "databases": {name: {"sources": [{"type": "fs", "root": str(folder / name)}]}},
                "queue": {"path": str(folder / f"{name}.queue.db")},
            },
        }
    )


def _embedding_by(embedder: Embedder) -> Any:
    """haiku.rag makes embedders by one function, whatever was asked for."""
    from unittest.mock import patch

    from haiku.rag.embeddings import EmbedderWrapper

    class Ours(EmbedderWrapper):
        async def _embed_documents(self, texts: list[str]) -> list[list[float]]:
            return await embedder.embed(texts)

    return patch("haiku.rag.store.engine.get_embedder", lambda **_: Ours(None, InstantEmbedder.dim))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", choices=tuple(EMBEDDERS), required=True)
    asked = parser.parse_args()
    os.environ.update({"HF_HUB_OFFLINE": "1", "LOGFIRE_IGNORE_NO_CONFIG": "1"})
    print(json.dumps(asyncio.run(_run(asked.folder, EMBEDDERS[asked.embedder]()))))


if __name__ == "__main__":
    main()
