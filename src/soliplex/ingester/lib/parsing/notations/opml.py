"""OPML: outlines. What has something below it is a heading, what has not is an item of a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from soliplex.ingester.lib.parsing.notations.errors import NotationError
from soliplex.ingester.lib.parsing.notations.markdown import escaped, heading, one_line, page
from soliplex.ingester.lib.parsing.notations.xml import children, parsed, words


def opml_as_markdown(text: str) -> str:
    root = parsed(text)
    body = next(iter(children(root, "body")), None)
    if body is None:
        raise NotationError("the outline has no body")
    titles = [words(title) for head in children(root, "head") for title in children(head, "title")]
    blocks = [heading(1, escaped(title)) for title in titles[:1] if title]
    return page([*blocks, *_outlines(body, len(blocks) + 1)])


def _outlines(parent: Any, level: int) -> Iterator[str]:
    for outline in children(parent, "outline"):
        said = escaped(one_line(outline.get("text") or outline.get("title") or ""))
        below = children(outline, "outline")
        if said:
            yield heading(level, said) if below else f"- {said}"
        if address := outline.get("htmlUrl") or outline.get("xmlUrl") or outline.get("url"):
            yield f"  {escaped(address)}"
        if note := outline.get("_note"):
            yield escaped(note)
        yield from _outlines(outline, level + 1 if said else level)
