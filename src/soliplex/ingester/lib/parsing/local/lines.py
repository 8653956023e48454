"""Lines of text on a page, and what their type tells: headings that the layout model overlooked, and text it left out.

The model sees a picture. It does not know that a line above a paragraph is set in another font, nor need it find every
line; docling then makes a paragraph of each line that was left out.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from docling.datamodel.base_models import Cluster, Page
from docling_core.types.doc.base import BoundingBox, Size
from docling_core.types.doc.labels import DocItemLabel
from docling_core.types.doc.page import TextCell

CONFIDENCE: Final = 0.9
"""How sure we are of clusters that are made of lines of text. docling drops clusters that it is less sure of."""
LARGER: Final = 1.15
"""A line that is this many times as large as most text is a heading, whatever its weight."""
MUCH_LARGER: Final = 1.6
"""A line of a scan is set larger if it is this many times as high as most lines of its page."""
NOT_SMALLER: Final = 0.95
"""A heavy line that is smaller than this share of most text is no heading, but the name of an author or a note."""
LONGEST_HEADING: Final = 120
HEADING_LINES: Final = 2
SAME_LINE: Final = 0.5
NEXT_LINE: Final = 0.8
"""The gap between two lines of one paragraph is less than this share of a line's height."""
SAME_SIZE: Final = 1.12
MARGIN: Final = 0.07
"""Share of the page's height that its header and its footer may take."""
SOME_OF_TEXT: Final = 0.25
"""A style that has this share of a page's letters is the style of its text, even if another, heavy one has more."""
SAME_LEFT: Final = 3.0
"""Points by which the beginnings of lines below each other may differ."""
SAME_HEIGHT: Final = 0.2
CELL_GAP: Final = 1.5
"""A column ends between texts of one row that are this many times their height apart."""
_HEAVY: Final = re.compile(r"bold|black|heavy|demi|medium|[-,]b[di]?$|cmbx|\.b$", re.IGNORECASE)
_BULLET: Final = re.compile(
    r"[\u2022\u25cf\u25aa\u25e6\u2023\u2043\uf0b7\uf0a7\uf06f\u2610\u2611\u2612\u2013\u2014*-]\s"
)
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_OPEN_END: Final = re.compile(r"[,;:\u2014-]$|[^.][.]$|[!]$")
_CAPTION: Final = re.compile(
    r"(?:tab|fig|abb|obr|rys|tav|bild|kuva|\u0442\u0430\u0431|\u0440\u0438\u0441)\w*\.?\s*\d", re.IGNORECASE
)
_NUMBERED: Final = re.compile(
    r"(?:\u00a7\s*)?\d+(?:\.\d+)*[.)]?\s+[^\W\d_]|(?:[IVX]+|[A-Z])[.)]\s+[^\W\d_]|[^\W\d_]{4,}\s\d+\s*[:.\u2013-]"
)
"""What numbered headings begin with: `2.1 Scope`, `§ 3 Term`, `IV. Results`, `Article 5: Liability`."""


