"""What a client may ask of a job, and what of it changes how the document is converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import IngesterError, InvalidInputError
from soliplex.ingester.lib.parsing.formats import (
    IMAGES,
    LEGACY,
    OTHER_IMAGES,
    POWERPOINT,
    STRUCTURED,
    WORD,
    is_text,
    media_type,
)
from soliplex.ingester.lib.storable import LARGEST_INTEGER, parse_texts, unstorable_in
from soliplex.ingester.lib.webhooks import check_target
from soliplex.ingester.lib.wf.definitions import ParameterSet
from soliplex.ingester.lib.wf.reading import JsonValue
from soliplex.ingester.lib.wf.registry import canonical_json

PARAMETERS: Final = "segmenter"
MOST_TAGS: Final = 1000
LONGEST_TAG: Final = 200
LONGEST_INSTRUCTIONS: Final = 10_000
LONGEST_ADDRESS: Final = 2048
_PICTURES: Final = frozenset({*IMAGES, *OTHER_IMAGES})
_READ: Final = frozenset({*STRUCTURED, *LEGACY, *_PICTURES})
"""Kinds that are read, beside texts of all kinds."""

DocType = Literal["pdf", "docx", "pptx", "xlsx", "txt", "html", "md"]
DOCTYPES: Final[Mapping[str, str]] = {
    "pdf": "application/pdf",
    "docx": WORD,
    "pptx": POWERPOINT,
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "txt": "text/plain",
    "html": "text/html",
    "md": "text/markdown",
}
LOCAL_PDF_BACKENDS: Final = ("docling_parse", "pypdfium2")
LOCAL_OCR_BACKENDS: Final = ("rapidocr",)


class BadFieldError(InvalidInputError):
    """A field of a job has a value that it cannot have."""


class UnsupportedTypeError(IngesterError):
    """The document is of a kind that no parser reads."""

    def __init__(self, mime_type: str) -> None:
        super().__init__(f"uploadfile: {mime_type} is no kind of document that can be read; send {', '.join(DOCTYPES)}")
        self.mime_type = mime_type


def _tags(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_texts("usetags", value, most=MOST_TAGS)
    except InvalidInputError as exc:
        raise ValueError(exc.problem) from exc


def _usable_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    plain = tuple(dict.fromkeys(tag.strip() for tag in tags))
    if not all(plain):
        raise ValueError("must not hold empty texts")
    if any(len(tag) > LONGEST_TAG for tag in plain):
        raise ValueError(f"must hold texts of at most {LONGEST_TAG} characters")
    return plain


def _storable(text: str) -> str:
    if found := unstorable_in(text):
        raise ValueError(f"must not hold {found}")
    return text


Name = Annotated[str, AfterValidator(_storable), Field(max_length=100)]


class JobOptions(BaseModel):
    """The fields of a job, beside its file."""

    model_config = ConfigDict(frozen=True)

    doctype: DocType | None = Field(
        default=None, description="What the file is; where it is left out, the file itself tells."
    )
    article_size: Literal["small", "medium", "large", "xlarge"] = Field(
        default="medium",
        description="How long articles should be: 750, 1500, 5000 or 9000 characters that are not white space.",
    )
    maxsize: int = Field(
        default=5000,
        ge=1,
        le=LARGEST_INTEGER,
        description="Characters that no article exceeds, unless it is a single table, list item, code block or "
        "sentence.",
    )
    usetags: Annotated[tuple[str, ...], BeforeValidator(_tags), AfterValidator(_usable_tags)] = Field(
        default=(),
        description="A JSON list of texts: the only tags that are given. An empty one leaves the choice free.",
        json_schema_extra={"type": "string", "default": "[]"},
    )
    maxtags: int = Field(default=1, ge=1, le=100, description="Most tags that an article gets.")
    callbackurl: Annotated[str, AfterValidator(_storable)] | None = Field(
        default=None, max_length=LONGEST_ADDRESS, description="Where progress and the articles are sent to."
    )
    process_images: bool = Field(
        default=False, description="Have pictures described. Needs a docling-serve: the parser here describes none."
    )
    pdf_parsing_backend: Name | None = Field(
        default=None,
        description="What reads PDFs: `docling_parse` or `pypdfium2`; with docling-serve, one of its own.",
    )
    enable_ocr: bool = Field(default=False, description="Read text in pictures of pages.")
    ocr_backend: Name | None = Field(
        default=None, description="What reads pictures: `rapidocr`; with docling-serve, one of its own."
    )
    force_full_page_ocr: bool = Field(
        default=False, description="Read every page as a picture, whatever text it holds. Needs `enable_ocr`."
    )
    extra_instructions: Annotated[str, AfterValidator(_storable)] = Field(
        default="", max_length=LONGEST_INSTRUCTIONS, description="What the language model is told about tagging."
    )

    def parameters(self) -> ParameterSet:
        """How the document is converted, as the parameters of the parse step: part of the key of what that makes.

        What says nothing new is left out, so that jobs and the pipeline share what they make.
        """
        told: dict[str, JsonValue] = {"format": "markdown", "ocr_enabled": self.enable_ocr}
        said: dict[str, JsonValue] = {
            "force_ocr": self.force_full_page_ocr or None,
            "ocr_engine": self.ocr_backend,
            "pdf_backend": self.pdf_parsing_backend,
            "do_picture_description": self.process_images or None,
        }
        config = {"parse": told | {name: value for name, value in said.items() if value is not None}}
        text = canonical_json(config)
        return ParameterSet(id=PARAMETERS, name="Segmentation jobs", config=config, text=text)


def read_options(fields: Mapping[str, str]) -> JobOptions:
    """The options that texts give, for callers other than the HTTP server; BadFieldError names the first wrong one."""
    try:
        return JobOptions.model_validate(dict(fields))
    except ValidationError as exc:
        first = exc.errors()[0]
        raise BadFieldError(".".join(map(str, first["loc"])) or "options", first["msg"]) from exc


def check_options(options: JobOptions, settings: Settings) -> None:
    """Refuse options that would have no effect here or at all: they would be ignored without a word."""
    if not options.enable_ocr and (options.force_full_page_ocr or options.ocr_backend):
        field = "force_full_page_ocr" if options.force_full_page_ocr else "ocr_backend"
        raise BadFieldError(field, "has no effect without enable_ocr=true; set that, or leave this out")
    if settings.docling_server_url:
        return
    if options.process_images:
        raise BadFieldError("process_images", "the parser here describes no pictures; set DOCLING_SERVER_URL")
    known = (
        ("pdf_parsing_backend", options.pdf_parsing_backend, LOCAL_PDF_BACKENDS),
        ("ocr_backend", options.ocr_backend, LOCAL_OCR_BACKENDS),
    )
    for field, value, names in known:
        if value is not None and value not in names:
            raise BadFieldError(field, f"is {value!r}; give {' or '.join(names)}, or leave it out")


def checked_type(options: JobOptions, mime_type: str) -> str:
    """The type to read a file as whose bytes say `mime_type`; refuses what cannot be read, or is something else."""
    kind = media_type(mime_type)
    wanted = DOCTYPES.get(options.doctype or "")
    if wanted is not None and wanted != kind:
        if not (is_text(wanted) and is_text(kind)):
            raise BadFieldError("doctype", f"is {options.doctype!r}, and the file is {kind}; leave doctype out")
        return wanted  # of texts, nothing but their sender knows for sure what they are
    if kind not in _READ and not is_text(kind):
        raise UnsupportedTypeError(kind)
    if kind in _PICTURES and not options.enable_ocr:
        raise BadFieldError("enable_ocr", f"must be true for a picture ({kind}), which holds nothing else to be read")
    return mime_type


async def check_receiver(options: JobOptions, settings: Settings) -> None:
    """Refuse a callback address that no message may go to."""
    if options.callbackurl is None:
        return
    try:
        await check_target(options.callbackurl, settings, field="callbackurl")
    except InvalidInputError as exc:
        raise BadFieldError(exc.field, exc.problem) from exc
