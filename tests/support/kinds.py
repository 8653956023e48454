"""A fine document of each kind that the documentation lists as read, by its extension. Each holds `TEXT`."""

from __future__ import annotations

import io
import re
import zipfile
from functools import cache
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont

from tests.support.files import pdf, undated, zipped

TEXT: Final = "Parsers read documents"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_MICROSOFT: Final = "application/vnd.ms-"
_OASIS: Final = "application/vnd.oasis.opendocument."
_MAIN_TYPES: Final = {
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".docm": f"{_MICROSOFT}word.document.macroEnabled",
    ".dotx": f"{_OFFICE}wordprocessingml.template",
    ".dotm": f"{_MICROSOFT}word.template.macroEnabledTemplate",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".pptm": f"{_MICROSOFT}powerpoint.presentation.macroEnabled",
    ".potx": f"{_OFFICE}presentationml.template",
    ".potm": f"{_MICROSOFT}powerpoint.template.macroEnabled",
    ".ppsx": f"{_OFFICE}presentationml.slideshow",
    ".ppsm": f"{_MICROSOFT}powerpoint.slideshow.macroEnabled",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".xlsm": f"{_MICROSOFT}excel.sheet.macroEnabled",
    ".xltx": f"{_OFFICE}spreadsheetml.template",
    ".xltm": f"{_MICROSOFT}excel.template.macroEnabled",
}
"""What Office writes into the list of types, for the part that all others belong to."""
_OPEN_TYPES: Final = {
    ".odt": "text",
    ".ott": "text-template",
    ".ods": "spreadsheet",
    ".ots": "spreadsheet-template",
    ".odp": "presentation",
    ".otp": "presentation-template",
}
_NAMESPACES: Final = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
)
_PARAGRAPH: Final = f"<text:p>{TEXT}</text:p>"
_BODIES: Final = {
    "text": f"<office:text>{_PARAGRAPH}</office:text>",
    "spreadsheet": '<office:spreadsheet><table:table table:name="a"><table:table-row>'
    f'<table:table-cell office:value-type="string">{_PARAGRAPH}</table:table-cell>'
    "</table:table-row></table:table></office:spreadsheet>",
    "presentation": '<office:presentation><draw:page draw:name="p"><draw:frame><draw:text-box>'
    f"{_PARAGRAPH}</draw:text-box></draw:frame></draw:page></office:presentation>",
}
_PICTURES: Final = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".tiff": "TIFF",
    ".gif": "GIF",
    ".bmp": "BMP",
    ".webp": "WEBP",
    ".avif": "AVIF",
    ".jp2": "JPEG2000",
    ".ppm": "PPM",
}
_BOOK: Final = {
    "META-INF/container.xml": '<?xml version="1.0"?><container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/content.opf" '
    'media-type="application/oebps-package+xml"/></rootfiles></container>',
    "OEBPS/content.opf": '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
    'unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Book</dc:title>'
    '<dc:language>en</dc:language><dc:identifier id="id">x</dc:identifier></metadata><manifest><item id="c1" '
    'href="c1.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="c1"/></spine></package>',
    "OEBPS/c1.xhtml": '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head>'
    f"<title>c</title></head><body><h1>Chapter</h1><p>{TEXT}</p></body></html>",
}
_HTML: Final = f"<!DOCTYPE html><html><head><title>t</title></head><body><h1>Title</h1><p>{TEXT}</p></body></html>"
_JATS: Final = (
    '<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving and Interchange DTD '
    'v1.2 20190208//EN" "JATS-archivearticle1.dtd"><article><front><article-meta><title-group><article-title>Study'
    f"</article-title></title-group></article-meta></front><body><sec><title>One</title><p>{TEXT}</p></sec></body></article>"
)
_TEXTS: Final = {
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>{TEXT}</p></body></html>',
    ".md": f"# Title\n\n{TEXT}\n",
    ".markdown": f"# Title\n\n{TEXT}\n",
    ".adoc": f"= Title\n\n{TEXT}\n",
    ".asciidoc": f"= Title\n\n{TEXT}\n",
    ".tex": f"\\documentclass{{article}}\\begin{{document}}\\section{{One}}{TEXT}\\end{{document}}",
    ".csv": f"name,value\n{TEXT},1\nmore,2\n",
    ".tsv": f"name\tvalue\n{TEXT}\t1\nmore\t2\n",
    ".vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{TEXT}\n",
    ".eml": f"Subject: Greetings\nFrom: ada@example.com\nTo: alan@example.com\n\n{TEXT}\n",
    ".nxml": _JATS,
    ".xml": f"<?xml version='1.0'?><menu><dish>{TEXT}</dish></menu>",
    ".svg": f"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><text>{TEXT}</text></svg>",
    ".json": f'{{"text": "{TEXT}"}}',
    ".jsonl": f'{{"text": "{TEXT}"}}\n{{"text": "more"}}\n',
    ".yaml": f"text: {TEXT}\n",
    ".toml": f'text = "{TEXT}"\n',
    ".ipynb": f'{{"cells": [{{"source": ["{TEXT}"]}}]}}',
    ".py": f'print("{TEXT}")\n',
    ".js": f'console.log("{TEXT}")\n',
    ".css": f"/* {TEXT} */ body {{ color: red }}\n",
    ".bib": f"@book{{one, title = {{{TEXT}}}}}\n",
    ".opml": f'<opml version="2.0"><head><title>One</title></head><body><outline text="{TEXT}"/></body></opml>',
    ".org": f"* Title\n{TEXT}\n",
    ".typ": f"= Title\n{TEXT}\n",
    ".docbook": f'<article xmlns="http://docbook.org/ns/docbook"><title>One</title><para>{TEXT}</para></article>',
    ".dbk": f'<article xmlns="http://docbook.org/ns/docbook"><title>One</title><para>{TEXT}</para></article>',
    ".rst": f"Title\n=====\n\n{TEXT}\n",
    ".srt": f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT}\n",
    ".txt": f"{TEXT}\n",
}
_APPLE: Final = " ".join(
    f'xmlns:{prefix}="http://developer.apple.com/namespaces/{name}"'
    for prefix, name in {"sf": "sf", "sfa": "sfa", "ls": "ls", "key": "keynote2"}.items()
)
_IWORK: Final = {
    ".pages": ("index.xml", f"<document {_APPLE}><sf:text-body><sf:p>{TEXT}</sf:p></sf:text-body></document>"),
    ".numbers": (
        "index.xml",
        (
            f'<document {_APPLE}><ls:workspace ls:workspace-name="one"><sf:tabular-info><sf:tabular-model sf:name="t">'
            '<sf:grid sf:numrows="1" sf:numcols="1"><sf:columns><sf:grid-column sf:nc="1"/></sf:columns><sf:rows>'
            f'<sf:grid-row sf:nc="1"/></sf:rows><sf:datasource><sf:t><sf:ct sfa:s="{TEXT}"/></sf:t></sf:datasource>'
            "</sf:grid></sf:tabular-model></sf:tabular-info></ls:workspace></document>"
        ),
    ),
    ".key": (
        "index.apxl",
        (
            f'<presentation {_APPLE}><key:slide-list><key:slide><key:title-placeholder sfa:ID="a"><sf:p>{TEXT}</sf:p>'
            "</key:title-placeholder></key:slide></key:slide-list></presentation>"
        ),
    ),
}
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:]+Z")
"""When a library made a document, as the document tells."""
_OLD: Final = {".doc": "WordDocument", ".xls": "Workbook", ".ppt": "PowerPoint Document"}