@dataclass(frozen=True, slots=True)
class Style:
    """Size and weight of a text."""

    font: str
    size: float

    @property
    def is_heavy(self) -> bool:
        return _HEAVY.search(self.font) is not None

    @property
    def looks(self) -> tuple[str, int]:
        """Sizes a little apart are one, since they are measured and not told."""
        return self.font, round(self.size)

    def is_larger_than(self, body: Style) -> bool:
        return self.size > body.size * LARGER

    def stands_out_from(self, body: Style) -> bool:
        heavier = self.is_heavy and not body.is_heavy and self.size >= body.size * NOT_SMALLER
        return heavier or self.is_larger_than(body)

    def is_like(self, body: Style) -> bool:
        return self.font == body.font and not self.is_larger_than(body)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, from the top left of the page."""

    text: str
    box: BoundingBox
    style: Style

    @property
    def middle(self) -> tuple[float, float]:
        return (self.box.l + self.box.r) / 2, (self.box.t + self.box.b) / 2

    @property
    def height(self) -> float:
        return self.box.b - self.box.t

    def is_inside(self, box: BoundingBox) -> bool:
        x, y = self.middle
        return box.l <= x <= box.r and box.t <= y <= box.b


def lines_of(page: Page, size: Size) -> list[Line]:
    """The lines of the page. A line may come in several pieces."""
    if any(cell.from_ocr for cell in page.cells):
        return _evened(_read(page.cells, size))
    lines = _read(page.cells, size)
    words = _read(page.parsed_page.word_cells, size) if page.parsed_page else []
    usual = median(line.height for line in lines) if lines else 0.0
    sized = [_with_usual_size(line, words) if line.height > usual * LARGER else line for line in lines]
    return [_with_lightest_font(line, words) if line.style.is_heavy else line for line in sized]


def _evened(lines: Sequence[Line]) -> list[Line]:
    """Lines that were read from pixels, with one size for most: how high they are depends on the letters in them."""
    usual = median(line.height for line in lines) if lines else 0.0
    return [
        line if line.height > usual * MUCH_LARGER else replace(line, style=replace(line.style, size=usual))
        for line in lines
    ]


def _read(cells: Iterable[TextCell], size: Size) -> list[Line]:
    boxes = ((cell, cell.rect.to_bounding_box().to_top_left_origin(size.height)) for cell in cells)
    return [
        Line(cell.text.strip(), box, Style(getattr(cell, "font_name", "") or "", box.b - box.t))
        for cell, box in boxes
        if cell.text.strip()
    ]


def _with_usual_size(line: Line, words: Sequence[Line]) -> Line:
    """A line is as large as most of its words: a raised or lowered letter in one of them makes it higher."""
    heights = [word.height for word in words if word.is_inside(line.box)]
    return replace(line, style=replace(line.style, size=min(line.height, median(heights)))) if heights else line


def _with_lightest_font(line: Line, words: Sequence[Line]) -> Line:
    """A line has the font of its first word; one with a heavy beginning is not heavy."""
    inside = (word.style.font for word in words if not word.style.is_heavy and word.is_inside(line.box))
    font = next(inside, line.style.font)
    return replace(line, style=replace(line.style, font=font))


def body_style(clusters: Sequence[Cluster], lines: Sequence[Line]) -> Style | None:
    """The style of most characters in what the model takes for text, or else of all.

    Sizes a little apart are one, since they are measured and not told.
    """
    boxes = [cluster.bbox for cluster in clusters if cluster.label is DocItemLabel.TEXT]
    texts = [line for line in lines if any(line.is_inside(box) for box in boxes)]
    weights = Counter[tuple[str, int]]()
    for line in texts or lines:
        weights[line.style.font, round(line.style.size)] += len(line.text)
    if not weights:
        return None
    # Heavy type is there to stand out from other text, as long as there is some.
    light = [each for each in weights.most_common() if not Style(*each[0]).is_heavy]
    enough = light and light[0][1] >= SOME_OF_TEXT * weights.total()
    font, size = (light if enough else weights.most_common(1))[0][0]
    return Style(font, float(size))


def with_headings(clusters: Sequence[Cluster], lines: Sequence[Line]) -> list[Cluster]:
    """The clusters, with headings made of text that is set like one, or taken from the beginning of a paragraph."""
    body = body_style(clusters, lines)
    if body is None:
        return list(clusters)
    found: list[Cluster] = []
    for cluster in clusters:
        rows = rows_of(line for line in lines if line.is_inside(cluster.bbox))
        found += _corrected(cluster, rows, body) if rows else [cluster]
    return [_as_heading(cluster) if _is_like_headings(cluster, found, lines, body) else cluster for cluster in found]


def _is_like_headings(cluster: Cluster, clusters: Sequence[Cluster], lines: Sequence[Line], body: Style) -> bool:
    """Whether a short text is set as another heading of the page is, and as the text is not."""
    inside = [line for line in lines if line.is_inside(cluster.bbox)]
    if cluster.label is not DocItemLabel.TEXT or not inside or not _reads_as_heading(rows_of(inside)):
        return False
    headings = [each.bbox for each in clusters if each.label is DocItemLabel.SECTION_HEADER]
    known = {line.style.looks for line in lines if any(line.is_inside(box) for box in headings)}
    looks = {line.style.looks for line in inside}
    return len(looks) == 1 and looks <= known and inside[0].style.font != body.font


def _as_heading(cluster: Cluster) -> Cluster:
    return cluster.model_copy(update={"label": DocItemLabel.SECTION_HEADER})


def without_heads_of_columns(clusters: Sequence[Cluster], lines: Sequence[Line]) -> list[Cluster]:
    """The clusters, with text made of headings that are no larger than the text, and stand in a row of their kind.

    A heading has its line for itself. What is set like one, and has the like beside it, is the head of a table that the
    model did not see.
    """
    body = body_style(clusters, lines)
    if body is None:
        return list(clusters)
    return [
        cluster.model_copy(update={"label": DocItemLabel.TEXT})
        if cluster.label is DocItemLabel.SECTION_HEADER and _is_head_of_column(cluster, lines, body)
        else cluster
        for cluster in clusters
    ]


def _is_head_of_column(cluster: Cluster, lines: Sequence[Line], body: Style) -> bool:
    inside = [line for line in lines if line.is_inside(cluster.bbox)]
    if not inside or any(line.style.is_larger_than(body) for line in inside):
        return False
    beside = [
        other
        for other in lines
        if other.style.font == inside[0].style.font
        and abs(other.middle[1] - inside[0].middle[1]) < SAME_HEIGHT * inside[0].height
    ]
    pieces = sorted(beside, key=lambda line: line.box.l)
    apart = [
        other
        for line, other in itertools.pairwise(pieces)
        if _gap(line.box, other.box) > CELL_GAP * other.height and _WORD.search(line.text) and _WORD.search(other.text)
    ]
    return bool(apart)


def _corrected(cluster: Cluster, rows: Sequence[Sequence[Line]], body: Style) -> list[Cluster]:
    match cluster.label:
        case DocItemLabel.TEXT:
            return _parted(cluster, rows, body)
        case DocItemLabel.SECTION_HEADER if len(rows) > 1 and all(line.style.is_like(body) for line in flat(rows)):
            return [cluster.model_copy(update={"label": DocItemLabel.TEXT})]
        case DocItemLabel.CAPTION if not _CAPTION.match(rows[0][0].text):
            return _parted(cluster, rows, body)
        case DocItemLabel.PAGE_HEADER if all(line.style.is_larger_than(body) for line in flat(rows)):
            return [cluster.model_copy(update={"label": DocItemLabel.SECTION_HEADER})]  # a chapter begins here
        case _:
            return [cluster]


def _parted(cluster: Cluster, rows: Sequence[Sequence[Line]], body: Style) -> list[Cluster]:
    """The heading at the beginning of a paragraph, and the rest of it."""
    outstanding = itertools.takewhile(lambda row: all(line.style.stands_out_from(body) for line in row), rows)
    heading = list(outstanding)
    rest = flat(rows[len(heading) :])
    if not heading or not _reads_as_heading(heading):
        return [cluster]
    parts = [_cluster(DocItemLabel.SECTION_HEADER, flat(heading))]
    return parts + ([_cluster(cluster.label, rest)] if rest else [])


def _reads_as_heading(rows: Sequence[Sequence[Line]]) -> bool:
    text = " ".join(line.text for line in flat(rows))
    fits = len(rows) <= HEADING_LINES and len(text) <= LONGEST_HEADING
    return fits and bool(_WORD.search(text)) and not _OPEN_END.search(text)


def flat(rows: Iterable[Sequence[Line]]) -> list[Line]:
    return [line for row in rows for line in row]


def left_out(clusters: Sequence[Cluster], lines: Sequence[Line], size: Size) -> list[Cluster]:
    """Clusters of the lines that are in none, put together to paragraphs."""
    body = body_style(clusters, lines)
    orphans = [line for line in lines if not any(line.is_inside(cluster.bbox) for cluster in clusters)]
    if body is None:
        return []
    # A page of which the model saw little is one whose margins it did not judge, either.
    margins = size.height * MARGIN if len(orphans) * 2 < len(lines) else 0.0
    usual_left = _usual_left(lines)
    return [
        _cluster(_label(block, body, size, margins, usual_left), flat(block)) for block in _blocks(rows_of(orphans))
    ]


def _usual_left(lines: Sequence[Line]) -> float:
    """Where most lines of the page begin."""
    return float(Counter(round(line.box.l) for line in lines).most_common(1)[0][0]) if lines else 0.0


def _label(block: Sequence[Sequence[Line]], body: Style, size: Size, margins: float, usual_left: float) -> DocItemLabel:
    """Weight alone makes no heading here: what the model leaves out are labels and margins as often as text.

    A heading in the type of the text has a number or is in capitals, and begins where the text does.
    """
    lines, box = flat(block), around(flat(block))
    is_larger = all(line.style.is_larger_than(body) for line in lines)
    if not is_larger and box.t > size.height - margins:
        return DocItemLabel.PAGE_FOOTER
    if not is_larger and box.b < margins:
        return DocItemLabel.PAGE_HEADER
    if _BULLET.match(lines[0].text):
        return DocItemLabel.LIST_ITEM
    text = " ".join(line.text for line in lines)
    is_marked = (text.isupper() or bool(_NUMBERED.match(text))) and abs(box.l - usual_left) <= SAME_LEFT
    is_heavier = is_marked and all(line.style.stands_out_from(body) for line in lines)
    is_heading = (is_larger or is_heavier) and _reads_as_heading(block)
    return DocItemLabel.SECTION_HEADER if is_heading else DocItemLabel.TEXT


def rows_of(lines: Iterable[Line]) -> list[list[Line]]:
    """Put the pieces of each line together: those that stand side by side, and close to each other."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda each: (round(each.middle[1]), each.box.l)):
        row = next((row for row in rows[-6:] if _continues_row(row, line)), None)
        if row is None:
            rows.append([line])
        else:
            row.append(line)
    return [sorted(row, key=lambda each: each.box.l) for row in rows]


