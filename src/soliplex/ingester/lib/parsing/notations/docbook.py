"""DocBook: titles, paragraphs, listings, lists and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from soliplex.ingester.lib.parsing.notations.errors import NotationError
from soliplex.ingester.lib.parsing.notations.markdown import escaped, fenced, heading, page, table
from soliplex.ingester.lib.parsing.notations.xml import children, name_of, parsed, words

_SECTIONS: Final = frozenset(
    {
        *("appendix", "article", "bibliography", "book", "chapter", "glossary", "part", "preface", "reference", "set"),
        *("refentry", "refsect1", "refsect2", "refsect3", "refsection", "section", "simplesect", "topic"),
        *("sect1", "sect2", "sect3", "sect4", "sect5"),
    }
)
_LISTINGS: Final = frozenset({"programlisting", "screen", "literallayout", "synopsis"})
_PARAGRAPHS: Final = frozenset(
    {"para", "simpara", "bridgehead", "subtitle", "term", "refname", "refpurpose", "attribution"}
)
_HEADS: Final = frozenset({"info", "articleinfo", "bookinfo", "chapterinfo", "sectioninfo"})
_DEEPEST: Final = 200


def docbook_as_markdown(text: str) -> str:
    found = page(_section(parsed(text), 1, 0))
    if not found.strip():
        raise NotationError("nothing of the DocBook can be shown")
    return found


def _section(element: Any, level: int, depth: int) -> Iterator[str]:
    heads = [element, *(child for child in element if name_of(child) in _HEADS)]
    titles = [words(title) for head in heads for title in children(head, "title")]
    yield from (heading(level, escaped(title)) for title in titles[:1] if title)
    for child in element:
        if name_of(child) != "title" and name_of(child) not in _HEADS:
            yield from _block(child, level, depth + 1)


def _block(element: Any, level: int, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise NotationError("the DocBook is nested too deeply")
    name = name_of(element)
    if name in _SECTIONS:
        yield from _section(element, level + 1, depth)
    elif name in _LISTINGS:
        yield fenced("".join(element.itertext()), element.get("language") or "")
    elif name in {"itemizedlist", "orderedlist"}:
        mark = "-" if name == "itemizedlist" else "1."
        yield "\n".join(f"{mark} {escaped(words(item))}" for item in children(element, "listitem"))
    elif name in {"tgroup", "informaltable"} and (rows := _rows(element)):
        yield table(rows)
    elif name in _PARAGRAPHS or not any(name_of(child) for child in element):
        yield escaped(words(element))
    else:
        yield escaped(" ".join((element.text or "").split()))
        for child in element:
            yield from _block(child, level, depth + 1)


def _rows(element: Any) -> list[list[str]]:
    rows = [each for each in element.iter() if name_of(each) in {"row", "tr"}]
    return [[words(cell) for cell in row if name_of(cell) in {"entry", "td", "th"}] for row in rows]
