"""Words and short phrases that tell what a text is about, found by counting.

A phrase is made of words that say something, and crosses no punctuation. It is worth more the more often it stands in
the text, the earlier it comes, if it stands in a heading, and the rarer its words are in the articles beside this one.
In English common words tell less. Where a word stands mostly within one longer phrase, the phrase counts and the word
hardly does. Of phrases that share a word, in whatever number, the better one stays.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from soliplex.ingester.lib.language import stop_words
from soliplex.ingester.lib.minilm import vocabulary

LONGEST: Final = 3
"""Most words of a phrase."""
_LOOKED_AT: Final = 20_000
"""Most characters of a text that are counted."""
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<[^>\n]*>|https?://\S+|\]\([^)\n]*\)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([^A-Za-z0-9\s])")
_PART: Final = re.compile(r"^#{1,6}(?=\s)|[^\W\d_][\w'\u2019+#-]*|\d[\w.,-]*|[^\w\s]|\n{2,}", re.MULTILINE)
_WITHOUT_SPACES: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_LETTERS: Final = 3
_ENDINGS: Final = 2
"""Letters at the end of a word by which its forms differ in many languages."""
_SHORTEST_STEM: Final = 4
_POINTERS: Final = frozenset(
    """
    figure figures fig figs table tables tab chapter chapters section sections appendix page pages note notes footnote
    step steps example examples supplementary abbildung abb tabelle kapitel abschnitt anhang seite figura tabla
    capítulo sección página tableau chapitre annexe tabella capitolo sezione pagina
    """.split()  # noqa: SIM905  a list of 40 lines is not easier to read
)
"""Words that name parts of documents, and not what documents are about."""
_ABSORBED: Final = 0.7
"""The share that a phrase loses of those places where it is part of a longer one that comes again."""
_FIRST_WORD: Final = 1996
"""The number of the most frequent word among those of the model's vocabulary, which are sorted by that."""
_COMMON: Final = 0.3
"""How much less common words of English tell: the exponent of their rank."""
_VERB: Final = re.compile(r"\w{2,}(?:[^e]ed|ly)\Z")
"""How English words end that are the last of no name."""
_BEGUN_WITH: Final = 2
"""How often a word has to begin sentences, and stand nowhere else, to be taken for a verb."""


@dataclass(slots=True)
class _Found:
    """A phrase as it stands in a text."""

    count: int = 0
    absorbed: int = 0
    """How often it stands in the longer phrase that it stands in most often, if that comes again."""
    first: int = 0
    in_heading: bool = False
    is_name: bool = False
    """Whether capitals say that it is one."""
    begun: int = 0
    """How often a sentence begins with it."""
    spellings: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class _Run:
    """Words that follow each other, all of which say something."""

    words: tuple[str, ...]
    place: int
    begins: bool
    """Whether a sentence begins with it."""
    in_heading: bool

    def phrases(self) -> Iterator[tuple[int, int]]:
        """The edges of every phrase in it."""
        for start in range(len(self.words)):
            for end in range(start + 1, min(start + LONGEST, len(self.words)) + 1):
                yield start, end


def keyphrases(text: str, language: str, most: int, elsewhere: Mapping[str, int] | None = None) -> list[str]:
    """The phrases that tell most, the best first. `elsewhere` counts in how many other articles a word stands."""
    found = _candidates(_runs(_parts(text), stop_words(language)), language)
    if not found:
        return []
    last = max(each.first for each in found.values()) or 1
    worth = {phrase: _worth(each, last, elsewhere or {}, language) for phrase, each in found.items()}
    chosen = list[str]()
    for phrase in sorted(worth, key=lambda each: (-worth[each], each)):
        if len(chosen) == most:
            break
        if not any(_overlap(phrase, other) for other in chosen):
            chosen.append(phrase)
    return [_spelling(found[phrase]) for phrase in chosen]


def words_in_articles(bodies: Iterable[str]) -> Counter[str]:
    """In how many of the texts each word stands."""
    return Counter(word for body in bodies for word in {part.lower() for part in _parts(body) if part[0].isalpha()})


def _parts(text: str) -> list[str]:
    return _PART.findall(_ESCAPE.sub(r"\1", _CODE.sub(" ", html.unescape(text[:_LOOKED_AT]))))


