"""The local model, for code that waits for vectors in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.embedding import Vector
from soliplex.ingester.lib.embedding.local import LocalEmbedder
from soliplex.ingester.segmenter.articles import Embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHORT: Final = 200
"""Characters up to which a text's vector is remembered: tags are asked for again with every article."""
MOST_REMEMBERED: Final = 5_000


def embedding_on(loop: asyncio.AbstractEventLoop) -> Embed:
    """Embeds on this loop. To be called in a thread, which waits."""
    embedder, remembered = LocalEmbedder(), dict[str, Vector]()

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np  # noqa: PLC0415  only where something is embedded

        new = [text for text in dict.fromkeys(texts) if text not in remembered]
        vectors = asyncio.run_coroutine_threadsafe(embedder.embed(new), loop).result()
        known = remembered | dict(zip(new, vectors, strict=True))
        if len(remembered) < MOST_REMEMBERED:
            remembered.update((text, known[text]) for text in new if len(text) <= SHORT)
        return np.asarray([known[text] for text in texts], np.float32)

    return embed
