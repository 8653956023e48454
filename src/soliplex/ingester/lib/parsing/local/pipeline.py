"""docling's pipeline for pages, with models that need no torch.

Its own way to choose models goes through a factory that imports every model it knows, torch and all. So the pipeline is
told its models here. This follows `StandardPdfPipeline._init_models` of the one version that `pyproject.toml` allows.
"""

from __future__ import annotations

from typing import override

from docling.datamodel.base_models import Page
from docling.datamodel.pipeline_options import LayoutPostprocessorOptions
from docling.models.stages.form_field.form_field_model import PdfFormFieldModel
from docling.models.stages.heading_hierarchy.heading_hierarchy_model import HeadingHierarchyModel
from docling.models.stages.layout.layout_postprocessing_model import LayoutPostprocessingModel
from docling.models.stages.page_assemble.page_assemble_model import PageAssembleOptions
from docling.models.stages.page_preprocessing.page_preprocessing_model import (
    PagePreprocessingModel,
    PagePreprocessingOptions,
)
from docling.models.stages.reading_order.readingorder_model import ReadingOrderOptions
from docling.pipeline.standard_pdf_pipeline import StandardPdfPipeline

from soliplex.ingester.lib.parsing.local.assembly import LinesToTexts, TextsToDocument
from soliplex.ingester.lib.parsing.local.layout import RapidLayoutModel
from soliplex.ingester.lib.parsing.local.ocr import BundledOcrModel, BundledOcrOptions
from soliplex.ingester.lib.parsing.local.page_tables import WordTableModel


class _TextOfPages(PagePreprocessingModel):
    """Draws no page: whoever looks at one says how large, and pages of square metres must be small."""

    @override
    def _populate_page_images(self, page: Page) -> Page:
        return page


class TorchlessPipeline(StandardPdfPipeline):
    """Layout by PP-Layout, OCR by rapidocr, tables by tags, lines and where words stand; no enrichment."""

    @override
    def _init_models(self) -> None:
        options = self.pipeline_options
        self.keep_images = False
        self.keep_backend = False
        self.preprocessing_model = _TextOfPages(options=PagePreprocessingOptions(images_scale=options.images_scale))
        assert isinstance(options.ocr_options, BundledOcrOptions)
        self.ocr_model = BundledOcrModel(
            enabled=options.do_ocr, options=options.ocr_options, accelerator_options=options.accelerator_options
        )
        self.layout_model = RapidLayoutModel(threads=options.accelerator_options.num_threads, ocr=self.ocr_model)
        self.layout_postprocessing_model = LayoutPostprocessingModel(options=LayoutPostprocessorOptions())
        self.form_field_model = PdfFormFieldModel(enabled=False)
        self.table_model = WordTableModel(enabled=options.do_table_structure)
        self.assemble_model = LinesToTexts(options=PageAssembleOptions())
        self.reading_order_model = TextsToDocument(options=ReadingOrderOptions())
        self.heading_hierarchy_model = HeadingHierarchyModel(options=options.heading_hierarchy_options)
