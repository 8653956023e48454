"""Org: headings, blocks, links and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from soliplex.ingester.lib.parsing.notations.markdown import fenced, heading

_HEADING: Final = re.compile(r"(\*+)\s+(.*?)(?:\s+:[\w@:]+:)?\s*$")
_TITLE: Final = re.compile(r"#\+title:\s*(.+)", re.IGNORECASE)
_KEYWORD: Final = re.compile(r"#\+\w+:|#(?:\s|$)")
_BEGIN: Final = re.compile(r"\s*#\+begin_(\w+)[ \t]*(\S*)", re.IGNORECASE)
_END: Final = re.compile(r"\s*#\+end_\w+", re.IGNORECASE)
_DRAWER: Final = re.compile(r"\s*:(?:PROPERTIES|LOGBOOK):\s*$", re.IGNORECASE)
_DRAWER_END: Final = re.compile(r"\s*:END:\s*$", re.IGNORECASE)
_RULE: Final = re.compile(r"\s*\|[-+]+\|?\s*$")
_LINK: Final = re.compile(r"\[\[([^\]\n]+)\](?:\[([^\]\n]+)\])?\]")
_CODE: Final = re.compile(r"(?<![\w=~])([=~])(\S(?:[^=~\n]*\S)?)\1(?![\w=~])")
_VERBATIM: Final = frozenset({"src", "example", "export"})


def org_as_markdown(text: str) -> str:
    return "\n".join(_lines(iter(text.split("\n")))) + "\n"


def _lines(lines: Iterator[str]) -> Iterator[str]:
    titled = 0
    for line in lines:
        if (title := _TITLE.match(line)) and not titled:
            titled = 1
            yield heading(1, title[1])
        elif begin := _BEGIN.match(line):
            yield from _block(begin[1].lower(), begin[2], lines)
        elif _DRAWER.match(line):
            _skip(lines)
        elif found := _HEADING.match(line):
            yield from ("", heading(len(found[1]) + titled, _inline(found[2])), "")
        elif not _KEYWORD.match(line):
            yield _row(line) if line.lstrip().startswith("|") else _inline(line)


def _block(kind: str, language: str, lines: Iterator[str]) -> Iterator[str]:
    inside: list[str] = []
    for line in lines:
        if _END.match(line):
            break
        inside.append(line)
    if kind in _VERBATIM:
        yield fenced("\n".join(inside), language if kind == "src" else "")
    elif kind != "comment":
        yield from map(_inline, inside)


def _skip(lines: Iterator[str]) -> None:
    for line in lines:
        if _DRAWER_END.match(line):
            return


def _row(line: str) -> str:
    return line.replace("+", "|") if _RULE.match(line) else _inline(line)


def _inline(text: str) -> str:
    linked = _LINK.sub(lambda found: f"[{found[2]}]({found[1]})" if found[2] else found[1], text)
    return _CODE.sub(r"`\2`", linked)
