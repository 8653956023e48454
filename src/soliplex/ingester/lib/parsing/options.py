"""How documents are parsed: the parameters of the parse step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from soliplex.ingester.lib.step_options import StepOptions

type ParserName = Literal["local", "docling-serve", "fast"]


class ParseOptions(StepOptions):
    """Names are those of docling-serve; `format` and `ocr_enabled` are understood, too.

    What a parser cannot do, it leaves out: the local one has one engine for OCR and one for tables, and describes no
    pictures.
    """

    step: ClassVar[str] = "parse"

    parser: ParserName | None = None
    """Unset: docling-serve where DOCLING_SERVER_URL is set, else the local one."""
    format: Literal["markdown", "md", "json"] = "markdown"
    """Accepted for the sake of old parameter sets: Markdown and JSON are always made."""
    ocr_enabled: bool | None = None
    do_ocr: bool | None = None
    """Read the pages that are pictures; the same as `ocr_enabled`."""
    force_ocr: bool = False
    """Read all pages as pictures, whatever text they hold."""
    ocr_engine: str | None = None
    ocr_lang: tuple[str, ...] = ()
    pdf_backend: str | None = None
    pipeline: str | None = None
    table_mode: Literal["fast", "accurate"] | None = None
    do_table_structure: bool = True
    do_picture_description: bool = False
    do_picture_classification: bool = False
    do_code_enrichment: bool = False
    do_formula_enrichment: bool = False
    image_export_mode: Literal["placeholder", "embedded", "referenced"] = "placeholder"
    page_range: tuple[int, int] | None = None
    """First and last page, counted from 1."""
    pages_per_part: int = Field(default=50, ge=1)
    """Where long documents are split: pages that are parsed at once."""
    docling_options: Mapping[str, Any] = Field(default_factory=dict)
    """Whatever else docling-serve takes; the other parsers have no use for it."""

    @field_validator("ocr_lang", mode="before")
    @classmethod
    def _one_language_is_a_list_of_one(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("page_range")
    @classmethod
    def _pages_count_from_one(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1]:
            raise ValueError("give the first and the last page, counted from 1, such as [1, 50]")
        return value

    @model_validator(mode="after")
    def _both_names_of_ocr_agree(self) -> Self:
        if None not in {self.ocr_enabled, self.do_ocr} and self.ocr_enabled != self.do_ocr:
            raise ValueError("do_ocr and ocr_enabled mean the same, and are different here; give one of them")
        return self

    @property
    def ocr(self) -> bool:
        """Whether pages that are pictures are to be read: yes, unless somebody said no."""
        asked = [value for value in (self.do_ocr, self.ocr_enabled) if value is not None]
        return self.force_ocr or (asked[0] if asked else True)


WHOLE_DOCUMENT: Final = ParseOptions()
