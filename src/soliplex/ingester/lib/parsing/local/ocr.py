"""Pages that are pictures of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, override

import numpy as np
from docling.datamodel.accelerator_options import AcceleratorOptions
from docling.datamodel.base_models import Page
from docling.datamodel.document import ConversionResult
from docling.datamodel.pipeline_options import RapidOcrOptions
from docling.models.base_ocr_model import BaseOcrModel
from docling.models.stages.ocr.rapid_ocr_model import RapidOcrModel
from docling_core.types.doc.base import BoundingBox, CoordOrigin, Size
from docling_core.types.doc.page import BoundingRectangle, TextCell

from soliplex.ingester.lib.parsing.local.lines import Line, Style, flat, rows_of
from soliplex.ingester.lib.parsing.local.tiles import Rectangle, bounded_scale, reading_tiles
from soliplex.ingester.lib.parsing.local.turning import turn_of
from soliplex.ingester.lib.parsing.pdf_text import FEW_CHARACTERS

if TYPE_CHECKING:
    from PIL.Image import Image

LAYOUT_SCALE: Final = 1.5
"""Pixels a point. The layout model sees 800 by 608 pixels, whatever it is given; more would only be shrunk again."""
MOST_LOOKED_AT: Final = 8_000_000
"""Pixels of a page that the layout model is given: six times those of a page of A4."""
SOME_CHARACTERS: Final = 200
MOST_OF_PAGE: Final = 0.5
"""Above a picture that covers so much of a page, even some text is only its frame: a header put over a scan."""


class BundledOcrOptions(RapidOcrOptions):
    """The options of docling's own model; those that name its models have no effect on the bundled ones."""

    force: bool = False
    """Whether to read every page as a picture, whatever text it holds."""


class BundledOcrModel(RapidOcrModel):
    """RapidOCR with the models inside its package: docling's own asks torch for a device, and the net for models."""

    def __init__(
        self,
        *,
        enabled: bool,
        options: BundledOcrOptions,
        accelerator_options: AcceleratorOptions,
    ) -> None:
        # This skips the constructor of the class above, which asks for torch.
        BaseOcrModel.__init__(
            self, enabled=enabled, artifacts_path=None, options=options, accelerator_options=accelerator_options
        )
        self._reads_all = options.force
        self.options = options
        self.scale = options.scale
        self._native_codes: list[str] = []
        if enabled:
            self.reader = _reader(accelerator_options.num_threads)

    @classmethod
    @override
    def get_options_type(cls) -> type[BundledOcrOptions]:
        return BundledOcrOptions

    @override
    def __call__(self, conv_res: ConversionResult, page_batch: Iterable[Page]) -> Iterator[Page]:
        """Nothing is left to do where docling reads pages: `read` was asked before anyone looked at their layout."""
        yield from page_batch

    def read(self, page: Page, conv_res: ConversionResult) -> None:
        """Give the page the text that is in its pixels."""
        if self.enabled and self.is_to_be_read(page):
            self.post_process_cells(self._read(page), page, conv_res)

    def is_to_be_read(self, page: Page) -> bool:
        """The whole page, or not at all: a page with text is not read again for the sake of its figures."""
        backend = page._backend  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  docling's models ask it so, too
        if backend is None or not backend.is_valid() or page.size is None:
            return False
        return (self._reads_all or needs_reading(page)) and not _is_blank(page)

    def _read(self, page: Page) -> list[TextCell]:
        """The lines of the page. One that does not stand upright is turned, for all who look at it later, too."""
        scale = bounded_scale(*_sides(page), self.scale)
        image = page._backend.get_page_image(scale=scale)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]  it is there: see is_to_be_read
        # A page with a text layer is not turned: its layer would not turn with it.
        if not page.cells and (turn := turn_of(image, self.reader)):
            image = image.rotate(turn, expand=True)
            _turn(page, turn)
        cells = in_rows([cell for tile in reading_tiles(image) for cell in self._lines(image, tile, scale)])
        for number, cell in enumerate(cells):
            cell.index = number
        return cells

    def _lines(self, image: Image, tile: Rectangle, scale: float) -> Iterator[TextCell]:
        left, top, _, _ = tile
        # All three are said, since the reader remembers those of the last call. The classifier, which turns single
        # lines, stays out: it puts lines on their head that stood upright, and the page has been turned as a whole.
        found = self.reader(np.asarray(image.crop(tile)), use_det=True, use_cls=False, use_rec=True)
        if found is None or found.boxes is None:
            return
        for corners, text, score in zip(found.boxes.tolist(), found.txts, found.scores, strict=True):
            (first_x, first_y), (last_x, last_y) = corners[0], corners[2]
            place = (first_x + left, first_y + top, last_x + left, last_y + top)
            box = BoundingBox.from_tuple(tuple(edge / scale for edge in place), origin=CoordOrigin.TOPLEFT)
            rect = BoundingRectangle.from_bounding_box(box)
            yield TextCell(index=0, text=text, orig=text, confidence=score, from_ocr=True, rect=rect)


def in_rows(cells: Sequence[TextCell]) -> list[TextCell]:
    """The pieces of text from line to line, those of a line from left to right: the reader may find them otherwise."""
    lines = [_as_line(cell) for cell in cells]
    known = {id(line): cell for line, cell in zip(lines, cells, strict=True)}
    return [known[id(line)] for line in flat(rows_of(lines))]


def _as_line(cell: TextCell) -> Line:
    box = cell.rect.to_bounding_box()
    return Line(cell.text, box, Style("", box.b - box.t))


def _reader(threads: int) -> Any:
    from rapidocr import RapidOCR  # noqa: PLC0415  loads three models

    return RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": threads})


def layout_scale(page: Page) -> float:
    """Pixels a point of the picture that the layout model is given."""
    return bounded_scale(*_sides(page), LAYOUT_SCALE, MOST_LOOKED_AT)


def _sides(page: Page) -> tuple[float, float]:
    return (page.size.width, page.size.height) if page.size else (0.0, 0.0)


def _turn(page: Page, degrees: int) -> None:
    """Let the page be one that was put upright: its picture, and for a quarter of a turn its sides."""
    scale = layout_scale(page)
    image = page.get_image(scale=scale)
    width, height = _sides(page)
    if degrees % 180:
        page.size = Size(width=height, height=width)
    if page.parsed_page is not None:
        page.parsed_page.bitmap_resources = []  # they would stand where they stood before
    cache: dict[float, Any] = {} if image is None else {scale: image.rotate(degrees, expand=True)}
    page._image_cache = cache  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  docling clears it so, too


def needs_reading(page: Page) -> bool:
    """Whether the text of the page is a picture of text."""
    characters = sum(len(cell.text.strip()) for cell in page.cells)
    if characters < FEW_CHARACTERS:
        return True
    return characters < SOME_CHARACTERS and _covered_by_pictures(page) > MOST_OF_PAGE


def is_scanned(page: Page) -> bool:
    """Whether the text of the page is, or was, in pixels."""
    return needs_reading(page) or any(cell.from_ocr for cell in page.cells)


def _is_blank(page: Page) -> bool:
    image = page.get_image(scale=layout_scale(page))
    darkest, brightest = (0, 255) if image is None else image.convert("L").getextrema()
    return darkest == brightest


def _covered_by_pictures(page: Page) -> float:
    if page.parsed_page is None or page.size is None:
        return 0.0
    boxes = [each.rect.to_bounding_box() for each in page.parsed_page.bitmap_resources]
    return max((abs(box.r - box.l) * abs(box.t - box.b) for box in boxes), default=0.0) / (
        page.size.width * page.size.height
    )
