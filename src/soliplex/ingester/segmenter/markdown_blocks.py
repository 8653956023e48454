"""The blocks of Markdown, as places in its text: every character belongs to exactly one block.

A parser of CommonMark tells where blocks begin, so a `#` in a fence is no heading and a table in a list is no table.
Lines that belong to no block, such as empty ones, go with the block before them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Where the parser ends a line, which is not everywhere where str.splitlines does.
_LINE_END: Final = re.compile(r"\r\n?|\n")
_FRONT_MATTER: Final = re.compile(
    r"---[ \t]*(?:\r\n?|\n)(?:.*?(?:\r\n?|\n))??(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.DOTALL
)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_RULE_LINE: Final = r"[ \t]*(?:(?:-[ \t]*)+|(?:\*[ \t]*)+|(?:\+[ \t]*)+)$"
_MANY_MARKS: Final = re.compile(
    rf"^(?!{_RULE_LINE})[ \t]*(?:(?:>|(?:[-*+]|\d{{1,9}}[.)])(?=[ \t]))[ \t]*){{21,}}", re.MULTILINE
)
"""Marks of lists and quotations, one after the other: punctuation that has lost its words, or a drawing."""
_DEEPEST: Final = 100
"""Levels of nesting that the parser follows. It takes all that follows a deeper one for a part of that."""
_CODE_SPAN: Final = re.compile(r"(?<![`\\])(`+)(?!`)(.{1,500}?)(?<!`)\1(?!`)")
_MARKUP: Final = re.compile(r"\\([^A-Za-z0-9\s])|[*`~]+|(?<!\w)_+|_+(?!\w)|<[^>\n]*>")


class BlockKind(Enum):
    """What a block is, as far as that decides where may be cut."""

    HEADING = auto()
    PARAGRAPH = auto()
    """May be cut between sentences; no other kind may be cut at all."""
    LIST_ITEM = auto()
    """An item of an outermost list, with all that is nested in it."""
    CODE = auto()
    TABLE = auto()
    HTML = auto()
    QUOTE = auto()
    RULE = auto()
    FRONT_MATTER = auto()


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the Markdown, up to the next block's beginning."""

    start: int
    end: int
    kind: BlockKind
    level: int = 0
    """The level of a heading, 1 to 6; else 0."""
    heading: str = ""
    """What a heading says, without markup."""


LONGEST_HEADING: Final = 2_000
"""Characters of a heading that count. The end of a link is looked for in all that follows its beginning, so a line of a
megabyte that begins very many links would take an hour."""

_KINDS: Final = {
    "paragraph_open": BlockKind.PARAGRAPH,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
    "html_block": BlockKind.HTML,
    "hr": BlockKind.RULE,
}


def blocks_of(markdown: str) -> list[Block]:
    """The blocks in their order; none where nothing but white space is written."""
    if not markdown.strip():
        return []
    matter = _FRONT_MATTER.match(markdown)
    begins = matter.end() if matter else 0
    found = [Block(0, begins, BlockKind.FRONT_MATTER)] if matter else []
    found += _blocks_after(markdown, begins)
    return _without_gaps(found or [Block(0, 0, BlockKind.PARAGRAPH)], len(markdown))


def without_front_matter(markdown: str) -> str:
    """The text after the facts about the document that may stand at its beginning."""
    matter = _FRONT_MATTER.match(markdown)
    return markdown[matter.end() :] if matter else markdown


def plain(text: str) -> str:
    """The text of a line of Markdown, without its markup. What is code stays as it is: `<br>` is a name there."""
    linked, said, place = _LINK.sub(r"\1", text), list[str](), 0
    for code in _CODE_SPAN.finditer(linked):
        said += _without_markup(linked[place : code.start()]), code[2]
        place = code.end()
    return " ".join("".join([*said, _without_markup(linked[place:])]).split())


def _without_markup(text: str) -> str:
    return html.unescape(_MARKUP.sub(r"\1", text))


def _blocks_after(markdown: str, begins: int) -> Iterator[Block]:
    text = markdown[begins:]
    lines = [begins, *(begins + found.end() for found in _LINE_END.finditer(text))]
    tokens = _parser().parse(_MANY_MARKS.sub(lambda marks: "x" * len(marks[0]), text))
    for place, token in enumerate(tokens):
        if token.map is None:
            continue
        start = lines[token.map[0]]
        if token.level == 0 and token.type == "heading_open":
            yield _heading(start, int(token.tag[1:]), tokens[place + 1].content)
        elif token.level == 0 and token.type in _KINDS:
            yield Block(start, start, _KINDS[token.type])
        elif token.level == 1 and token.type == "list_item_open":
            yield Block(start, start, BlockKind.LIST_ITEM)
        elif token.level == 1 and _is_quoted(tokens, place):
            yield Block(start, start, BlockKind.QUOTE)


def _heading(start: int, level: int, content: str) -> Block:
    said = plain(content[:LONGEST_HEADING])
    # A heading that says nothing cannot be a title, nor part of a path.
    return Block(start, start, BlockKind.HEADING, level, said) if said else Block(start, start, BlockKind.PARAGRAPH)


def _is_quoted(tokens: Sequence[Token], place: int) -> bool:
    """Whether a block stands in a quotation that stands in nothing else."""
    return (
        tokens[place].nesting >= 0 and tokens[place].type != "inline" and not tokens[place].type.startswith(_IN_OTHERS)
    )


_IN_OTHERS: Final = ("list_item", "thead", "tbody", "tr")


def _without_gaps(blocks: Sequence[Block], length: int) -> list[Block]:
    starts = [0, *(block.start for block in blocks[1:]), length]
    spans = pairwise(starts)
    return [
        Block(start, end, block.kind, block.level, block.heading)
        for block, (start, end) in zip(blocks, spans, strict=True)
        if end > start
    ]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  only where something is cut

    # What stands inside a line is of no interest here, and takes most of the time.
    return MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable("table").disable(["inline", "text_join"])
