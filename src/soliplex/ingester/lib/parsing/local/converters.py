"""docling's converters, made once and kept: making one is slow, and loading its models more so."""

from __future__ import annotations

import os
from functools import cache

from docling.backend.docling_parse_backend import ThreadedDoclingParseDocumentBackend
from docling.backend.pypdfium2_backend import PyPdfiumDocumentBackend
from docling.datamodel.accelerator_options import AcceleratorDevice, AcceleratorOptions
from docling.datamodel.base_models import InputFormat
from docling.datamodel.pipeline_options import HeadingHierarchyOptions, PdfPipelineOptions
from docling.document_converter import DocumentConverter, ImageFormatOption, PdfFormatOption

from soliplex.ingester.lib.parsing.local.ocr import BundledOcrOptions
from soliplex.ingester.lib.parsing.local.pipeline import TorchlessPipeline


@cache
def converter(*, ocr: bool, force_ocr: bool, tables: bool, robust: bool = False) -> DocumentConverter:
    """The converter for these options; its pipelines are made when a document first needs them, and kept, too.

    `robust` reads PDF by PDFium, which browsers have hardened: docling's own reader knows more about a page, and aborts
    the process on some pages that were made for that.
    """
    options = PdfPipelineOptions(
        do_ocr=ocr,
        ocr_options=BundledOcrOptions(force=force_ocr),
        do_table_structure=tables,
        heading_hierarchy_options=HeadingHierarchyOptions(enabled=True),
        generate_page_images=False,
        generate_picture_images=False,
        accelerator_options=AcceleratorOptions(device=AcceleratorDevice.CPU, num_threads=_threads()),
    )
    return DocumentConverter(
        format_options={
            InputFormat.PDF: PdfFormatOption(
                pipeline_cls=TorchlessPipeline,
                pipeline_options=options,
                backend=PyPdfiumDocumentBackend if robust else ThreadedDoclingParseDocumentBackend,
            ),
            InputFormat.IMAGE: ImageFormatOption(pipeline_cls=TorchlessPipeline, pipeline_options=options),
        }
    )


def _threads() -> int:
    # The worker runs several such processes: each one with all cores would only make them wait for each other.
    return max(1, (os.cpu_count() or 2) // 2)
