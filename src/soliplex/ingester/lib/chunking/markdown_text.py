"""Reads the blocks of Markdown, line by line.

For documents of which nothing but text is known. A block's text is the source's own, so every line of the source is in
some chunk: what this reader does not know is a paragraph. It takes a line once, and holds one block at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from soliplex.ingester.lib.chunking.blocks import Block, Kind
from soliplex.ingester.lib.chunking.headings import Headings

_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE: Final = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_LIST_ITEM: Final = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_TABLE_RULE: Final = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_FRONT_MATTER_END: Final = re.compile(r"^(---|\.\.\.)[ \t]*$")
_PARAGRAPHS: Final = "\n\n"


def blocks_of(markdown: str, separator: str = _PARAGRAPHS) -> Iterator[Block]:
    """The blocks of the text, in its order, cut at the separator too where that is not the one between paragraphs."""
    found = _Reader().read(markdown)
    return found if separator == _PARAGRAPHS else _cut_at(separator, found)


def _cut_at(separator: str, blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        first, *rest = block.text.split(separator) if block.kind is not Kind.TABLE else [block.text]
        if first.strip():
            yield replace(block, text=first)
        yield from (replace(block, text=part, joiner=separator) for part in rest if part.strip())


@dataclass(slots=True)
class _Reader:
    headings: Headings = field(default_factory=Headings)
    lines: list[str] = field(default_factory=list[str])
    """The lines of the block that has begun."""
    in_list: bool = False
    after_blank: bool = False

    def read(self, markdown: str) -> Iterator[Block]:
        lines = iter(markdown.splitlines())
        for number, line in enumerate(lines):
            if number == 0 and line.rstrip() == "---":
                yield from self._front_matter(lines)
            elif fence := _FENCE.match(line):
                yield from self._fenced(fence[1], line, lines)
            else:
                yield from self._line(line)
        yield from self._end()
        yield from self.headings.left_over()

    def _line(self, line: str) -> Iterator[Block]:
        if not line.strip():
            yield from self._blank()
        elif heading := _HEADING.match(line):
            yield from self._end()
            yield from self.headings.enter(len(heading[1]), (heading[2] or "").strip(), ())
        elif self._underlines(line):
            level = 1 if "=" in line else 2
            text = self.lines.pop().strip()
            yield from self.headings.enter(level, text, ())
        elif _LIST_ITEM.match(line) or (self.in_list and self.after_blank and not line.startswith((" ", "\t"))):
            yield from self._end()
            self.in_list = bool(_LIST_ITEM.match(line))
            self.lines.append(line)
        else:
            self.lines.append(line)
        self.after_blank = not line.strip()

    def _blank(self) -> Iterator[Block]:
        """A blank line ends a paragraph. A list item goes on if the next line is indented."""
        if self.in_list:
            self.lines.append("")
        else:
            yield from self._end()

    def _underlines(self, line: str) -> bool:
        return len(self.lines) == 1 and not self.in_list and "|" not in self.lines[0] and bool(_UNDERLINE.match(line))

    def _front_matter(self, lines: Iterator[str]) -> Iterator[Block]:
        """What stands between two lines of dashes at the very beginning: facts about the document."""
        for line in lines:
            if _FRONT_MATTER_END.match(line):
                break
            self.lines.append(line)
        yield from self._end()

    def _fenced(self, fence: str, opening: str, lines: Iterator[str]) -> Iterator[Block]:
        if not self.in_list:
            yield from self._end()
        code = [opening]
        for line in lines:
            code.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                break
        if self.in_list:
            self.lines += code
        else:
            yield self.headings.place(Block("\n".join(code), Kind.CODE))

    def _end(self) -> Iterator[Block]:
        """End the block that had begun."""
        lines, self.lines = self.lines, []
        in_list, self.in_list = self.in_list, False
        text = "\n".join(lines).strip("\n")
        if not text.strip():
            return
        rule = next((number for number, line in enumerate(lines[:3]) if _is_rule(line)), 0)
        if in_list:
            block = Block(text.rstrip(), Kind.LIST_ITEM, joiner="\n")
        elif rule and "|" in lines[rule - 1]:
            block = Block(text, Kind.TABLE, header_lines=rule + 1)
        else:
            block = Block(text)
        yield self.headings.place(block)


def _is_rule(line: str) -> bool:
    return "-" in line and bool(_TABLE_RULE.match(line))
