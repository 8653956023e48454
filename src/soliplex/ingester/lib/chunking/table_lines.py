"""Tables as Markdown: cells of a DoclingDocument to lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from soliplex.ingester.lib.chunking.blocks import Block, Kind

type Cell = Mapping[str, Any]


def table_block(item: Mapping[str, Any], caption: str, text_of: Callable[[Cell], str]) -> Block | None:
    """The table with its caption above it; nothing where it holds no text."""
    data: Mapping[str, Any] = item.get("data") or {}
    cells: Sequence[Cell] = data.get("table_cells") or ()
    rows = _rows(cells, text_of)
    lines = [caption, ""] if caption else []
    if not any(map(any, rows)):
        return Block(caption, kind=Kind.TEXT) if caption else None
    # A Markdown table has one header line. What a table's own header says in several is put into one, column by column.
    header_rows = _header_rows(cells)
    header = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows[:header_rows], strict=True)]
    lines += [_line(header or [""] * len(rows[0])), _line(["-"] * len(rows[0]))]
    header_lines = len(lines)
    lines += map(_line, rows[header_rows:])
    return Block("\n".join(lines), kind=Kind.TABLE, header_lines=header_lines)


def _rows(cells: Sequence[Cell], text_of: Callable[[Cell], str]) -> list[list[str]]:
    """The texts by row and column; a cell that spans several stands in each of them."""
    height = max((_end(cell, "row") for cell in cells), default=0)
    width = max((_end(cell, "col") for cell in cells), default=0)
    rows = [[""] * width for _ in range(height)]
    for cell in cells:
        text = _one_line(text_of(cell))
        for row in range(_start(cell, "row"), _end(cell, "row")):
            for column in range(_start(cell, "col"), _end(cell, "col")):
                rows[row][column] = text
    return rows


def _start(cell: Cell, axis: str) -> int:
    return int(cell.get(f"start_{axis}_offset_idx") or 0)


def _end(cell: Cell, axis: str) -> int:
    end = int(cell.get(f"end_{axis}_offset_idx") or 0)
    return max(end, _start(cell, axis) + 1)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _header_rows(cells: Sequence[Cell]) -> int:
    """How many rows at the top are header; a row that also holds other cells is not."""
    header = {_start(cell, "row") for cell in cells if cell.get("column_header")}
    other = {_start(cell, "row") for cell in cells if not cell.get("column_header") and cell.get("text")}
    count = 0
    while count in header and count not in other:
        count += 1
    return count


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"