@cache
def sample(extension: str) -> bytes:
    """A fine document of the kind. Those of before 2007 are empty shells, for a stand-in of LibreOffice."""
    if extension in _TEXTS:
        return _TEXTS[extension].encode()
    if extension in _MAIN_TYPES:
        return _office(extension)
    if extension in _OPEN_TYPES:
        return open_document(extension)
    if extension in _PICTURES:
        return picture(_PICTURES[extension])
    if extension in _IWORK:
        return zipped(dict([_IWORK[extension]]))
    return _OTHERS[extension]()


def _old(extension: str) -> bytes:
    from tests.support.files import compound_file

    return compound_file({_OLD[extension]: b"\0"})


def book(
    *, type_at: int = 0, compression: int = zipfile.ZIP_STORED, declared: bytes = b"application/epub+zip"
) -> bytes:
    """An EPUB whose member `mimetype` stands at that place; without one, if it would say nothing."""
    members: list[tuple[str, str | bytes]] = list(_BOOK.items())
    if declared:
        members.insert(type_at, ("mimetype", declared))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(undated(name), text, compression if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return content.getvalue()


_OTHERS: Final = {
    ".pdf": lambda: pdf("\n".join([TEXT, *(f"This is line {number} of a page of text." for number in range(8))])),
    ".epub": book,
    ".rtf": lambda: b"{\\rtf1 " + TEXT.encode() + b"}",
    ".doc": lambda: _old(".doc"),
    ".xls": lambda: _old(".xls"),
    ".ppt": lambda: _old(".ppt"),
}
OLD: Final = frozenset({*_OLD, ".rtf"})
EXTENSIONS: Final = (*_OTHERS, *_IWORK, *_MAIN_TYPES, *_OPEN_TYPES, *_PICTURES, *_TEXTS)


def open_document(extension: str, *, with_type: bool = True) -> bytes:
    kind = _OPEN_TYPES[extension]
    body = _BODIES[kind.removesuffix("-template")]
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{_OASIS}{kind}"/></manifest:manifest>'
    )
    return zipped(
        ({"mimetype": f"{_OASIS}{kind}"} if with_type else {})
        | {
            "content.xml": f"<office:document-content {_NAMESPACES}><office:body>{body}</office:body>"
            "</office:document-content>",
            "META-INF/manifest.xml": manifest,
            "meta.xml": f"<office:document-meta {_NAMESPACES}><office:meta/></office:document-meta>",
            "styles.xml": f"<office:document-styles {_NAMESPACES}><office:styles/></office:document-styles>",
        },
        zipfile.ZIP_STORED,
    )


