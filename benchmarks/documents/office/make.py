"""Write the documents and export them: python -m benchmarks.documents.office.make [FOLDER]

Needs LibreOffice Writer and the fonts Liberation, DejaVu, Carlito and Caladea, and python-docx, which docling brings.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.documents.office.sources import HORIZONTAL, RULED, Block, Grid, Heading, Points, Source, Text, sources

FOLDER: Final = Path(__file__).parent


def exported(folder: Path) -> dict[Path, Source]:
    """The PDFs by their sources: made anew in the folder where LibreOffice is installed, else those that are kept."""
    is_installed = shutil.which("soffice") is not None
    if is_installed:
        make(folder)
    return {(folder if is_installed else FOLDER) / f"{source.name}.pdf": source for source in sources()}


def make(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        files = [str(_written(source, Path(scratch))) for source in sources()]
        command = ["soffice", "--headless", f"-env:UserInstallation=file://{scratch}/profile"]
        export = [*command, "--convert-to", "pdf", "--outdir", str(folder), *files]
        subprocess.run(export, check=True, timeout=600, stdout=subprocess.DEVNULL)


def _written(source: Source, folder: Path) -> Path:
    from docx import Document
    from docx.shared import Pt, RGBColor

    document: Any = Document()
    normal: Any = document.styles["Normal"]
    normal.font.name, normal.font.size = source.font, Pt(source.size)
    for level, more in ((1, 4), (2, 2), (3, 0)):
        style: Any = document.styles[f"Heading {level}"]
        style.font.name, style.font.size = source.font, Pt(source.size + more)
        style.element.rPr.rFonts.attrib.clear()
        style.font.name = source.font
        if source.is_black:
            style.font.color.rgb = RGBColor(0, 0, 0)
    for block in source.blocks:
        _add(document, block)
    path = folder / f"{source.name}.docx"
    document.save(str(path))
    return path


def _add(document: Any, block: Block) -> None:
    match block:
        case Heading():
            document.add_heading(block.text, block.level)
        case Text():
            first, _, rest = block.text.partition(" ")
            paragraph = document.add_paragraph()
            paragraph.add_run(first).bold = block.is_strong
            paragraph.add_run(f" {rest}")
        case Points():
            for item in block.items:
                document.add_paragraph(item, style="List Bullet")
        case Grid():
            _add_table(document, block)


def _add_table(document: Any, grid: Grid) -> None:
    from docx.shared import Cm

    table = document.add_table(rows=len(grid.rows), cols=len(grid.widths))
    table.autofit = False
    table.style = {RULED: "Table Grid", HORIZONTAL: "Light Shading"}.get(grid.look, "Normal Table")
    for column, width in zip(table.columns, grid.widths, strict=True):
        column.width = Cm(width)
    for number, row in enumerate(grid.rows):
        _fill(table.rows[number].cells, row, [Cm(width) for width in grid.widths], is_head=number == 0)
    document.add_paragraph()


def _fill(cells: Sequence[Any], texts: Sequence[str], widths: Sequence[Any], *, is_head: bool) -> None:
    for cell, text, width in zip(cells, texts, widths, strict=True):
        cell.width = width
        cell.paragraphs[0].add_run(text).bold = is_head


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
