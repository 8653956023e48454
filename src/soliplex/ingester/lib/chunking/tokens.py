"""What texts weigh: tokens of the embedding model, with a floor for what the tokenizer does not read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import batched
from typing import Final

from soliplex.ingester.lib.minilm import tokenizer

_AT_ONCE: Final = 1000
_CHARACTERS_PER_TOKEN: Final = 12
"""More than in any language. The tokenizer takes a word of more than a hundred letters for one token it does not know,
so that a page of base64 would weigh nothing."""


def weigh(texts: Iterable[str]) -> list[int]:
    """The weight of each text. Weights add up: white space weighs nothing, and words are read one by one."""
    weights = list[int]()
    for some in batched(texts, _AT_ONCE):
        encoded = tokenizer().encode_batch_fast(list(some), add_special_tokens=False)
        pairs = zip(some, encoded, strict=True)
        weights += [max(len(found), -(-len(text) // _CHARACTERS_PER_TOKEN)) for text, found in pairs]
    return weights
