"""Reads the blocks of a DoclingDocument, from its JSON.

The JSON is walked as it is. docling-core would validate it into objects first and render those, which takes longer than
all of chunking, and it is slow to import.

What is read is the document's body, in reading order: no page headers and footers, no text inside pictures (their
captions and descriptions are), and nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from soliplex.ingester.lib.chunking.blocks import Block, Kind, Origin
from soliplex.ingester.lib.chunking.headings import Headings
from soliplex.ingester.lib.chunking.table_lines import table_block

type Item = Mapping[str, Any]

_CHECKBOXES: Final = {"checkbox_selected": "[x] ", "checkbox_unselected": "[ ] "}
_NO_SPACE_BEFORE: Final = re.compile("^[,.;:!?)\\]}%\u00bb\u201d\u2019]")
_NO_SPACE_AFTER: Final = re.compile("[(\\[{\u00ab\u201c\u2018]$")
_INDENT: Final = "    "


def blocks_of(document: Item) -> Iterator[Block]:
    """The blocks of a document's body, in reading order, each with the headings it stands below."""
    yield from _Reader(document).children_of(document.get("body") or {})


@dataclass(slots=True)
class _Reader:
    document: Item
    headings: Headings = field(default_factory=Headings)
    seen: set[str] = field(default_factory=set[str])

    def children_of(self, parent: Item, depth: int = 0) -> Iterator[Block]:
        for item in self.resolved(parent.get("children")):
            yield from self.blocks_of_item(item, depth)
        if parent.get("self_ref") == "#/body":
            yield from self.headings.left_over()

    def resolved(self, references: Sequence[Mapping[str, str]] | None) -> Iterator[Item]:
        """The items that are referred to, those left out that were read already or do not belong to the body."""
        for reference in references or ():
            ref = reference.get("$ref") or reference.get("cref") or ""
            item = self._find(ref)
            if item is not None and ref not in self.seen and item.get("content_layer", "body") == "body":
                self.seen.add(ref)
                yield item

    def _find(self, ref: str) -> Item | None:
        _, _, path = ref.partition("#/")
        kind, _, number = path.partition("/")
        items = self.document.get(kind)
        if not isinstance(items, Sequence) or not number.isdecimal() or int(number) >= len(items):
            return None
        return items[int(number)]

    def blocks_of_item(self, item: Item, depth: int) -> Iterator[Block]:
        label = item.get("label")
        match label:
            case "title" | "section_header":
                yield from self._heading(item, depth)
            case "list_item":
                yield from self._list_item(item, depth)
            case "inline":
                yield from self._block(self._inline(item), item)
            case "table" | "document_index":
                yield from self._table(item)
            case "picture" | "chart":
                yield from self._picture(item)
            case "key_value_region" | "form":
                yield from self._pairs(item)
            case "sheet":
                yield from self.headings.enter(0, _sheet_name(item), ())
                yield from self.children_of(item)
            case "list" | "ordered_list":
                yield from self.children_of(item, depth + 1)
            case _:
                yield from self._text(item, depth)

    def _heading(self, item: Item, depth: int) -> Iterator[Block]:
        level = 0 if item.get("label") == "title" else int(item.get("level") or 1)
        text = " ".join(self._text_of(item).split())
        yield from self.headings.enter(level, text, (_origin(item),))
        yield from self.children_of(item, depth)

    def _text(self, item: Item, depth: int) -> Iterator[Block]:
        yield from self._block(_rendered(item), item)
        yield from self.children_of(item, depth)

    def _list_item(self, item: Item, depth: int) -> Iterator[Block]:
        marker = item.get("marker") or ("1." if item.get("enumerated") else "-")
        marker = marker if marker[-1:] in "-*+.)" else "-"
        text, inline = self._own_text(item)
        if text:
            words = f"{_INDENT * (depth - 1)}{marker} {text}"
            yield self.headings.place(Block(words, Kind.LIST_ITEM, (_origin(item), *inline), "\n"))
        yield from self.children_of(item, depth)

    def _own_text(self, item: Item) -> tuple[str, tuple[Origin, ...]]:
        """An item's text. One that is set in several fonts has none itself: it is in the group that comes first."""
        text = _rendered(item)
        first = next(iter(item.get("children") or ()), None)
        group = self._find(first.get("$ref", "")) if first and not text else None
        if group is None or group.get("label") != "inline":
            return text, ()
        self.seen.add(str(group["self_ref"]))
        return self._inline(group)

    def _text_of(self, item: Item) -> str:
        return self._own_text(item)[0]

    def _inline(self, item: Item) -> tuple[str, tuple[Origin, ...]]:
        origins = list[Origin]()
        return _joined(self._inline_parts(item, origins)), tuple(origins)

    def _inline_parts(self, item: Item, origins: list[Origin]) -> list[str]:
        parts = list[str]()
        for part in self.resolved(item.get("children")):
            origins.append(_origin(part))
            parts.append(_rendered(part, inline=True))
            parts += self._inline_parts(part, origins)
        return parts

    def _block(self, text: str | tuple[str, tuple[Origin, ...]], item: Item) -> Iterator[Block]:
        words, origins = (text, (_origin(item),)) if isinstance(text, str) else text
        if words.strip():
            kind = Kind.CODE if item.get("label") == "code" else Kind.TEXT
            yield self.headings.place(Block(words, kind, origins))

    def _table(self, item: Item) -> Iterator[Block]:
        caption, origins = self._captions(item)
        block = table_block(item, caption, self._cell_text)
        self._skip_below(item)  # what stands in cells is in the table's text
        if block is not None:
            yield self.headings.place(replace(block, origins=(_origin(item), *origins)))

    def _cell_text(self, cell: Item) -> str:
        """A cell's text, or that of the items it holds."""
        text = str(cell.get("text") or "")
        if text.strip() or not cell.get("ref"):
            return text
        return " ".join(block.text for item in self.resolved([cell["ref"]]) for block in self.blocks_of_item(item, 1))

    def _picture(self, item: Item) -> Iterator[Block]:
        caption, origins = self._captions(item)
        self._skip_below(item)
        text = "\n\n".join(part for part in (caption, *_descriptions(item)) if part)
        yield from self._block((text, (_origin(item), *origins)), item)

    def _captions(self, item: Item) -> tuple[str, tuple[Origin, ...]]:
        found = list(self.resolved([*(item.get("captions") or ()), *(item.get("footnotes") or ())]))
        return " ".join(filter(None, map(self._text_of, found))), tuple(map(_origin, found))

    def _skip_below(self, item: Item) -> None:
        for child in self.resolved(item.get("children")):
            self._skip_below(child)

    def _pairs(self, item: Item) -> Iterator[Block]:
        """A form: its keys with their values, a line each."""
        graph: Item = item.get("graph") or {}
        texts = {cell.get("cell_id"): (cell.get("text") or "").strip() for cell in graph.get("cells") or ()}
        pairs = [
            (link.get("source_cell_id"), link.get("target_cell_id"))
            for link in graph.get("links") or ()
            if link.get("label") == "to_value"
        ]
        lines = [f"{texts.get(key, '')}: {texts.get(value, '')}" for key, value in pairs]
        paired = {cell for pair in pairs for cell in pair}
        lines += [text for cell, text in texts.items() if cell not in paired]
        yield from self._block("\n".join(line for line in lines if line.strip(": ")), item)


