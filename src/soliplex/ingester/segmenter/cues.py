"""Signs in the text that a new topic begins, beside what it is about: how blocks follow each other, and how they open.

Each cue is a number for each boundary between two passages. Their weights were fitted to one half of a collection of
documentation pages (`python -m benchmarks.segmenter_weights`), and say by how much a cut there is worth more than one
between two plain paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soliplex.ingester.segmenter.markdown_blocks import BlockKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OPENING: Final = 200
"""Characters at the beginning of a passage that are looked at."""
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_STEM: Final = 6
_DEFINITION: Final = re.compile(
    r"[-*+]\s+(?:(?:`[^`\n]*`|\*\*[^*\n]+\*\*|\S+)?\s*(?:\([^)\n]*\)\s*)?)(?:-\s+:|:\s|[\u2013\u2014]\s)"
)
_ITEM: Final = re.compile(r"(?:^|\s)[-*+]\s+")
_SHORT_ITEM: Final = 80
_MOSTLY: Final = 0.6
_EXAMPLE: Final = re.compile(
    r"(?:this|the following|in this|in the following|the)\b.{0,25}\bexample|example|below", re.IGNORECASE
)
_GOES_ON: Final = re.compile(
    r"(?:this (?!example)|these|that|those|it |its |they|however|also|then|next|finally|instead|similarly|otherwise"
    r"|therefore|thus|so |but |and |or |because|since |for example|for instance|in this case|in these|in addition"
    r"|additionally|furthermore|moreover|as a result|as you can|note |now|here|again|if |when |once |after |before "
    r"|you |we |let's|to |with |by |even|unlike|both|such|another|other"
    r"|the (?:following|above|result|output|code|second|first|last|other|same|next|previous|resulting))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A block, a whole list, or a sentence of a long paragraph."""

    text: str
    kind: BlockKind
    goes_on_inside: bool = False
    """Whether it is a sentence that stands in the same paragraph as the passage before it."""


WEIGHTS: Final = {
    "text": 0.98,
    "list": -0.70,
    "after definitions": 1.03,
    "quote": -0.81,
    "same kind": -0.46,
    "after colon": -0.86,
    "list after colon": -0.86,
    "short items": 0.61,
    "short items, last": 1.97,
    "list without colon": 1.23,
    "last": 1.62,
    "list, last": 1.66,
    "second": 1.89,
    "text, second": -0.32,
    "third": 1.13,
    "goes on": -0.31,
    "example": 1.22,
    "shared words": -3.02,
}
_TIES: Final = {"goes on": 0.3, "shared words": 1.0}
"""The weights of what ties a sentence to the one before it, in a text without paragraphs."""
PLAIN: Final = -0.41
"""What the cues give, on the average, between two plain paragraphs."""


def worth_of_cuts(passages: Sequence[Passage]) -> NDArray[np.float64]:
    """By how much a cut before each passage is worth more than one between two plain paragraphs."""
    import numpy as np  # noqa: PLC0415  only where something is cut

    return cues_of(passages) @ np.array(list(WEIGHTS.values())) - PLAIN


def ties_of_sentences(passages: Sequence[Passage]) -> NDArray[np.float64]:
    """By how much each sentence is tied more to the one before it than most are."""
    import numpy as np  # noqa: PLC0415

    ties = cues_of(passages) @ np.array([_TIES.get(name, 0.0) for name in WEIGHTS])
    return ties - ties[1:].mean()


def cues_of(passages: Sequence[Passage]) -> NDArray[np.float64]:
    """The cues before each passage, in the order of WEIGHTS; those of the first are zero."""
    import numpy as np  # noqa: PLC0415

    looks = [_Look.at(passage) for passage in passages]
    found = np.zeros((len(passages), len(WEIGHTS)))
    for place in range(1, len(passages)):
        cues = _cues(looks[place - 1], looks[place], place, len(passages))
        found[place] = [cues[name] for name in WEIGHTS]
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """What is seen of a passage."""

    sort: str
    ends_in_colon: bool
    has_short_items: bool
    is_example: bool
    goes_on: bool
    words: frozenset[str]

    @classmethod
    def at(cls, passage: Passage) -> _Look:
        text = passage.text.strip()
        sort = _SORTS.get(passage.kind, "other")
        if sort == "list" and _DEFINITION.match(text, 0, _OPENING):
            sort = "definitions"
        return cls(
            sort,
            text.endswith((":", "\uff1a")),
            sort == "list" and _has_short_items(text),
            bool(_EXAMPLE.match(text)),
            bool(_GOES_ON.match(text)),
            frozenset(word.lower()[:_STEM] for word in _WORD.findall(text)),
        )

    @property
    def is_list(self) -> bool:
        return self.sort in {"list", "definitions"}


_SORTS: Final = {BlockKind.PARAGRAPH: "text", BlockKind.LIST_ITEM: "list", BlockKind.QUOTE: "quote"}


def _cues(before: _Look, look: _Look, place: int, count: int) -> dict[str, float]:
    is_last = place == count - 1
    shared = len(before.words & look.words) / (1 + min(len(before.words), len(look.words)))
    return {
        "text": look.sort == "text",
        "list": look.sort == "list",
        "after definitions": before.sort == "definitions",
        "quote": look.sort == "quote",
        "same kind": look.sort == before.sort,
        "after colon": before.ends_in_colon,
        "list after colon": before.ends_in_colon and look.is_list,
        "short items": look.has_short_items,
        "short items, last": look.has_short_items and is_last,
        "list without colon": look.is_list and not before.ends_in_colon,
        "last": is_last,
        "list, last": look.sort == "list" and is_last,
        "second": place == 1,
        "text, second": place == 1 and look.sort == "text",
        "third": place == 2,  # noqa: PLR2004
        "goes on": look.goes_on,
        "example": look.is_example,
        "shared words": shared,
    }


def _has_short_items(text: str) -> bool:
    """Whether a list looks like one of links, names or literature: short items that are no sentences."""
    items = _ITEM.split(text)[1:]
    short = sum(len(item) < _SHORT_ITEM and not item.rstrip().endswith(".") for item in items)
    return bool(items) and short / len(items) > _MOSTLY
