"""Words and short phrases that tell what a text is about, found by counting.

A phrase is made of words that say something, and crosses no punctuation. It is worth more the more often it stands in
the text, the earlier it comes, the more words of it belong together, and the rarer it is in the articles beside this
one. Of phrases that share a word, the better one stays.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from soliplex.ingester.lib.language import stop_words

LONGEST: Final = 3
"""Most words of a phrase."""
_LOOKED_AT: Final = 20_000
"""Most characters of a text that are counted."""
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<[^>\n]*>|https?://\S+|\]\([^)\n]*\)", re.DOTALL)
_PART: Final = re.compile(r"[^\W\d_][\w'\u2019+#-]*|\d[\w.,-]*|[^\w\s]|\n{2,}")
_WITHOUT_SPACES: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_LETTERS: Final = 3


@dataclass(slots=True)
class _Found:
    """A phrase as it stands in a text."""

    count: int = 0
    first: int = 0
    spellings: Counter[str] = field(default_factory=Counter[str])


def keyphrases(text: str, language: str, most: int, elsewhere: Mapping[str, int] | None = None) -> list[str]:
    """The phrases that tell most, the best first. `elsewhere` counts in how many other articles a word stands."""
    found = _candidates(text, stop_words(language))
    if not found:
        return []
    last = max(each.first for each in found.values()) or 1
    worth = {phrase: _worth(phrase, each, last, elsewhere or {}) for phrase, each in found.items()}
    chosen = list[str]()
    for phrase in sorted(worth, key=lambda each: (-worth[each], each)):
        if len(chosen) == most:
            break
        if not any(_overlap(phrase, other) for other in chosen):
            chosen.append(phrase)
    return [found[phrase].spellings.most_common(1)[0][0] for phrase in chosen]


def words_in_articles(bodies: Iterable[str]) -> Counter[str]:
    """In how many of the texts each word stands."""
    return Counter(word for body in bodies for word in {part.lower() for part in _parts(body) if part[0].isalpha()})


def _parts(text: str) -> list[str]:
    return _PART.findall(_CODE.sub(" ", text[:_LOOKED_AT]))


def _candidates(text: str, stops: frozenset[str]) -> dict[str, _Found]:
    found = defaultdict[str, _Found](_Found)
    for place, words in enumerate(_phrases(_parts(text), stops)):
        each = found[" ".join(words).lower()]
        each.first = each.first if each.count else place
        each.count += 1
        each.spellings[" ".join(words)] += 1
    return dict(found)


def _phrases(parts: Sequence[str], stops: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Every sequence of up to LONGEST words that say something."""
    run = list[str]()
    for part in (*parts, "."):
        if _tells(part, stops):
            run.append(part)
            yield from (tuple(run[-length:]) for length in range(1, min(len(run), LONGEST) + 1))
        else:
            run.clear()


def _tells(part: str, stops: frozenset[str]) -> bool:
    if not part[0].isalpha() or part.lower() in stops:
        return False
    # In scripts that put no spaces between words, a part may be a sentence.
    if _WITHOUT_SPACES.match(part):
        return 2 <= len(part) <= 8  # noqa: PLR2004
    return len(part) >= _FEWEST_LETTERS


def _worth(phrase: str, found: _Found, last: int, elsewhere: Mapping[str, int]) -> float:
    words = phrase.split()
    rarity = sum(1 / (1 + math.log1p(elsewhere.get(word, 0))) for word in words) / len(words)
    early = 1.5 - 0.5 * found.first / last
    # A phrase that stands there once is as good as its words; one that comes again belongs together.
    together = len(words) ** (0.8 if found.count > 1 else -0.5)
    name = 1.3 if any(spelling[0].isupper() for spelling in found.spellings) and found.count > 1 else 1.0
    return (found.count + 0.5) * rarity * early * together * name


def _overlap(one: str, other: str) -> bool:
    return bool(set(one.split()) & set(other.split()))
