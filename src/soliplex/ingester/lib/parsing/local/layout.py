"""Where on a page are headings, text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, override

import numpy as np
from docling.datamodel.base_models import Cluster, LayoutPrediction, Page
from docling.datamodel.document import ConversionResult
from docling.datamodel.pipeline_options import BaseLayoutOptions
from docling.models.base_layout_model import BaseLayoutModel
from docling_core.types.doc.base import BoundingBox, Size
from docling_core.types.doc.labels import DocItemLabel

from soliplex.ingester.lib.parsing.local.lines import CONFIDENCE, Line, lines_of
from soliplex.ingester.lib.parsing.local.marked import marks_on, refined
from soliplex.ingester.lib.parsing.local.ocr import BundledOcrModel, is_scanned, layout_scale
from soliplex.ingester.lib.parsing.local.page_tables import (
    Shapes,
    has_one_column,
    is_full_grid,
    place_of,
    ruled_tables,
    shapes_on,
    words_on,
)
from soliplex.ingester.lib.parsing.local.regions import Region, RegionDetector
from soliplex.ingester.lib.parsing.local.spaced_tables import spaced_tables
from soliplex.ingester.lib.parsing.local.tiles import looking_slices
from soliplex.ingester.lib.parsing.pdf_marks import PageMarks, TaggedTable

if TYPE_CHECKING:
    from PIL.Image import Image

TEXT_IN_FIGURE: Final = 8
"""A region with so many lines of text is no figure, whatever the model says: its text would be lost."""
MOST_INSIDE: Final = 0.7
"""Share of a region that lies in a table from which on it is a part of the table."""
MOST_OF_PAGE: Final = 0.3
MOST_OF_TEXT: Final = 0.5
"""Share of a page's text that is neither in its margins nor in figures; less, and the model has mistaken the page."""
SOME_OF_TABLE: Final = 0.1
"""Share of a table that two regions have in common, if only one of them can be one."""
LINES_OF_COLUMN: Final = 4
_FULL: Final = 0.6
"""Share of a column's width that a line of it takes, and share of its lines that take so much."""
_NARROW, _WIDE = 0.3, 0.55
"""Shares of a page's width between which a column of running text is wide."""
_INSTEAD_OF: Final[Mapping[DocItemLabel, frozenset[DocItemLabel]]] = {
    DocItemLabel.PAGE_HEADER: frozenset({DocItemLabel.SECTION_HEADER}),
    DocItemLabel.PAGE_FOOTER: frozenset({DocItemLabel.SECTION_HEADER}),
    DocItemLabel.PICTURE: frozenset({DocItemLabel.TABLE}),
    DocItemLabel.CAPTION: frozenset({DocItemLabel.TABLE, DocItemLabel.SECTION_HEADER}),
    DocItemLabel.TEXT: frozenset({DocItemLabel.PAGE_HEADER, DocItemLabel.PAGE_FOOTER}),
}
_NO_TABLES: Final = frozenset(
    {
        DocItemLabel.TABLE,
        DocItemLabel.PICTURE,
        DocItemLabel.FORMULA,
        DocItemLabel.CAPTION,
        DocItemLabel.PAGE_HEADER,
        DocItemLabel.PAGE_FOOTER,
    }
)
_OF_WORDS_IN_ROWS: Final = frozenset({DocItemLabel.TABLE, DocItemLabel.PICTURE})
_MARGINS: Final = frozenset({DocItemLabel.PAGE_HEADER, DocItemLabel.PAGE_FOOTER})
_LABELS: Final[Mapping[str, DocItemLabel]] = {
    "text": DocItemLabel.TEXT,
    "title": DocItemLabel.SECTION_HEADER,
    "figure": DocItemLabel.PICTURE,
    "figure_caption": DocItemLabel.CAPTION,
    "table": DocItemLabel.TABLE,
    "table_caption": DocItemLabel.CAPTION,
    "header": DocItemLabel.PAGE_HEADER,
    "footer": DocItemLabel.PAGE_FOOTER,
    "reference": DocItemLabel.TEXT,
    "equation": DocItemLabel.FORMULA,
}


