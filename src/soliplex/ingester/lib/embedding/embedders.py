"""What every embedding provider does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from soliplex.ingester.lib.embedding.errors import EmbedderUnavailableError, EmbeddingRefusedError

type Vector = list[float]


class Embedder(Protocol):
    """Turns texts into vectors. Texts of close meaning get vectors of small angle."""

    @property
    def name(self) -> str:
        """The provider."""
        ...

    @property
    def model(self) -> str:
        """The model; vectors of the same provider and model may be compared, and cached, together."""
        ...

    @property
    def dim(self) -> int | None:
        """How long its vectors are; not known of every model before it has embedded something."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of the texts, in their order.

        Raises EmbedderUnavailableError where trying again may help, EmbeddingRefusedError where it cannot.
        """
        ...


async def dimension_of(embedder: Embedder) -> int:
    """How long the vectors are; found by embedding a word where nobody has said so."""
    if embedder.dim is not None:
        return embedder.dim
    (vector,) = await embedder.embed(["dimension"])
    return len(vector)


def checked(provider: str, vectors: list[Vector], count: int, dim: int | None) -> list[Vector]:
    """The vectors a provider gave, if they are as many and as long as they should be."""
    if len(vectors) != count:
        raise EmbedderUnavailableError(provider, f"it gave {len(vectors)} vectors for {count} texts")
    lengths = {len(vector) for vector in vectors}
    if dim is not None and lengths - {dim}:
        found = next(iter(lengths - {dim}))
        raise EmbeddingRefusedError(
            provider, f"its vectors have {found} dimensions, not {dim}; set vector_dim: {found}"
        )
    if len(lengths) > 1:
        raise EmbedderUnavailableError(provider, f"its vectors differ in length: {sorted(lengths)}")
    return vectors
