"""`local`: all-MiniLM-L6-v2, computed in this process by onnxruntime. No service, no download."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib import minilm
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding.compute_threads import compute, compute_each, loaded_once
from soliplex.ingester.lib.embedding.embedders import Vector, checked
from soliplex.ingester.lib.embedding.errors import EmbeddingRefusedError
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.embedding.precision import Precision
from soliplex.ingester.lib.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

NAME: Final = "local"
DEFAULT_MODEL: Final = minilm.NAME
DIM: Final = 384
_TOKENS_AT_ONCE: Final = 2048
"""Tokens of the texts that are embedded in one call: enough to keep a core busy for less than half a second."""

type Tokens = list[int]


class LocalEmbedder:
    """Embeds with a model that is loaded once per process, when it is first needed."""

    name = NAME
    dim = DIM

    def __init__(self, precision: Precision = Precision.INT8) -> None:
        self._precision = precision
        self.model = f"{minilm.NAME}-{precision}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        model = await compute(_load, self._precision)
        tokens = await compute(model.tokens, texts)
        groups = list(_groups(tokens))
        found = await compute_each(model.embed, ([tokens[place] for place in group] for group in groups))
        places, vectors = chain.from_iterable(groups), chain.from_iterable(found)
        return [vector for _, vector in sorted(zip(places, vectors, strict=True), key=itemgetter(0))]


def embed_here(texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of the texts as rows of an array, computed by the caller's own thread."""
    import numpy as np  # noqa: PLC0415  only where something is embedded

    model = _load(Precision.INT8)
    return np.array(model.embed(model.tokens(texts)), dtype=np.float32).reshape(len(texts), DIM)


@asynccontextmanager
async def open_local(options: EmbedOptions, _settings: Settings) -> AsyncGenerator[LocalEmbedder]:
    checked_model(options.model)
    if options.vector_dim not in {None, DIM}:
        raise EmbeddingRefusedError(NAME, f"its vectors have {DIM} dimensions, not {options.vector_dim}")
    yield LocalEmbedder(options.precision)


def checked_model(model: str | None) -> None:
    name = (model or DEFAULT_MODEL).removeprefix("sentence-transformers/")
    if name.casefold() != DEFAULT_MODEL.casefold():
        raise EmbeddingRefusedError(NAME, f"it has the model {DEFAULT_MODEL} only, not {model}; name another provider")


class _Model:
    """A session of onnxruntime with its tokenizer; all calls block."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, as many as the model reads."""
        return [_cut(found.ids) for found in minilm.tokenizer().encode_batch_fast(list(texts))]

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        import numpy as np  # noqa: PLC0415  only where something is embedded

        vectors = list[Vector]()
        for tokens in texts:
            given = {"input_ids": np.array([tokens], np.int64), "position_ids": np.arange(len(tokens))}
            (found,) = self._session.run(["embedding"], given)
            vectors += found.tolist()  # pyright: ignore[reportAttributeAccessIssue]  an array
        return checked(NAME, vectors, len(texts), DIM)


def _cut(tokens: Tokens) -> Tokens:
    """No more than the model reads; the last token always is the one that ends a text."""
    return tokens if len(tokens) <= minilm.LONGEST else [*tokens[: minilm.LONGEST - 1], tokens[-1]]


def _groups(tokens: Sequence[Tokens]) -> Iterator[list[int]]:
    """The places of the texts, in groups of like length; the longest come first."""
    group = list[int]()
    for place in sorted(range(len(tokens)), key=lambda place: -len(tokens[place])):
        if group and len(tokens[group[0]]) * (len(group) + 1) > _TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(place)
    yield group


@loaded_once
def _load(precision: Precision) -> _Model:
    try:
        import onnxruntime  # noqa: PLC0415  only where something is embedded

        from soliplex.ingester.lib.embedding import minilm_graph, minilm_weights  # noqa: PLC0415
    except ImportError as exc:
        raise MissingPackageError(exc.name or "onnxruntime", "the embedding provider `local`") from exc
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a text is one thread's work
    # A higher level would put together again what `minilm_graph` spells out, and says why.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    graph = minilm_graph.build(minilm_weights.load(minilm.weights_file()), precision)
    return _Model(onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]))