def _origin(item: Item) -> Origin:
    pages = tuple(place["page_no"] for place in item.get("prov") or () if place.get("page_no") is not None)
    return Origin(str(item.get("self_ref", "")), str(item.get("label", "")), pages)


def _rendered(item: Item, *, inline: bool = False) -> str:
    """An item's own text as Markdown."""
    text = str(item.get("text") or "")
    match item.get("label"):
        case "code" if text and inline:
            return f"`{text}`"
        case "code" if text:
            language = str(item.get("code_language") or "")
            return f"```{language if language != 'unknown' else ''}\n{text}\n```"
        case "formula":
            text = text or str(item.get("orig") or "")
            return text and (f"${text}$" if inline else f"$${text}$$")
        case str(label) if label in _CHECKBOXES:
            return _CHECKBOXES[label] + text
        case _:
            link = item.get("hyperlink")
            return f"[{text}]({link})" if text and link else text


def _joined(parts: Sequence[str]) -> str:
    """Parts of a sentence, with a space between two where a writer would put one."""
    text = ""
    for part in filter(None, (part.strip() for part in parts)):
        glue = "" if not text or _NO_SPACE_BEFORE.search(part) or _NO_SPACE_AFTER.search(text) else " "
        text += glue + part
    return text


def _descriptions(item: Item) -> Iterator[str]:
    """What a model said that the picture shows; older documents call that an annotation."""
    meta: Item = item.get("meta") or {}
    description: Item = meta.get("description") or {}
    if description.get("text"):
        yield str(description["text"])
        return
    for note in item.get("annotations") or ():
        if note.get("kind") == "description" and note.get("text"):
            yield str(note["text"])


def _sheet_name(item: Item) -> str:
    return str(item.get("name") or "").removeprefix("sheet:").strip()