def _continues_row(row: Sequence[Line], line: Line) -> bool:
    height = max(line.height, row[-1].height)
    beside = abs(line.middle[1] - row[-1].middle[1]) < height * SAME_LINE
    return beside and any(_gap(each.box, line.box) < height * 1.5 for each in row)


def _gap(one: BoundingBox, other: BoundingBox) -> float:
    return max(one.l, other.l) - min(one.r, other.r)


def _blocks(rows: Sequence[Sequence[Line]]) -> list[list[Sequence[Line]]]:
    """Rows below each other put together, as long as they are of one size and none begins an item of a list."""
    blocks: list[list[Sequence[Line]]] = []
    for row in rows:
        block = next((each for each in reversed(blocks[-8:]) if _continues_block(each[-1], row)), None)
        if block is None:
            blocks.append([row])
        else:
            block.append(row)
    return blocks


def _continues_block(above: Sequence[Line], row: Sequence[Line]) -> bool:
    one, other = around(above), around(row)
    heights = sorted((above[0].height, row[0].height))
    if (
        _BULLET.match(row[0].text)
        or heights[1] > heights[0] * SAME_SIZE
        or above[0].style.is_heavy != row[0].style.is_heavy
    ):
        return False
    return other.t - one.t >= 0 and other.t - one.b < heights[1] * NEXT_LINE and _gap(one, other) < 0


def _cluster(label: DocItemLabel, lines: Sequence[Line]) -> Cluster:
    return Cluster(id=0, label=label, confidence=CONFIDENCE, bbox=around(lines))


def around(lines: Sequence[Line]) -> BoundingBox:
    return BoundingBox(
        l=min(line.box.l for line in lines),
        t=min(line.box.t for line in lines),
        r=max(line.box.r for line in lines),
        b=max(line.box.b for line in lines),
    )
