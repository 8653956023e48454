"""The vectors that tell where topics change: averaged word vectors, computed in this process."""

from __future__ import annotations

from importlib.util import find_spec

from soliplex.ingester.lib.embedding.wordllama import embed_here
from soliplex.ingester.segmenter.topics import Embed


def local_embed() -> Embed | None:
    """The embedder for `cut_into_articles`; None where the extra `local` is not installed, and words are counted."""
    return embed_here if find_spec("wordllama") is not None else None
