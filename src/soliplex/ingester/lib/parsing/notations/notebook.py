"""Jupyter notebooks: cells in their order, code with what it printed. Pictures are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from soliplex.ingester.lib.parsing.notations.errors import NotationError
from soliplex.ingester.lib.parsing.notations.markdown import fenced, heading, page

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def notebook_as_markdown(text: str) -> str:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NotationError("the notebook is no JSON") from exc
    cells = list(_cells(notebook))
    if not cells:
        raise NotationError("the notebook has no cells")
    language = _language(notebook)
    return page(block for cell in cells for block in _blocks(cell, language))


def _cells(notebook: Any) -> Iterator[Mapping[str, Any]]:
    """The cells; those of the third version of the format stand in worksheets."""
    if not isinstance(notebook, dict):
        return
    sheets = [notebook, *_listed(notebook.get("worksheets"))]
    for sheet in sheets:
        yield from _listed(sheet.get("cells"))


def _listed(value: Any) -> Sequence[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()


def _language(notebook: Mapping[str, Any]) -> str:
    about = notebook.get("metadata")
    about = about if isinstance(about, dict) else {}
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        found = about.get(part)
        if isinstance(found, dict) and isinstance(found.get(name), str):
            return re.sub(r"\W", "", found[name])
    return ""


def _blocks(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source", cell.get("input")))
    match cell.get("cell_type"):
        case "code":
            if source.strip():
                yield fenced(source, language)
            for output in _listed(cell.get("outputs")):
                yield from _shown(output)
        case "heading":
            yield heading(cell["level"] if isinstance(cell.get("level"), int) else 1, source)
        case _:
            yield source


def _shown(output: Mapping[str, Any]) -> Iterator[str]:
    if output.get("output_type") in {"error", "pyerr"}:
        yield fenced(f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}")
        return
    data = output.get("data", output)
    data = data if isinstance(data, dict) else {}
    if written := _text(data.get("text/markdown")):
        yield written
    elif printed := _text(data.get("text/plain", output.get("text"))):
        yield fenced(_COLOURS.sub("", printed))


def _text(value: Any) -> str:
    """A text, which may stand in the file as a list of its lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""
