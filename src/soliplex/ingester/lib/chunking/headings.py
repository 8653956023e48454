"""The headings that a place in a document stands below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from soliplex.ingester.lib.chunking.blocks import Block, Origin


@dataclass(slots=True)
class Headings:
    """The path of headings while a document is read from its beginning to its end.

    A heading below which nothing stands is text nobody would find, as no chunk bears it: it becomes a block itself.
    """

    _open: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _bare: Block | None = None
    _section: int = 0

    @property
    def path(self) -> tuple[str, ...]:
        """The headings from the outermost to the innermost."""
        return tuple(text for _, text in self._open)

    def enter(self, level: int, text: str, origins: tuple[Origin, ...]) -> Iterator[Block]:
        """A heading begins; gives the one before it, if nothing stood below that."""
        if not text:
            return
        if self._bare is not None and self._open[-1][0] >= level:
            yield self._bare
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._section += 1
        self._bare = self._placed(Block(text, origins=origins))
        self._open.append((level, text))

    def place(self, block: Block) -> Block:
        """The block as it stands here, below the newest heading."""
        self._bare = None
        return self._placed(block)

    def _placed(self, block: Block) -> Block:
        return replace(block, headings=self.path, section=self._section)

    def left_over(self) -> Iterator[Block]:
        """The last heading, if nothing stood below it."""
        if self._bare is not None:
            yield self._bare
            self._bare = None
