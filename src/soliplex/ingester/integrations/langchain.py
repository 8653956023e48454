"""A retriever for LangChain: `IngesterRetriever(ingester=ingester, limit=5)`.

Its `ainvoke` works in any event loop, its `invoke` anywhere but in the loop that the ingester was opened in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, override

from soliplex.ingester.installation.ingester import Ingester
from soliplex.ingester.integrations.loop_calls import answered, asked
from soliplex.ingester.integrations.passage_facts import facts_of
from soliplex.ingester.lib.answers import Hit, SearchKind
from soliplex.ingester.lib.errors import MissingPackageError

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise MissingPackageError("langchain-core", f"`{__name__}`", extra="langchain") from error

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

__all__ = ["IngesterRetriever"]


class IngesterRetriever(BaseRetriever):
    """Passages of an installation, as documents; the ingester is open. The other fields are those of `search`."""

    ingester: Ingester
    limit: int = 5
    kind: SearchKind = SearchKind.HYBRID
    source: str | None = None
    batch_id: int | None = None
    uri_prefix: str | None = None
    min_score: float | None = None
    meta: Mapping[str, str] | None = None
    db: str | None = None

    @override
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return _documents(answered(self.ingester, lambda: self._search(query)))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(await asked(self.ingester, lambda: self._search(query)))

    async def _search(self, query: str) -> list[Hit]:
        options: dict[str, Any] = {name: getattr(self, name) for name in _OPTIONS}
        return await self.ingester.search(query, **options)


_OPTIONS = tuple(name for name in IngesterRetriever.__annotations__ if name != "ingester")


def _documents(hits: list[Hit]) -> list[Document]:
    return [Document(id=hit.rag_chunk_id, page_content=hit.content, metadata=facts_of(hit)) for hit in hits]
