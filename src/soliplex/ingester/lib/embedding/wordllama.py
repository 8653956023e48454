"""`wordllama`: averaged word vectors, many times as fast as a language model and less exact. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from itertools import batched, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding.compute_threads import compute_each, loaded_once
from soliplex.ingester.lib.embedding.embedders import Vector, checked
from soliplex.ingester.lib.embedding.errors import EmbeddingRefusedError
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME: Final = "wordllama"
DEFAULT_MODEL: Final = "l2_supercat"
DIM: Final = 256
_SHORTER: Final = (64, 128, 256)
_AT_ONCE: Final = 256
_FILLED_UP: Final = 32


class WordLlamaEmbedder:
    """Embeds with the vectors inside the package, which can be cut to their first 64 or 128 numbers."""

    name = NAME

    def __init__(self, dim: int = DIM) -> None:
        self.dim = dim
        self.model = DEFAULT_MODEL if dim == DIM else f"{DEFAULT_MODEL}-{dim}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        found = await compute_each(partial(_embed, dim=self.dim), batched(texts, _AT_ONCE))
        return list(chain.from_iterable(found))


@asynccontextmanager
async def open_wordllama(options: EmbedOptions, _settings: Settings) -> AsyncGenerator[WordLlamaEmbedder]:
    if options.model not in {None, NAME, DEFAULT_MODEL}:
        raise EmbeddingRefusedError(NAME, f"it has the model {DEFAULT_MODEL} only, not {options.model}")
    dim = options.vector_dim or DIM
    if dim not in _SHORTER:
        raise EmbeddingRefusedError(NAME, f"its vectors have {', '.join(map(str, _SHORTER))} dimensions, not {dim}")
    yield WordLlamaEmbedder(dim)


def embed_here(texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of the texts as rows of an array, computed by the caller's own thread, and not of equal length."""
    return _vectors(texts, DIM)


def _embed(texts: Sequence[str], dim: int) -> list[Vector]:
    import numpy as np  # noqa: PLC0415  only where something is embedded

    vectors = _vectors(texts, dim)
    # Of an empty text it knows no words: its vector is zero, and has no direction that could be scaled.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return checked(NAME, (vectors / np.where(lengths > 0, lengths, 1)).tolist(), len(texts), dim)


def _vectors(texts: Sequence[str], dim: int) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415

    # All that is computed at once is filled up to the longest of it: so texts of like length go together.
    order = np.array(sorted(range(len(texts)), key=lambda place: len(texts[place])), dtype=np.int64)
    vectors = np.zeros((len(texts), dim), dtype=np.float32)
    vectors[order] = _load(dim).embed([texts[place] for place in order], norm=False, batch_size=_FILLED_UP)
    return vectors


@loaded_once
def _load(dim: int) -> Any:
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise MissingPackageError("wordllama", "the embedding provider `wordllama`")
    from wordllama import WordLlama  # noqa: PLC0415  only where something is embedded

    # Its own folder holds the weights; elsewhere it would look for them on the net.
    return WordLlama.load(trunc_dim=dim, cache_dir=Path(found.origin).parent, disable_download=True)
