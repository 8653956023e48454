"""What of a question is looked for as words: its phrases as they are, and the words that tell something.

    how do I use "graceful shutdown" with kubectl_get ──▶ phrases      graceful shutdown
                                                          identifiers  kubectl_get
                                                          words        use graceful shutdown with kubectl_get

The index of words takes text apart at whatever is no letter and no digit, so `kubectl_get` stands in it as two words.
An identifier is therefore looked for as a phrase: its parts in their order, with nothing between them.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, Final

from soliplex.ingester.lib.errors import MissingPackageError
from soliplex.ingester.lib.language import language_of, stop_words

_QUOTED: Final = re.compile(r'"([^"\n]+)"|“([^”\n]+)”|„([^“”\n]+)[“”]|«([^»\n]+)»|»([^«\n]+)«|「([^」\n]+)」')
_CODE: Final = re.compile(r"`([^`\n]+)`")
_QUOTES: Final = re.compile(r'["“”„«»「」`]')
_PART: Final = re.compile(r"[^\W_]+")
_MARKS_OF_WORDS: Final = frozenset("'’ʼ")  # noqa: RUF001
_COLUMN: Final = "content_fts"
_MOST_PHRASES: Final = 8
"""Phrases and identifiers that are looked for: each of them is a search of its own."""

_ENGLISH: Final = frozenset(
    """
    a about above after again against ain't all also am among an and another any are aren't as at be because been before
    being below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during
    each either few for from further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers
    herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it'd it'll it's its itself just let
    let's may me might more most must mustn't my myself neither no nor not of off on once one only or other ought our
    ours ourselves out over own please same shall shan't she she'd she'll she's should shouldn't so some such tell than
    that that'll that's the their theirs them themselves then there there's these they they'd they'll they're they've
    this those through to too under until up upon us very was wasn't we we'd we'll we're we've were weren't what what's
    when when's where where's whether which while who who's whom whose why why's will with would wouldn't you you'd
    you'll you're you've your yours yourself yourselves
    """.split()  # noqa: SIM905  a list of two hundred lines is not easier to read
)
"""In place of the list for English that comes with the others: that has `http`, `null`, `page`, `order` and `fire`."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A question, as the index of words is asked it."""

    words: str
    phrases: tuple[str, ...] = ()
    """What stands in quotes: a passage holds all of them, or it is none that was looked for."""
    identifiers: tuple[str, ...] = ()
    """Names, codes and numbers of several parts: a passage that holds them as they are is better."""


def wording_of(question: str) -> Wording:
    """Take a question apart. What is left of it when the words that say little are gone is never nothing."""
    quoted = ["".join(each) for each in _QUOTED.findall(question)]
    plain = _QUOTES.sub(" ", question)
    identifiers = _CODE.findall(question) + [word for word in plain.split() if _is_identifier(word)]
    phrases = _several(quoted, _MOST_PHRASES)
    known = {_key(phrase) for phrase in phrases}
    others = [each for each in _several(identifiers, _MOST_PHRASES) if _key(each) not in known]
    return Wording(_telling(plain), tuple(phrases), tuple(each for each in others if len(_PART.findall(each)) > 1))


def holders_query(wording: Wording) -> Any:
    """Passages that hold every phrase; those with more of the words come first."""
    query = _queries()
    required = [(query.Occur.MUST, query.PhraseQuery(phrase, _COLUMN)) for phrase in wording.phrases]
    return query.BooleanQuery([*required, (query.Occur.SHOULD, query.MatchQuery(wording.words, _COLUMN))])


def words_query(wording: Wording) -> Any:
    """Passages that hold any of the words; those that hold identifiers as they are come first."""
    query = _queries()
    words = query.MatchQuery(wording.words, _COLUMN)
    if not wording.identifiers:
        return words  # alone, it need not look at every passage that has one of its words
    wanted = [query.PhraseQuery(each, _COLUMN) for each in wording.identifiers]
    return query.BooleanQuery([(query.Occur.SHOULD, each) for each in (words, *wanted)])


def _queries() -> Any:
    """The module, without its types: a type checker does not know which fields of its classes may be left out."""
    from lancedb import query  # noqa: PLC0415  takes seconds, unless a database is open

    return query


def _several(texts: list[str], most: int) -> list[str]:
    """Each once, and only what has a letter or a digit."""
    different: dict[tuple[str, ...], str] = {}
    for text in texts:
        if _PART.search(text):
            different.setdefault(_key(text), text.strip())
    return list(different.values())[:most]


def _key(text: str) -> tuple[str, ...]:
    return tuple(_PART.findall(text.lower()))


def _is_identifier(word: str) -> bool:
    """Whether several parts are joined to one: `kubectl_get`, `ORA-00942`, `1.5.2`, `--dry-run`; not `don't`."""
    parts = list(_PART.finditer(word))
    return any(
        not set(word[before.end() : after.start()]) <= _MARKS_OF_WORDS for before, after in itertools.pairwise(parts)
    )


def _telling(plain: str) -> str:
    """The question without the words that its language's list holds."""
    words = plain.split()
    stops = _stop_words_for(plain)
    kept = [word for word in words if not _says_little(word, stops, shouting=plain.isupper())]
    # In `to be or not to be`, the words that say little are the question.
    return " ".join(kept if any(_PART.search(word) for word in kept) else words)


def _says_little(word: str, stops: frozenset[str], *, shouting: bool) -> bool:
    bare = word.strip(".,;:!?¿¡()[]…")
    if len(bare) > 1 and bare.isupper() and not shouting:
        return False  # IT, US, WHO
    plain = bare.lower().replace("’", "'")  # noqa: RUF001
    return plain in stops or all(part in stops for part in plain.split("-"))


def _stop_words_for(text: str) -> frozenset[str]:
    try:
        language = language_of(text)
    except MissingPackageError:  # a server that parses nothing need not have it: then all words are looked for
        return frozenset()
    if language == "en":
        return _ENGLISH
    return stop_words(language) if language else frozenset()
