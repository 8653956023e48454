"""XML that stands alone.

Expat reads it in blocks, ends entities that multiply themselves, and says where a file is not in order. Entities that
would be read from elsewhere are refused: whoever wrote the document would see files of this machine in the answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.parsers import expat

from soliplex.ingester.lib.validation.errors import Defect, InvalidDocumentError
from soliplex.ingester.lib.validation.facts import Facts
from soliplex.ingester.lib.validation.remedies import GET_AGAIN, REMOVE_ENTITIES

BLOCK: Final = 1 << 20
_BOMB: Final = expat.errors.codes[expat.errors.XML_ERROR_AMPLIFICATION_LIMIT_BREACH]
_CUT_OFF: Final = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
)


def check_xml(path: Path) -> Facts:
    """Give the name of the root, and whether the XML is well-formed: if it is not, it may still be read as text."""
    root: list[str] = []
    try:
        _read(path, root)
    except expat.ExpatError as exc:
        if exc.code == _BOMB:
            raise InvalidDocumentError(Defect.BOMB, "the document is refused as an XML bomb", REMOVE_ENTITIES) from exc
        if exc.code in _CUT_OFF:
            raise InvalidDocumentError(Defect.TRUNCATED, f"the XML is cut off in line {exc.lineno}", GET_AGAIN) from exc
        return {"xml_error": f"{expat.ErrorString(exc.code)} in line {exc.lineno}"}
    return {"xml_root": root[0].rpartition(":")[2][:100]}


def _read(path: Path, root: list[str]) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def on_start(name: str, _attributes: object) -> None:
        root.append(name)
        parser.StartElementHandler = None

    parser.StartElementHandler = on_start
    parser.EntityDeclHandler = _refuse_outside
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            parser.Parse(block, False)  # noqa: FBT003  expat's own signature
        parser.Parse(b"", True)  # noqa: FBT003


def _refuse_outside(
    name: str,
    is_parameter_entity: bool,  # noqa: FBT001  expat's own signature
    value: str | None,
    _base: str | None,
    system_id: str | None,
    _public_id: str | None,
    notation: str | None,
) -> None:
    # A picture declared with its notation is named, never read; a parameter entity names a part of a grammar.
    if value is None and notation is None and not is_parameter_entity:
        raise InvalidDocumentError(
            Defect.BOMB,
            f"the XML is refused: its entity {name[:100]!r} would read {(system_id or '')[:200]!r}",
            REMOVE_ENTITIES,
        )
