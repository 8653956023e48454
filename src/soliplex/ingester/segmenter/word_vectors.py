"""The vectors that tell where topics change, computed in this process.

Blocks are told apart by averaged word vectors as well as by a language model, and much faster. Sentences are too short
for that: between them a language model finds more of the changes.
"""

from __future__ import annotations

from importlib.util import find_spec

from soliplex.ingester.lib.embedding import local, wordllama
from soliplex.ingester.segmenter.topics import Embed


def local_embed() -> Embed | None:
    """The `embed` of `cut_into_articles`; None where the extra `local` is not installed, and words are counted."""
    return wordllama.embed_here if find_spec("wordllama") is not None else None


def local_sentence_embed() -> Embed | None:
    """The `embed_sentences` of `cut_into_articles`; None where the extra `local` is not installed."""
    return local.embed_here if find_spec("onnxruntime") is not None else None
