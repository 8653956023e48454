"""Tiny documents of many kinds, made where they are needed."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORDPROCESSING = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_CORE = """<cp:coreProperties xmlns:cp="{package}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>{title}</dc:title><dc:creator>Ada</dc:creator></cp:coreProperties>"""


def zipped(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(undated(name), text, compression)
    return content.getvalue()


def undated(name: str) -> zipfile.ZipInfo:
    """A member of an archive that is the same whenever it is made, and so is what a test makes of it by chance."""
    return zipfile.ZipInfo(name)


def pdf(*pages: str, title: str | None = None, encrypted: bool = False, sizes: Sequence[int] = ()) -> bytes:
    """A page for each text, a line of type for each line of text; `sizes` are those of its first lines."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids: list[str] = []
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for text in pages:
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects) + 2} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        content = _lines(text, sizes)
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    trailer = "/Root 1 0 R"
    if title is not None:
        objects.append(f"<< /Title ({title}) /Author (Ada) /CreationDate (D:20240131120000Z) >>")
        trailer += f" /Info {len(objects)} 0 R"
    if encrypted:
        secret = "00" * 32
        objects.append(f"<< /Filter /Standard /V 1 /R 2 /O <{secret}> /U <{secret}> /P -4 >>")
        trailer += f" /Encrypt {len(objects)} 0 R /ID [<{'11' * 16}> <{'11' * 16}>]"
    return _with_table(objects, trailer)


def drawn_pdf(content: str) -> bytes:
    """A page with such a content, in the words of PDF; its font is F1."""
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 %s >> >> >>"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page % font,
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    )
    return _with_table(objects, "/Root 1 0 R")


def marked_pdf(text: str, *, outline: Sequence[str] = (), tags: Mapping[str, str] | None = None) -> bytes:
    """A page that names headings: entries of an outline that point to the page, or tags of its lines, such as H2."""
    lines = text.splitlines()
    kinds = {} if tags is None else {number: tags.get(line, "P") for number, line in enumerate(lines)}
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    content = _lines(text, (), tuple(kinds))
    first = 6 + len(kinds)
    items = [f"{first + number} 0 R" for number in range(len(outline))]
    elements = " ".join(f"{6 + number} 0 R" for number in kinds)
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /MarkInfo << /Marked {'true' if kinds else 'false'} >>"
        + (" /StructTreeRoot 5 0 R" if kinds else "")
        + (f" /Outlines << /First {items[0]} /Last {items[-1]} /Count {len(items)} >>" if items else "")
        + " >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /StructParents 0 "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        ),
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        f"<< /Type /StructTreeRoot /K [{elements}] /ParentTree << /Nums [0 [{elements}]] >> >>",
        *(f"<< /Type /StructElem /S /{kind} /P 5 0 R /Pg 3 0 R /K {number} >>" for number, kind in kinds.items()),
    ]
    for number, title in enumerate(outline):
        following = f"/Next {items[number + 1]}" if number + 1 < len(items) else ""
        objects.append(f"<< /Title ({title}) /Parent 1 0 R {following} /Dest [3 0 R /Fit] >>")
    return _with_table(objects, "/Root 1 0 R")


def tagged_table_pdf(*rows: Sequence[str]) -> bytes:
    """A page with a table whose cells are tagged; nothing is drawn, and each line of a cell stands below the other."""
    drawn: list[str] = []
    elements: list[list[int]] = []
    number, height = 0, 700
    for row in rows:
        elements.append([])
        for column, text in enumerate(row):
            for below, line in enumerate(text.split("\n")):
                place = f"{72 + 160 * column} {height - 13 * below}"
                drawn.append(f"/TD << /MCID {number} >> BDC BT /F1 11 Tf {place} Td ({line}) Tj ET EMC")
            elements[-1].append(number)
            number += 1
        height -= 13 * max(text.count("\n") + 1 for text in row)
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    content = "\n".join(drawn)
    first = 7 + len(rows)
    table_rows = " ".join(f"{7 + place} 0 R" for place in range(len(rows)))
    cells = " ".join(f"{first + each} 0 R" for each in range(number))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /MarkInfo << /Marked true >> /StructTreeRoot 5 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /StructParents 0 "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        ),
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        f"<< /Type /StructTreeRoot /K [6 0 R] /ParentTree << /Nums [0 [{cells}]] >> >>",
        f"<< /Type /StructElem /S /Table /P 5 0 R /K [{table_rows}] >>",
    ]
    for row in elements:
        kids = " ".join(f"{first + each} 0 R" for each in row)
        objects.append(f"<< /Type /StructElem /S /TR /P 6 0 R /K [{kids}] >>")
    for place, row in enumerate(elements):
        objects += [f"<< /Type /StructElem /S /TD /P {7 + place} 0 R /Pg 3 0 R /K {each} >>" for each in row]
    return _with_table(objects, "/Root 1 0 R")


def _lines(text: str, sizes: Sequence[int], marked: Sequence[int] = ()) -> str:
    shown: list[str] = []
    height = 740
    for number, line in enumerate(text.splitlines()):
        size = sizes[number] if number < len(sizes) else 11
        escaped = line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        drawn = f"BT /F1 {size} Tf 72 {height} Td ({escaped}) Tj ET"
        shown.append(f"/Span << /MCID {number} >> BDC {drawn} EMC" if number in marked else drawn)
        height -= size + 5
    return "\n".join(shown)


def _with_table(objects: Sequence[str], trailer: str) -> bytes:
    content = b"%PDF-1.4\n"
    places: list[int] = []
    for number, text in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{text}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return content + (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} {trailer} >>\nstartxref\n{len(content)}\n%%EOF\n"
    ).encode("latin-1")


def docx(
    *paragraphs: str, heading: str = "Heading", title: str = "Title", more: Mapping[str, str | bytes] | None = None
) -> bytes:
    """A heading and paragraphs; `more` are further members of the archive."""
    text = "".join(f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in paragraphs)
    style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    body = f"<w:p>{style}<w:r><w:t>{heading}</w:t></w:r></w:p>{text}"
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{WORD}.main+xml"/>'
        '<Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'wordprocessingml.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONSHIPS}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONSHIPS}/styles" Target="styles.xml"/></Relationships>',
        "word/styles.xml": f'<w:styles xmlns:w="{_WORDPROCESSING}"><w:style w:type="paragraph" w:styleId="Heading1">'
        '<w:name w:val="heading 1"/></w:style></w:styles>',
        "word/document.xml": f'<w:document xmlns:w="{_WORDPROCESSING}"><w:body>{body}</w:body></w:document>',
        "docProps/core.xml": _CORE.format(package=_PACKAGE, title=title),
    }
    return zipped(members | dict(more or {}))


def open_document(kind: str = "text", manifest: str = "<manifest/>", content: str = "<office/>") -> bytes:
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "META-INF/manifest.xml": manifest,
            "content.xml": content,
            "meta.xml": '<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Title</dc:title></m>',
        }
    )


def compound_file(streams: Mapping[str, bytes]) -> bytes:
    """An OLE file; each stream is made long enough to live outside the one for small streams."""
    padded = {name: content.ljust(4096, b"\0") for name, content in streams.items()}
    chain, starts = [0xFFFFFFFD, 0xFFFFFFFE], dict[str, int]()
    data = b""
    for name, content in padded.items():
        starts[name] = len(chain)
        sectors = -(-len(content) // 512)
        chain += [*range(len(chain) + 1, len(chain) + sectors), 0xFFFFFFFE]
        data += content.ljust(sectors * 512, b"\0")
    entries = _entry("Root Entry", kind=5, child=1 if padded else 0xFFFFFFFF)
    for number, (name, content) in enumerate(padded.items(), start=1):
        right = number + 1 if number < len(padded) else 0xFFFFFFFF
        entries += _entry(name, kind=2, right=right, start=starts[name], size=len(content))
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<HHHHH", header, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<IIIIIIIIII", header, 40, 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0, 0)
    struct.pack_into("<109I", header, 76, 0, *[0xFFFFFFFF] * 108)
    allocation = struct.pack(f"<{len(chain)}I", *chain).ljust(512, b"\xff")
    return bytes(header) + allocation + entries.ljust(512, b"\0") + data


def _entry(
    name: str, *, kind: int, child: int = 0xFFFFFFFF, right: int = 0xFFFFFFFF, start: int = 0, size: int = 0
) -> bytes:
    head = name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<HBB", 2 * len(name) + 2, kind, 1)
    return head + struct.pack("<III", 0xFFFFFFFF, right, child) + bytes(36) + struct.pack("<IQ", start, size)
