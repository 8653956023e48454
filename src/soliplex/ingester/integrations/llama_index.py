"""For LlamaIndex: `IngesterRetriever`, which finds passages, and `IngesterReader`, which reads whole documents.

The asynchronous methods work in any event loop, the others anywhere but in the loop that the ingester was opened in.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, override

from soliplex.ingester.installation.ingester import Ingester
from soliplex.ingester.integrations.loop_calls import answered, asked
from soliplex.ingester.integrations.passage_facts import FOR_PROGRAMS, facts_of
from soliplex.ingester.lib.answers import Hit, SearchKind
from soliplex.ingester.lib.errors import ConflictError, MissingPackageError

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise MissingPackageError("llama-index-core", f"`{__name__}`", extra="llama-index") from error

__all__ = ["IngesterReader", "IngesterRetriever"]

_log = logging.getLogger(__name__)


class IngesterRetriever(BaseRetriever):
    """Passages of an installation, as nodes; the ingester is open. The other arguments are those of `search`."""

    def __init__(
        self,
        ingester: Ingester,
        *,
        limit: int = 5,
        kind: SearchKind | str = SearchKind.HYBRID,
        source: str | None = None,
        batch_id: int | None = None,
        uri_prefix: str | None = None,
        min_score: float | None = None,
        meta: Mapping[str, str] | None = None,
        db: str | None = None,
    ) -> None:
        super().__init__()
        self._ingester = ingester
        self._options: dict[str, Any] = {
            "limit": limit,
            "kind": kind,
            "source": source,
            "batch_id": batch_id,
            "uri_prefix": uri_prefix,
            "min_score": min_score,
            "meta": meta,
            "db": db,
        }

    @override
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(answered(self._ingester, lambda: self._search(query_bundle)))

    @override
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await asked(self._ingester, lambda: self._search(query_bundle)))

    async def _search(self, query_bundle: QueryBundle) -> list[Hit]:
        return await self._ingester.search(query_bundle.query_str, **self._options)


class IngesterReader(BaseReader):
    """The text of the documents of a source, as Markdown; the ingester is open.

    A document of which there is no text is left out, and the log says which.
    """

    def __init__(self, ingester: Ingester) -> None:
        self._ingester = ingester

    @override
    def lazy_load_data(
        self, *args: Any, source: str = "files", prefix: str = "", **load_kwargs: Any
    ) -> Iterable[Document]:
        for uri in answered(self._ingester, lambda: self._ingester.uris(source, prefix=prefix)):
            if document := answered(self._ingester, lambda uri=uri: self._read(uri, source)):
                yield document

    @override
    async def aload_data(
        self, *args: Any, source: str = "files", prefix: str = "", **load_kwargs: Any
    ) -> list[Document]:
        uris = await asked(self._ingester, lambda: self._ingester.uris(source, prefix=prefix))
        found = [await asked(self._ingester, lambda uri=uri: self._read(uri, source)) for uri in uris]
        return [document for document in found if document]

    @override
    async def alazy_load_data(self, *args: Any, **load_kwargs: Any) -> Iterable[Document]:
        return await self.aload_data(*args, **load_kwargs)

    async def _read(self, uri: str, source: str) -> Document | None:
        try:
            text = await self._ingester.read(uri, source=source)
        except ConflictError as error:
            _log.warning("left out: %s", error)
            return None
        return Document(id_=f"{source}:{uri}", text=text, metadata={"uri": uri, "source": source})


def _nodes(hits: list[Hit]) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]


def _node(hit: Hit) -> TextNode:
    unsaid = list(FOR_PROGRAMS)
    known = {"id_": hit.rag_chunk_id} if hit.rag_chunk_id else {}
    facts = {"metadata": facts_of(hit), "excluded_llm_metadata_keys": unsaid, "excluded_embed_metadata_keys": unsaid}
    return TextNode(text=hit.content, **known, **facts)
