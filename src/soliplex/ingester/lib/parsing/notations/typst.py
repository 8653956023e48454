"""Typst: headings, lists and links; what sets the page is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from soliplex.ingester.lib.parsing.notations.markdown import heading

_HEADING: Final = re.compile(r"(=+)\s+(.*?)(?:\s*<[\w:.-]+>)?\s*$")
_SETTING: Final = re.compile(r"#(?:set|show|let|import|include|pagebreak|v|h|outline|bibliography|counter)\b")
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:/])//[^\n]*", re.DOTALL)
_LINK: Final = re.compile(r'#link\("([^"\n]+)"\)(?:\[([^\]\n]*)\])?')
_STRONG: Final = re.compile(r"(?<![\w*])\*(\S[^*\n]*?)\*(?![\w*])")
_NUMBERED: Final = re.compile(r"^(\s*)\+ ")
_FENCE: Final = re.compile(r"\s*(```+)")
_OPENING, _CLOSING = "([{", ")]}"


def typst_as_markdown(text: str) -> str:
    return "\n".join(_lines(iter(text.split("\n")))) + "\n"


def _lines(lines: Iterator[str]) -> Iterator[str]:
    plain: list[str] = []
    for line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            plain.append(line)
            continue
        yield from _prose("\n".join(plain))
        plain = []
        yield line
        if fence[1] not in line[fence.end() :]:
            yield from _until(fence[1], lines)
    yield from _prose("\n".join(plain))


def _until(fence: str, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip().startswith(fence):
            return


def _prose(text: str) -> Iterator[str]:
    lines = iter(_COMMENT.sub("", text).split("\n"))
    for line in lines:
        if _SETTING.match(line):
            _skip_rest(line, lines)
        elif found := _HEADING.match(line):
            yield from ("", heading(len(found[1]), _inline(found[2])), "")
        else:
            yield _NUMBERED.sub(r"\g<1>1. ", _inline(line))


def _skip_rest(line: str, lines: Iterator[str]) -> None:
    """Leave out what goes on until all brackets are closed."""
    depth = _depth(line)
    while depth > 0 and (following := next(lines, None)) is not None:
        depth += _depth(following)


def _depth(line: str) -> int:
    return sum(map(line.count, _OPENING)) - sum(map(line.count, _CLOSING))


def _inline(text: str) -> str:
    linked = _LINK.sub(lambda found: f"[{found[2] or found[1]}]({found[1]})", text)
    return _STRONG.sub(r"**\1**", linked)
