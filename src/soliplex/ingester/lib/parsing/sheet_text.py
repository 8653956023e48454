"""The text of spreadsheets, row by row.

They are read as a stream: as objects, the cells of a sheet with a million rows would fill any memory.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final, override
from xml.parsers import expat

SHEETS: Final = {
    ".xlsx": re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE),
    ".ods": re.compile(r"content\.xml"),
}
"""The parts of an archive that hold cells."""
MOST_CELLS: Final = 200_000
"""Most cells of a table, or of a workbook, whose structure is read: as objects, cells take kilobytes each."""
SHARED_STRINGS: Final = "xl/sharedStrings.xml"
BLOCK: Final = 1 << 20
BETWEEN_CELLS: Final = " | "
_CELL: Final = re.compile(rb"<(?:\w+:)?(?:c|table-cell)[\s/>]")
_LONGEST_TAG: Final = 32
_NUMBER: Final = re.compile(r"(\d+)")


def has_more_cells(archive: zipfile.ZipFile, extension: str, most: int) -> bool:
    """Whether the sheets together have more cells than that; tells without keeping any of them."""
    count = 0
    for name in sheet_names(archive, extension):
        for found in _cells_by_block(archive, name):
            count += found
            if count > most:
                return True
    return False


def _cells_by_block(archive: zipfile.ZipFile, name: str) -> Iterator[int]:
    tail = b""
    with archive.open(name) as content:
        while block := content.read(BLOCK):
            # A tag that ends within the tail of the block before was counted with that block.
            yield sum(found.end() > len(tail) for found in _CELL.finditer(tail + block))
            tail = block[-_LONGEST_TAG:]


def rows_of(archive: zipfile.ZipFile, extension: str) -> Iterator[str]:
    """A line for each row that holds anything. Raises ExpatError where the XML is not in order."""
    strings = list(_shared_strings(archive)) if extension == ".xlsx" else []
    for name in sheet_names(archive, extension):
        with archive.open(name) as content:
            yield from _rows(content, strings)


def sheet_names(archive: zipfile.ZipFile, extension: str) -> list[str]:
    return sorted((name for name in archive.namelist() if SHEETS[extension].fullmatch(name)), key=by_number)


def by_number(name: str) -> list[str | int]:
    """A key that sorts `sheet2` before `sheet10`."""
    return [int(part) if part.isdigit() else part for part in _NUMBER.split(name)]


def _shared_strings(archive: zipfile.ZipFile) -> Iterator[str]:
    name = next((name for name in archive.namelist() if name.lower() == SHARED_STRINGS.lower()), None)
    if name is None:
        return
    reader = _Strings()
    with archive.open(name) as content:
        yield from _read(content, reader)


def _rows(content: IO[bytes], strings: list[str]) -> Iterator[str]:
    yield from _read(content, _Rows(strings))


class _Reader:
    """Handlers of expat; what they have found so far is taken away after each block."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        raise NotImplementedError

    def end(self, name: str) -> None:
        raise NotImplementedError

    def text(self, data: str) -> None:
        raise NotImplementedError


class _Strings(_Reader):
    """The strings that Excel keeps apart from the cells, in the order of their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] | None = None
        self._is_reading_aid = False

    @override
    def start(self, name: str, attributes: dict[str, str]) -> None:
        match _local(name):
            case "si":
                self._parts = []
            case "rPh":  # furigana: how the word is pronounced
                self._is_reading_aid = True
            case _:
                pass

    @override
    def end(self, name: str) -> None:
        match _local(name):
            case "si":
                self.found.append("".join(self._parts or ()))
                self._parts = None
            case "rPh":
                self._is_reading_aid = False
            case _:
                pass

    @override
    def text(self, data: str) -> None:
        if self._parts is not None and not self._is_reading_aid:
            self._parts.append(data)


class _Rows(_Reader):
    """Rows of Excel (`row`, `c`, `v` or `is`) and of OpenDocument (`table-row`, `table-cell`, `p`)."""

    def __init__(self, strings: list[str]) -> None:
        super().__init__()
        self._strings = strings
        self._cells: list[str] = []
        self._parts: list[str] | None = None
        self._is_shared = False
        self._is_formula = False

    @override
    def start(self, name: str, attributes: dict[str, str]) -> None:
        match _local(name):
            case "c" | "table-cell":
                self._parts = []
                self._is_shared = attributes.get("t") == "s"
            case "f":
                self._is_formula = True
            case "p" | "br" | "line-break" | "tab" if self._parts:
                self._parts.append(" ")
            case _:
                pass

    @override
    def end(self, name: str) -> None:
        match _local(name):
            case "c" | "table-cell":
                if value := self._value():
                    self._cells.append(value)
                self._parts = None
            case "f":
                self._is_formula = False
            case "row" | "table-row":
                if self._cells:
                    self.found.append(BETWEEN_CELLS.join(self._cells))
                self._cells = []
            case _:
                pass

    @override
    def text(self, data: str) -> None:
        if self._parts is not None and not self._is_formula:
            self._parts.append(data)

    def _value(self) -> str:
        value = " ".join("".join(self._parts or ()).split())
        if not self._is_shared:
            return value
        number = int(value) if value.isascii() and value.isdigit() else -1
        return " ".join(self._strings[number].split()) if 0 <= number < len(self._strings) else ""


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _read(content: IO[bytes], reader: _Reader) -> Iterator[str]:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    handlers: Iterable[tuple[str, Callable[..., Any]]] = (
        ("StartElementHandler", reader.start),
        ("EndElementHandler", reader.end),
        ("CharacterDataHandler", reader.text),
    )
    for name, handler in handlers:
        setattr(parser, name, handler)
    while True:
        block = content.read(BLOCK)
        parser.Parse(block, not block)
        yield from reader.found
        reader.found.clear()
        if not block:
            return
