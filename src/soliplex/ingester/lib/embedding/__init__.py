"""Turns texts into vectors, by one of several providers, and remembers them.

Owns the providers, one file each, and the cache. Knows no documents, no chunks, no workflow.

    async with open_cached_embedder(EmbedOptions.read(step_params)) as embedder:
        vectors = await embedder.embed(texts)
"""

from __future__ import annotations

from soliplex.ingester.lib.embedding.cache import EmbeddingCache
from soliplex.ingester.lib.embedding.cached import CachedEmbedder, open_cached_embedder
from soliplex.ingester.lib.embedding.embedders import Embedder, Vector, dimension_of
from soliplex.ingester.lib.embedding.errors import EmbedderUnavailableError, EmbeddingError, EmbeddingRefusedError
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.embedding.precision import Precision
from soliplex.ingester.lib.embedding.registry import PROVIDERS, open_embedder, provider_of

__all__ = [
    "PROVIDERS",
    "CachedEmbedder",
    "EmbedOptions",
    "Embedder",
    "EmbedderUnavailableError",
    "EmbeddingCache",
    "EmbeddingError",
    "EmbeddingRefusedError",
    "Precision",
    "Vector",
    "dimension_of",
    "open_cached_embedder",
    "open_embedder",
    "provider_of",
]
