"""reStructuredText: titles, code, links and roles. Tables stay as they are drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from soliplex.ingester.lib.parsing.notations.markdown import fenced, heading

_ADORNMENT: Final = re.compile(r"([=\-`:.'\"~^_*+#!$%&(),/;<>?@\[\]{}|\\])\1{1,}\s*$")
_DIRECTIVE: Final = re.compile(r"\s*\.\.\s+(?:\|[^|]+\|\s+)?([\w:.+-]+)::\s*(.*)$")
_COMMENT: Final = re.compile(r"\s*\.\.(?:\s|$)")
_FOOTNOTE: Final = re.compile(r"\s*\.\.\s+\[([^\]]+)\]\s+(.*)$")
_OPTION: Final = re.compile(r"\s*:[\w-]+:")
_CODE: Final = frozenset(
    {"code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "prompt", "math"}
)
_WITHOUT_TEXT: Final = frozenset(
    {"toctree", "contents", "include", "literalinclude", "index", "highlight", "raw", "meta"}
)
_GRID: Final = re.compile(r"\s*(?:\+[-=+]+\+|={2,}(?:\s+={2,})+)\s*$")
_ROLE: Final = re.compile(r":[\w:+.-]+:`~?([^`<\n]+?)(?:\s*<[^>`\n]*>)?`")
_LINK: Final = re.compile(r"`([^`<\n]+?)\s*<([^>`\s]+)>`__?")
_REFERENCE: Final = re.compile(r"(?<!`)`([^`\n]+)`__?(?!\w)")
_LITERAL: Final = re.compile(r"``([^`\n]+)``")


def restructured_as_markdown(text: str) -> str:
    return "\n".join(_Reader(text.expandtabs(8).split("\n")).read()) + "\n"


class _Reader:
    """Goes through the lines; levels of titles are told by the order in which their adornments come."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0
        self._styles: list[str] = []
        self._out: list[str] = []

    def read(self) -> list[str]:
        while self._at < len(self._lines):
            if not (self._title() or self._table() or self._directive()):
                self._line()
        return self._out

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._lines[place] if place < len(self._lines) else ""

    def _title(self) -> bool:
        over = self._peek() if _ADORNMENT.match(self._peek()) else ""
        text, under = self._peek(bool(over)), self._peek(1 + bool(over))
        fits = bool(text.strip()) and not _ADORNMENT.match(text) and len(under.rstrip()) >= len(text.strip())
        if not fits or not _ADORNMENT.match(under) or (over and over.rstrip() != under.rstrip()):
            return False
        if not over and text != text.lstrip():
            return False
        style = under[0] * (2 if over else 1)
        if style not in self._styles:
            self._styles.append(style)
        self._out += ["", heading(self._styles.index(style) + 1, _inline(text)), ""]
        self._at += 2 + bool(over)
        return True

    def _table(self) -> bool:
        if not _GRID.match(self._peek()):
            return False
        block = list[str]()
        while self._peek().strip():
            block.append(self._peek())
            self._at += 1
        self._out += ["", fenced("\n".join(block)), ""]
        return True

    def _directive(self) -> bool:
        line = self._peek()
        if found := _DIRECTIVE.match(line):
            self._at += 1
            self._show(found[1].lower(), found[2], self._indented(_indent(line)))
            return True
        if found := _FOOTNOTE.match(line):
            self._at += 1
            self._out += ["", f"[{found[1]}] {_inline(found[2])}", *map(_inline, self._indented(_indent(line)))]
            return True
        if _COMMENT.match(line):
            self._at += 1
            self._indented(_indent(line))
            return True
        return False

    def _show(self, name: str, argument: str, body: list[str]) -> None:
        while body and _OPTION.match(body[0]):
            if name in {"image", "figure"} and (alt := re.match(r"\s*:alt:\s*(.+)", body[0])):
                self._out += ["", alt[1]]
            body = body[1:]
        if name in _WITHOUT_TEXT:
            return
        if name in _CODE:
            language = argument if name in {"code", "code-block", "sourcecode"} else ""
            self._out += ["", fenced("\n".join(body), language), ""]
            return
        said = "" if name in {"image", "figure"} else _inline(argument)
        self._out += ["", said, "", *_Reader(body).read(), ""]

    def _line(self) -> None:
        line = self._peek()
        self._at += 1
        if not line.rstrip().endswith("::"):
            self._out.append(_inline(line))
            return
        said = line.rstrip()[:-1].rstrip(": ")
        self._out += [f"{_inline(said)}:" if said.strip() else ""]
        code = self._indented(_indent(line))
        if any(each.strip() for each in code):
            self._out += ["", fenced("\n".join(code)), ""]

    def _indented(self, indent: int) -> list[str]:
        """The lines that follow and stand further in, without what all of them are indented by."""
        block = list[str]()
        while self._at < len(self._lines) and (not self._peek().strip() or _indent(self._peek()) > indent):
            block.append(self._peek())
            self._at += 1
        least = min((_indent(line) for line in block if line.strip()), default=0)
        stripped = [line[least:] for line in block]
        while stripped and not stripped[0].strip():
            stripped.pop(0)
        return stripped


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _inline(text: str) -> str:
    """A line's markup as Markdown. Code is taken out first, since what stands in it is no markup."""
    parts = _LITERAL.split(text)
    return "".join(f"`{part}`" if number % 2 else _marked(part) for number, part in enumerate(parts))


def _marked(text: str) -> str:
    linked = _LINK.sub(r"[\1](\2)", _ROLE.sub(r"\1", text))
    return _REFERENCE.sub(r"\1", linked)