class RapidLayoutModel(BaseLayoutModel):
    """PP-Layout on onnxruntime.

    Scanned pages are read first: which way up a page is, and where its lines are, the layout must know. docling itself
    looks at the layout first, to read only some regions.
    """

    def __init__(self, *, threads: int, ocr: BundledOcrModel) -> None:
        self._regions = RegionDetector(threads)
        self._ocr = ocr

    @classmethod
    @override
    def get_options_type(cls) -> type[BaseLayoutOptions]:
        return BaseLayoutOptions

    @override
    def predict_layout(self, conv_res: ConversionResult, pages: Sequence[Page]) -> Sequence[LayoutPrediction]:
        for page in pages:
            self._ocr.read(page, conv_res)
        return [
            LayoutPrediction(clusters=self._clusters(page, marks_on(conv_res.input.file, page.page_no)))
            for page in pages
        ]

    def _clusters(self, page: Page, marks: PageMarks) -> list[Cluster]:
        image, size = page.get_image(scale=layout_scale(page)), page.size
        if image is None or size is None:
            return []
        clusters = [
            Cluster(
                id=number,
                label=_LABELS[region.name],
                confidence=region.score,
                bbox=_place(region.box, image.size, size),
            )
            for number, region in enumerate(self._regions_in(image))
        ]
        return refined(without_hiding_text(clusters, page, size, marks.tables), page, size, marks.headings)

    def _regions_in(self, image: Image) -> Iterator[Region]:
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
        for top, bottom in looking_slices(image):
            for box, name, score in self._regions.find(pixels[top:bottom].copy()):
                yield Region((box[0], box[1] + top, box[2], box[3] + top), name, score)


def _place(box: Sequence[float], pixels: tuple[int, int], size: Size) -> BoundingBox:
    across, down = size.width / pixels[0], size.height / pixels[1]
    left, top, right, bottom = (float(edge) for edge in box)
    return BoundingBox(
        l=max(0.0, left * across),
        t=max(0.0, top * down),
        r=min(size.width, right * across),
        b=min(size.height, bottom * down),
    )


def without_hiding_text(
    clusters: Sequence[Cluster], page: Page, size: Size, tagged: Sequence[TaggedTable] = ()
) -> list[Cluster]:
    """The clusters, changed where they would take text away: what is in figures, headers and footers is not read on."""
    lines = lines_of(page, size)
    shapes = shapes_on(page)
    seen = [_as_table(each) if _is_table(each, page) else each for each in _seen_once(clusters)]
    seen = [each for each in seen if is_scanned(page) or not _is_running_text(each, page, shapes)]
    seen = _with_ruled_tables(
        _with_tagged_tables(seen, [place_of(table, size.height) for table in tagged]), page, shapes
    )
    seen = seen if is_scanned(page) else _with_spaced_tables(seen, page, lines, size)
    shown = [cluster for cluster in seen if not _is_figure_of_text(cluster, page, size)]
    hiding = [cluster.bbox for cluster in shown if _hides(cluster)]
    hidden = sum(len(line.text) for line in lines if any(line.is_inside(box) for box in hiding))
    if hidden <= MOST_OF_TEXT * sum(len(line.text) for line in lines):
        return shown
    return [_as_text(cluster) for cluster in shown if cluster.label is not DocItemLabel.PICTURE]


def _is_running_text(cluster: Cluster, page: Page, shapes: Shapes) -> bool:
    """Whether what the model takes for a table has one column: its lines are then put together as text."""
    return cluster.label is DocItemLabel.TABLE and has_one_column(cluster, page, shapes)


