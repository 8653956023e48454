"""Retrievers and readers for frameworks of others, in those frameworks: awaited, and called by who does not await."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.runnables import RunnableLambda
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import MetadataMode

from soliplex.ingester import ConflictError, Ingester, RemoteError
from soliplex.ingester.installation.ingester import NotOpenError
from soliplex.ingester.integrations import open_in_thread
from soliplex.ingester.integrations.langchain import IngesterRetriever as LangChainRetriever
from soliplex.ingester.integrations.llama_index import IngesterReader
from soliplex.ingester.integrations.llama_index import IngesterRetriever as LlamaIndexRetriever
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.storage import get_artifacts
from tests.integration.test_rag import IDENTITY, document
from tests.support.documents import hash_of
from tests.support.engine import rows_of

ASKED: Final[dict[str, Any]] = {"kind": "text", "db": "library", "limit": 2}


@pytest.fixture
async def library() -> None:
    documents = [
        document("bees", "when the bees leave the hive", source="garden"),
        document("bread", "bees wax keeps the bread fresh", source="kitchen"),
    ]
    await write_documents(rag_path("library"), IDENTITY, documents, fence=SoleWriter())


@pytest.fixture
async def ingester(library: None) -> AsyncIterator[Ingester]:
    async with Ingester() as opened:
        yield opened


async def test_langchain_awaits_documents_with_where_they_stand(ingester: Ingester) -> None:
    retriever = LangChainRetriever(ingester=ingester, **ASKED, source="garden")
    (found,) = await retriever.ainvoke("bees")
    assert isinstance(found, LangChainDocument)
    assert "the bees leave" in found.page_content
    assert found.metadata["uri"] == "/garden/bees.md"
    assert (found.metadata["headings"], found.metadata["source"]) == (["Bees"], "garden")
    assert found.metadata.keys() >= {"score", "pages", "title", "doc_hash", "chunk_id"}
    assert found.id is not None
    chain = retriever | RunnableLambda(_uris)
    assert await chain.abatch(["bees", "hive"]) == [["/garden/bees.md"]] * 2


def _uris(documents: list[LangChainDocument]) -> list[str]:
    return [each.metadata["uri"] for each in documents]


async def test_llama_index_awaits_nodes_with_their_scores(ingester: Ingester) -> None:
    retriever = LlamaIndexRetriever(ingester, **ASKED)
    found = await retriever.aretrieve("bees")
    assert {each.node.metadata["uri"] for each in found} == {"/garden/bees.md", "/kitchen/bread.md"}
    assert all(each.score and each.score > 0 for each in found)
    said = found[0].node.get_content(MetadataMode.LLM)
    assert "uri: /" in said
    assert "doc_hash" not in said
    assert "score" not in said
    kept = SimilarityPostprocessor(similarity_cutoff=0.0).postprocess_nodes(found)
    assert len(kept) == 2


async def test_a_call_that_does_not_await_is_answered_in_another_thread_and_refused_in_the_loop(
    ingester: Ingester,
) -> None:
    langchain = LangChainRetriever(ingester=ingester, **ASKED)
    llama_index = LlamaIndexRetriever(ingester, **ASKED)
    for call in (lambda: langchain.invoke("bees"), lambda: llama_index.retrieve("bees")):
        assert len(await asyncio.to_thread(call)) == 2
        with pytest.raises(ConflictError, match="await the method of the same name that begins with an a"):
            call()


def test_a_program_without_a_loop_opens_it_in_a_thread(library: None) -> None:
    with open_in_thread(Ingester()) as ingester:
        retriever = LangChainRetriever(ingester=ingester, **ASKED)
        assert len(retriever.invoke("bees")) == len(LlamaIndexRetriever(ingester, **ASKED).retrieve("bees")) == 2
        assert len(retriever.batch(["bees", "bread"])) == 2

        async def in_a_loop_of_its_own() -> None:
            assert len(await retriever.ainvoke("bees")) == 2
            assert len(retriever.invoke("bees")) == 2  # the ingester's loop is another: nobody waits for itself

        asyncio.run(in_a_loop_of_its_own())
    with pytest.raises(NotOpenError):
        retriever.invoke("bees")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ingester")]


def test_what_keeps_it_from_being_opened_is_raised_where_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOC_DB_URL", "sqlite:////nowhere/at/all.db")
    monkeypatch.setattr("pathlib.Path.mkdir", _refuse)
    with pytest.raises(Exception, match="nowhere"), open_in_thread(Ingester()):
        pass
    with (
        pytest.raises(RemoteError, match="cannot be reached"),
        open_in_thread(Ingester(server="http://127.0.0.1:9")) as it,
    ):
        LangChainRetriever(ingester=it).invoke("anything")


def _refuse(path: Path, *_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


async def test_llama_index_reads_whole_documents(
    ingester: Ingester, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.md", "b.md", "deep/c.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"text of {name}")
    await ingester.ingest(tmp_path / "docs", source="handbook", workflow="test_wf", params="test_base")
    configs = dict(await rows_of("SELECT step_type, step_config_id FROM runstep"))
    for name in ("a.md", "deep/c.md"):
        doc_hash = hash_of(f"text of {name}".encode())
        await get_artifacts().write(doc_hash, ArtifactType.PARSED_MD, configs["parse"], f"# {name}".encode())

    reader, docs = IngesterReader(ingester), f"{tmp_path}/docs"
    with caplog.at_level(logging.WARNING):
        found = await reader.aload_data(source="handbook")
    assert {each.text: each.metadata["uri"] for each in found} == {
        "# a.md": f"{docs}/a.md",
        "# deep/c.md": f"{docs}/deep/c.md",
    }
    assert found[0].doc_id == f"handbook:{docs}/a.md"
    assert "left out: version 1 of" in caplog.text
    below = await asyncio.to_thread(reader.load_data, source="handbook", prefix=f"{docs}/deep/")
    assert [each.text for each in below] == ["# deep/c.md"]
    assert [each.text for each in await reader.alazy_load_data(source="handbook", prefix=f"{docs}/a")] == ["# a.md"]


@pytest.mark.parametrize(
    ("module", "needed", "extra"),
    [("langchain", "langchain_core", "langchain"), ("llama_index", "llama_index", "llama-index")],
)
def test_a_framework_that_is_missing_is_named_with_its_extra(module: str, needed: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{needed!r}] = None\n"
        f"try: import soliplex.ingester.integrations.{module}\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "MissingPackageError" in found.stdout
    assert f'install "soliplex-ingester[{extra}]"' in found.stdout
