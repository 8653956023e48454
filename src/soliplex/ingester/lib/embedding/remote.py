"""What the providers over HTTP share: calls of so many texts at most, and a dimension learnt from the first answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import batched

from soliplex.ingester.lib.embedding.embedders import Vector, checked
from soliplex.ingester.lib.embedding.http import Provider


class RemoteEmbedder(ABC):
    """An embedder whose model runs elsewhere."""

    def __init__(self, provider: Provider, model: str, *, dim: int | None, batch_size: int) -> None:
        self._provider = provider
        self._asked_dim = dim
        self._batch_size = batch_size
        self.name = provider.name
        self.model = model
        self.dim = dim

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors = list[Vector]()
        for some in batched(texts, self._batch_size):
            found = await self._ask(list(some))
            vectors += checked(self.name, found, len(some), self.dim)
            self.dim = len(vectors[0])
        return vectors

    @abstractmethod
    async def _ask(self, texts: list[str]) -> list[Vector]:
        """One call."""
