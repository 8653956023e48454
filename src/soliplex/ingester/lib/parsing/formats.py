"""Kinds of documents, by MIME type, under the extension by which docling knows them."""

from __future__ import annotations

from typing import Final

_OPEN_XML: Final = "application/vnd.openxmlformats-officedocument."
OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument."

WORD: Final = f"{_OPEN_XML}wordprocessingml.document"
POWERPOINT: Final = f"{_OPEN_XML}presentationml.presentation"

STRUCTURED: Final = {
    "application/pdf": ".pdf",
    WORD: ".docx",
    f"{_OPEN_XML}wordprocessingml.template": ".docx",
    "application/vnd.ms-word.document.macroEnabled.12": ".docx",
    "application/vnd.ms-word.template.macroEnabled.12": ".docx",
    POWERPOINT: ".pptx",
    f"{_OPEN_XML}presentationml.template": ".pptx",
    f"{_OPEN_XML}presentationml.slideshow": ".pptx",
    "application/vnd.ms-powerpoint.presentation.macroEnabled.12": ".pptx",
    "application/vnd.ms-powerpoint.template.macroEnabled.12": ".pptx",
    "application/vnd.ms-powerpoint.slideshow.macroEnabled.12": ".pptx",
    f"{_OPEN_XML}spreadsheetml.sheet": ".xlsx",
    f"{_OPEN_XML}spreadsheetml.template": ".xlsx",
    "application/vnd.ms-excel.sheet.macroEnabled.12": ".xlsx",
    "application/vnd.ms-excel.template.macroEnabled.12": ".xlsx",
    f"{OPEN_DOCUMENT}text": ".odt",
    f"{OPEN_DOCUMENT}text-template": ".odt",
    f"{OPEN_DOCUMENT}spreadsheet": ".ods",
    f"{OPEN_DOCUMENT}spreadsheet-template": ".ods",
    f"{OPEN_DOCUMENT}presentation": ".odp",
    f"{OPEN_DOCUMENT}presentation-template": ".odp",
    "application/epub+zip": ".epub",
    "application/vnd.apple.keynote": ".key",
    "application/vnd.apple.numbers": ".numbers",
    "application/vnd.apple.pages": ".pages",
    "application/vnd.ms-outlook": ".msg",
    "message/rfc822": ".eml",
}
"""Kinds that are read from their bytes. Templates, slide shows and files with macros differ from documents in one word:
`packages.py` changes it for readers that mind."""

IMAGES: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tiff",
    "image/gif": ".gif",
    "image/bmp": ".bmp",
    "image/webp": ".webp",
}

OTHER_IMAGES: Final = {
    "image/avif": ".avif",
    "image/jpx": ".jp2",
    "image/x-portable-bitmap": ".pbm",
    "image/x-portable-graymap": ".pgm",
    "image/x-portable-pixmap": ".ppm",
}
"""Pictures that docling does not know, and Pillow does."""

MARKUP: Final = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/asciidoc": ".adoc",
    "text/csv": ".csv",
    "text/tab-separated-values": ".csv",
    "text/vtt": ".vtt",
    "application/x-tex": ".tex",
}
"""Kinds of text files that have headings, lists or tables."""

MARKDOWN: Final = "text/markdown"
MAIL: Final = "message/rfc822"
TABLES: Final = frozenset({"text/csv", "text/tab-separated-values"})
HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
XML: Final = frozenset({"application/xml", "image/svg+xml", "text/x-docbook", "text/x-opml"})

SOURCE: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/toml",
        "application/x-bibtex",
        "application/x-ipynb+json",
        "application/yaml",
        "text/css",
        "text/javascript",
        "text/x-python",
    }
)
"""Kinds of text files in which line breaks and spaces mean something."""

PLAIN: Final = frozenset({"text/plain", "text/x-rst", "application/x-subrip"})

LEGACY: Final = {
    "application/msword": ".doc",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/rtf": ".rtf",
}
"""Kinds of documents that only LibreOffice reads."""


def media_type(mime_type: str) -> str:
    """The MIME type without parameters such as a charset."""
    return mime_type.partition(";")[0].strip()


def is_text(mime_type: str) -> bool:
    return mime_type.startswith("text/") or mime_type in {*MARKUP, *XML, *SOURCE, *PLAIN}


def extension_for(mime_type: str) -> str:
    """The extension by which docling knows the kind, here or on a server; `.txt` for kinds that have none."""
    known = STRUCTURED | IMAGES | OTHER_IMAGES | MARKUP | LEGACY
    return ".xml" if mime_type == "application/xml" else known.get(mime_type, ".txt")
