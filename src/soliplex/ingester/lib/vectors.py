"""Which embedder made the vectors of a RAG database, and how to find it again for a question.

haiku.rag writes down provider and model by names of its own. The model that runs in this process is recorded as what it
is, sentence-transformers' all-MiniLM-L6-v2: whoever has that package can search what was written here.
"""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding import EmbedOptions, dimension_of, open_embedder
from soliplex.ingester.lib.rag.opening import EmbeddingIdentity
from soliplex.ingester.lib.wiring import current_wiring

_RECORDED: Final = {"local": ("sentence-transformers", "all-MiniLM-L6-v2"), "wordllama": ("openai", "wordllama")}
"""What haiku.rag is to call providers that it does not have. Vectors of any precision of a model may be compared."""
_OURS: Final = {recorded: provider for provider, recorded in _RECORDED.items()}


def _known(_settings: Settings) -> dict[EmbedOptions, EmbeddingIdentity]:
    """The identities found so far with these settings, which say where embedders are."""
    return {}


async def identity_of(options: EmbedOptions) -> EmbeddingIdentity:
    """What the embedder that the options name is recorded as."""
    known = current_wiring().made(_known)
    if options not in known:
        async with open_embedder(options) as embedder:
            recorded = _RECORDED.get(embedder.name, (embedder.name, embedder.model))
            known[options] = EmbeddingIdentity(*recorded, await dimension_of(embedder))
    return known[options]


def options_for(identity: EmbeddingIdentity) -> EmbedOptions:
    """The options of the embedder that made vectors of this identity."""
    ours = _OURS.get((identity.provider, identity.model))
    if ours is not None:
        return EmbedOptions(provider=ours)
    return EmbedOptions(provider=identity.provider, model=identity.model, vector_dim=identity.dim)


async def embed_question(identity: EmbeddingIdentity, question: str) -> list[float]:
    """The vector of a question, comparable with those that the identity names."""
    async with open_embedder(options_for(identity)) as embedder:
        (vector,) = await embedder.embed([question])
    return vector
