"""Looking into XML, whatever its namespaces."""

from __future__ import annotations

from typing import Any

from soliplex.ingester.lib.parsing.notations.errors import NotationError


def parsed(text: str) -> Any:
    """The root element. Entities are not resolved: what defines its own is refused."""
    from xml.etree.ElementTree import ParseError  # noqa: PLC0415  only where there is XML

    from defusedxml import DefusedXmlException, ElementTree  # noqa: PLC0415

    try:
        # As bytes: a text that declares its encoding is none to the parser.
        return ElementTree.fromstring(text.encode())
    except (ParseError, DefusedXmlException, ValueError, RecursionError) as exc:
        raise NotationError(f"the XML cannot be read: {exc}") from exc


def name_of(element: Any) -> str:
    """The local name; nothing for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: Any, name: str) -> list[Any]:
    return [child for child in element if name_of(child) == name]


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
