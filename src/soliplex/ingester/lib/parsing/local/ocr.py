"""Pages that are pictures of text."""

from __future__ import annotations

from typing import Any, Final, override

from docling.datamodel.accelerator_options import AcceleratorOptions
from docling.datamodel.base_models import Page
from docling.datamodel.pipeline_options import RapidOcrOptions
from docling.models.base_ocr_model import BaseOcrModel
from docling.models.stages.ocr.rapid_ocr_model import RapidOcrModel
from docling_core.types.doc.base import BoundingBox, CoordOrigin

LAYOUT_SCALE: Final = 1.5
"""Pixels a point. The layout model sees 800 by 608 pixels, whatever it is given; more would only be shrunk again."""
FEW_CHARACTERS: Final = 20
"""Characters of a page that are as good as none: a page number, a stamp."""
SOME_CHARACTERS: Final = 200
MOST_OF_PAGE: Final = 0.5
"""Above a picture that covers so much of a page, even some text is only its frame: a header put over a scan."""


class BundledOcrOptions(RapidOcrOptions):
    """As those of docling's own model, whose other options the bundled models have no use for."""

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
        # Past the constructor of the class above, which is what asks for torch.
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
    def get_ocr_rects(self, page: Page) -> list[BoundingBox]:
        """The whole page, or nothing: OCR does not read a page with text again for the sake of its figures."""
        if page.size is None or not (self._reads_all or needs_reading(page)) or _is_blank(page):
            return []
        return [BoundingBox(l=0, t=0, r=page.size.width, b=page.size.height, coord_origin=CoordOrigin.TOPLEFT)]


def _reader(threads: int) -> Any:
    from rapidocr import RapidOCR  # noqa: PLC0415  loads three models

    return RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": threads})


def needs_reading(page: Page) -> bool:
    """Whether the text of the page is a picture of text."""
    characters = sum(len(cell.text.strip()) for cell in page.cells)
    if characters < FEW_CHARACTERS:
        return True
    return characters < SOME_CHARACTERS and _covered_by_pictures(page) > MOST_OF_PAGE


def _is_blank(page: Page) -> bool:
    image = page.get_image(scale=LAYOUT_SCALE)
    darkest, brightest = (0, 255) if image is None else image.convert("L").getextrema()
    return darkest == brightest


def _covered_by_pictures(page: Page) -> float:
    if page.parsed_page is None or page.size is None:
        return 0.0
    boxes = [each.rect.to_bounding_box() for each in page.parsed_page.bitmap_resources]
    return max((abs(box.r - box.l) * abs(box.t - box.b) for box in boxes), default=0.0) / (
        page.size.width * page.size.height
    )
