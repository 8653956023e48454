"""How long articles should be, counted in characters that are not white space."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from soliplex.ingester.lib.errors import InvalidInputError

DEFAULT_MAXSIZE: Final = 5000


class ArticleSize(StrEnum):
    """The lengths that clients may ask for by name."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"
    XLARGE = "xlarge"


CHARACTERS: Final = {
    ArticleSize.SMALL: 750,
    ArticleSize.MEDIUM: 1500,
    ArticleSize.LARGE: 5000,
    ArticleSize.XLARGE: 9000,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The length that articles come close to, and the one that they exceed only where no boundary may be cut at."""

    target: int = CHARACTERS[ArticleSize.MEDIUM]
    maxsize: int = DEFAULT_MAXSIZE
    merges_small: bool = True
    """Whether sections that are far shorter than the target are put together with their neighbours."""

    def __post_init__(self) -> None:
        if self.maxsize < 1:
            raise InvalidInputError("maxsize", f"an article needs room for a character at least; it is {self.maxsize}")
        if not 1 <= self.target <= self.maxsize:
            raise InvalidInputError(
                "article_size", f"{self.target} characters are not between 1 and maxsize {self.maxsize}"
            )

    @classmethod
    def named(cls, article_size: ArticleSize | str, maxsize: int = DEFAULT_MAXSIZE) -> Self:
        """The sizes of a request. Where maxsize is less than the named length, it is the target too."""
        try:
            target = CHARACTERS[ArticleSize(article_size)]
        except ValueError as exc:
            raise InvalidInputError("article_size", f"{article_size!r} is none of {', '.join(ArticleSize)}") from exc
        return cls(min(target, max(maxsize, 1)), maxsize)


def size_of(text: str) -> int:
    """Characters that are not white space."""
    return sum(map(len, text.split()))