def _seen_once(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Of what the model takes for two things at once, what hides its text, or says less of it, left out."""
    return [
        cluster
        for cluster in clusters
        if not any(
            other.label in _INSTEAD_OF.get(cluster.label, ())
            and cluster.bbox.intersection_over_self(other.bbox) > MOST_INSIDE
            for other in clusters
        )
    ]


def _with_ruled_tables(clusters: Sequence[Cluster], page: Page, shapes: Shapes) -> list[Cluster]:
    """The clusters, with tables that the lines on the page tell, and the model has not seen."""
    tables = [cluster.bbox for cluster in clusters if cluster.label is DocItemLabel.TABLE]
    found = list(clusters)
    for box in ruled_tables(page, shapes):
        if any(table.intersection_area_with(box) > 0 for table in tables):
            continue
        found = _with_table(found, box)
    return found


def _with_spaced_tables(clusters: Sequence[Cluster], page: Page, lines: Sequence[Line], size: Size) -> list[Cluster]:
    """The clusters, with tables that only the places of their words tell."""
    taken = [cluster.bbox for cluster in clusters if cluster.label in _NO_TABLES or _is_column(cluster, lines, size)]
    found = list(clusters)
    for box in spaced_tables([word for word in words_on(page) if not any(word.is_inside(each) for each in taken)]):
        found = _with_table(found, box)
    return found


def _with_table(clusters: Sequence[Cluster], box: BoundingBox) -> list[Cluster]:
    found = [each for each in clusters if each.bbox.intersection_over_self(box) < MOST_INSIDE]
    return [*found, Cluster(id=len(found), label=DocItemLabel.TABLE, confidence=CONFIDENCE, bbox=box)]


def _is_column(cluster: Cluster, lines: Sequence[Line], size: Size) -> bool:
    """Whether it is running text that has the like beside it: half as wide as the page, and line below full line."""
    width = cluster.bbox.r - cluster.bbox.l
    inside = [line for line in lines if line.is_inside(cluster.bbox)]
    full = [line for line in inside if line.box.r - line.box.l > _FULL * width]
    is_narrow = _NARROW < width / size.width < _WIDE
    return is_narrow and len(inside) >= LINES_OF_COLUMN and len(full) > _FULL * len(inside)


def _with_tagged_tables(clusters: Sequence[Cluster], boxes: Sequence[BoundingBox]) -> list[Cluster]:
    """The clusters, with the tables that the PDF tells itself in the place of whatever was seen there."""
    found = list(clusters)
    for box in boxes:
        found = [each for each in found if not _is_in_place_of(each, box)]
        found.append(Cluster(id=len(found), label=DocItemLabel.TABLE, confidence=CONFIDENCE, bbox=box))
    return found


def _is_in_place_of(cluster: Cluster, box: BoundingBox) -> bool:
    shared = max(cluster.bbox.intersection_over_self(box), box.intersection_over_self(cluster.bbox))
    return shared > (SOME_OF_TABLE if cluster.label in _OF_WORDS_IN_ROWS else MOST_INSIDE)


def _is_table(cluster: Cluster, page: Page) -> bool:
    """The model takes a small table for a figure; what is a figure has few words, and these stand anywhere."""
    return cluster.label is DocItemLabel.PICTURE and not is_scanned(page) and is_full_grid(cluster, page)


def _as_table(cluster: Cluster) -> Cluster:
    return cluster.model_copy(update={"label": DocItemLabel.TABLE, "confidence": CONFIDENCE})


def _hides(cluster: Cluster) -> bool:
    return cluster.label is DocItemLabel.PICTURE or cluster.label in _MARGINS


def _as_text(cluster: Cluster) -> Cluster:
    return cluster.model_copy(update={"label": DocItemLabel.TEXT}) if cluster.label in _MARGINS else cluster


def _is_figure_of_text(cluster: Cluster, page: Page, size: Size) -> bool:
    if cluster.label is not DocItemLabel.PICTURE:
        return False
    if is_scanned(page):  # a scanned page is one picture to the model
        return cluster.bbox.area() > MOST_OF_PAGE * size.width * size.height
    return sum(line.is_inside(cluster.bbox) for line in lines_of(page, size)) >= TEXT_IN_FIGURE