def _runs(parts: Sequence[str], stops: frozenset[str]) -> Iterator[_Run]:
    words, place, begins, in_heading, next_begins = list[str](), 0, True, False, True
    for number, part in enumerate((*parts, "\n\n")):
        if _tells(part, stops):
            if not words:
                place, begins = number, next_begins
            words.append(part)
        elif words:
            yield _Run(tuple(words), place, begins, in_heading)
            words.clear()
        if part.startswith("#"):
            in_heading = True
        elif part[0] == "\n":
            in_heading = False
        next_begins = not part[0].isalnum() and part not in {",", "(", "'", '"', "-"}


def _candidates(runs: Iterator[_Run], language: str) -> dict[str, _Found]:
    found = defaultdict[str, _Found](_Found)
    for run in runs:
        for start, end in run.phrases():
            words = run.words[start:end]
            each = found[_key(words, language)]
            each.first = each.first if each.count else run.place
            each.count += 1
            each.in_heading |= run.in_heading
            each.is_name |= _is_name(words, begins=start == 0 and run.begins)
            each.begun += start == 0 and run.begins and not run.in_heading
            each.spellings[" ".join(words)] += 1
    for phrase, each in found.items():
        for shorter in _within(phrase):
            found[shorter].absorbed = max(found[shorter].absorbed, each.count if each.count > 1 else 0)
    return dict(found)


def _within(phrase: str) -> Iterator[str]:
    """The shorter phrases in a phrase."""
    words = phrase.split()
    for length in range(1, len(words)):
        yield from (" ".join(words[start : start + length]) for start in range(len(words) - length + 1))


def _is_name(words: Sequence[str], *, begins: bool) -> bool:
    """Whether capitals say so: within a word, or at its beginning where no sentence begins."""
    return any(word[1:] != word[1:].lower() for word in words) or (words[0][0].isupper() and not begins)


def _key(words: Sequence[str], language: str) -> str:
    """What the forms of a phrase have in common."""
    return " ".join(_singular(word.lower(), language) for word in words)


def _singular(word: str, language: str) -> str:
    word = word.removesuffix("'s").removesuffix("\u2019s")
    if language != "en" or len(word) < _SHORTEST_STEM or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def _tells(part: str, stops: frozenset[str]) -> bool:
    if not part[0].isalpha() or part.lower() in stops or part.lower() in _POINTERS:
        return False
    # In scripts that put no spaces between words, a part may be a sentence.
    if _WITHOUT_SPACES.match(part):
        return 2 <= len(part) <= 8  # noqa: PLR2004
    return len(part) >= _FEWEST_LETTERS


def _worth(found: _Found, last: int, elsewhere: Mapping[str, int], language: str) -> float:
    words = _spelling(found).lower().split()
    rarity = sum(1 / (1 + math.log1p(elsewhere.get(word, 0))) for word in words) / len(words)
    early = 1.5 - 0.5 * found.first / last
    # A phrase that stands there once is as good as its words; one that comes again belongs together.
    together = len(words) ** (0.8 if found.count > 1 else -0.5)
    name = 1.3 if found.is_name and found.count > 1 else 1.0
    heading = 1.6 if found.in_heading and found.count > 1 else 1.0
    common = max(_uncommon(word) for word in words) if language == "en" else 1.0
    is_verb = _VERB.match(words[-1]) or (len(words) == 1 and found.begun == found.count >= _BEGUN_WITH)
    verb = 0.3 if language == "en" and is_verb and not found.is_name else 1.0
    count = found.count - _ABSORBED * found.absorbed
    return (count + 0.5) * rarity * early * together * name * heading * verb * common


def _uncommon(word: str) -> float:
    """How uncommon a word is in English, from nearly 0 to 1."""
    known = vocabulary()
    number = known.get(word) or known.get(_singular(word, "en")) or len(known)
    return (max(number - _FIRST_WORD, 1) / (len(known) - _FIRST_WORD)) ** _COMMON


def _spelling(found: _Found) -> str:
    return min(found.spellings, key=lambda each: (-found.spellings[each], each))


def _overlap(one: str, other: str) -> bool:
    return any(_same(*pair) for pair in product(one.split(), other.split()))


def _same(one: str, other: str) -> bool:
    """Whether two words are forms of one, as far as their endings tell."""
    short, long = sorted((one, other), key=len)
    return short == long or (
        len(short) >= _SHORTEST_STEM and long.startswith(short) and len(long) - len(short) <= _ENDINGS
    )