def picture(kind: str, size: tuple[int, int] = (1000, 300)) -> bytes:
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((60, 100), TEXT, fill="black", font=ImageFont.load_default(size=64))
    content = io.BytesIO()
    image.save(content, kind)
    return content.getvalue()


def workbook(rows: int, columns: int = 2) -> bytes:
    """Numbers, written without a library: a million rows take seconds."""
    content = io.BytesIO(_excel())
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.filelist.remove(archive.NameToInfo.pop("xl/worksheets/sheet1.xml"))
        with archive.open("xl/worksheets/sheet1.xml", "w") as sheet:
            sheet.write(b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>')
            for row in range(1, rows + 1):
                cells = "".join(f"<c><v>{row * 10 + column}</v></c>" for column in range(columns))
                sheet.write(f'<row r="{row}">{cells}</row>'.encode())
            sheet.write(b"</sheetData></worksheet>")
    return content.getvalue()


def _office(extension: str) -> bytes:
    make, plain = {
        "doc": (_word, ".docx"),
        "dot": (_word, ".docx"),
        "ppt": (_powerpoint, ".pptx"),
        "pot": (_powerpoint, ".pptx"),
        "pps": (_powerpoint, ".pptx"),
        "xls": (_excel, ".xlsx"),
        "xlt": (_excel, ".xlsx"),
    }[extension[1:4]]
    old, new = (f'"{_MAIN_TYPES[each]}.main+xml"'.encode() for each in (plain, extension))
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(make())) as source, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            part = _TIME.sub(b"2024-01-31T12:00:00Z", source.read(name))
            target.writestr(undated(name), part.replace(old, new), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _word() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Heading", 1)
    document.add_paragraph(TEXT)
    return _saved(document)


def _powerpoint() -> bytes:
    import pptx

    presentation: Any = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Heading"
    slide.placeholders[1].text = TEXT
    return _saved(presentation)


def _excel() -> bytes:
    import openpyxl

    workbook: Any = openpyxl.Workbook()
    workbook.active.append(["Heading", "number"])
    workbook.active.append([TEXT, 42])
    return _saved(workbook)


def _saved(document: Any) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()
