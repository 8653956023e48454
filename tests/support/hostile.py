"""Files made to harm whoever reads them, and files that are not what they seem; made where they are needed."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tests.support.files import compound_file, docx, pdf, zipped

_LAUGHS: Final = '<!ENTITY l0 "ha">' + "".join(
    f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 10)
)
BILLION_LAUGHS: Final = f'<?xml version="1.0"?><!DOCTYPE b [{_LAUGHS}]>'
"""A kilobyte that its entities make a billion words of."""
ZEROS: Final = bytes(1 << 20)


def zip_of_zeros(mebibytes: int) -> bytes:
    """A thousandth of what it unpacks to."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros", "w") as member:
        for _ in range(mebibytes):
            member.write(ZEROS)
    return content.getvalue()


def nested_zip(depth: int) -> bytes:
    """An archive in an archive in an archive."""
    content = zipped({"text.txt": "the innermost"})
    for _ in range(depth):
        content = zipped({"inner.zip": content})
    return content


def crowded_zip(members: int) -> bytes:
    return zipped({f"{number}": b"" for number in range(members)}, zipfile.ZIP_STORED)


def locked_zip() -> bytes:
    """As ZIP programs mark members that are encrypted."""
    content = bytearray(zipped({"secret.txt": "no longer to be read"}))
    for signature, flags_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags_at] |= 1
    return bytes(content)


def locked_office() -> bytes:
    """As Office wraps a document that has a password."""
    return compound_file({"EncryptionInfo": b"\4\0\4\0\x40\0\0\0<encryption/>", "EncryptedPackage": bytes(8192)})


def aes_pdf() -> bytes:
    """Locked by AES with a key of 256 bits, as programs of today do it."""
    plain = pdf("Nobody reads this.")
    body, _, _ = plain.rpartition(b"xref\n0 ")
    places = [body.index(f"{number} 0 obj".encode()) for number in range(1, body.count(b" 0 obj") + 1)]
    lock = (
        f"<< /Filter /Standard /V 5 /R 6 /Length 256 /P -4 /O <{'5a' * 48}> /U <{'a5' * 48}> /OE <{'5a' * 32}> "
        f"/UE <{'a5' * 32}> /Perms <{'00' * 16}> /CF << /StdCF << /AuthEvent /DocOpen /CFM /AESV3 /Length 32 >> >> "
        "/StmF /StdCF /StrF /StdCF >>"
    )
    number = len(places) + 1
    places.append(len(body))
    body += f"{number} 0 obj\n{lock}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"<< /Size {number + 1} /Root 1 0 R /Encrypt {number} 0 R /ID [<{'11' * 16}> <{'11' * 16}>] >>"
    end = f"xref\n0 {number + 1}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(body)}\n%%EOF\n"
    return body + end.encode()


def laughing_docx() -> bytes:
    return docx("text", more={"word/document.xml": f"{BILLION_LAUGHS}<b>&l9;</b>"})


def laughing_xlsx() -> bytes:
    excel = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    types = f'<Types><Override PartName="/xl/workbook.xml" ContentType="{excel}.main+xml"/></Types>'
    return zipped({"[Content_Types].xml": types, "xl/sharedStrings.xml": f"{BILLION_LAUGHS}<sst>&l9;</sst>"})


def laughing_xml(root: str) -> bytes:
    return f"{BILLION_LAUGHS}<{root}>&l9;</{root}>".encode()


def deep_html(depth: int) -> bytes:
    return b"<html><body>" + b"<div>" * depth + b"the bottom" + b"</div>" * depth + b"</body></html>"


def deep_json(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def wide_csv(columns: int) -> bytes:
    return b"\n".join(b",".join(b"%d" % number for number in range(columns)) for _ in range(2))


def png(width: int = 8, height: int = 8, *, cut: bool = False) -> bytes:
    """A grey picture; `cut` leaves out its second half."""
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(min(height, 1024))))
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")
    return content[: len(content) // 2] if cut else content


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_stream_pdf(mebibytes: int) -> bytes:
    """A page whose content is packed zeros: a thousand times as long as the file."""
    packer = zlib.compressobj(9)
    stream = b"".join(packer.compress(b" " * len(ZEROS)) for _ in range(mebibytes)) + packer.flush()
    return _single_page(f"<< /Length {len(stream)} /Filter /FlateDecode >>".encode(), stream)


def huge_page_pdf() -> bytes:
    """A page of 35 by 35 kilometres: drawn as it stands, it would fill any memory."""
    stream = b"BT /F1 12 Tf 72 700 Td (a corner of a large page) Tj ET"
    return _single_page(f"<< /Length {len(stream)} >>".encode(), stream, media_box="0 0 100000000 100000000")


def looping_pdf() -> bytes:
    """A tree of pages that contains itself."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R 2 0 R] /Count 1000000 >>"]
    return _with_objects(objects)


def _single_page(about: bytes, stream: bytes, media_box: str = "0 0 612 792") -> bytes:
    font = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [{media_box}] /Contents 4 0 R /Resources << {font} >> >>"
    return _with_objects(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            page.encode(),
            about + b"\nstream\n" + stream + b"\nendstream",
        ]
    )


def _with_objects(objects: list[bytes]) -> bytes:
    content, places = b"%PDF-1.5\n", list[int]()
    for number, text in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%b\nendobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(content))
    return content + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def long_pdf(pages: int) -> bytes:
    """A page of a dozen lines for each number; written in linear time, unlike what `files.pdf` does."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    for number in range(1, pages + 1):
        stream = "\n".join(_page_lines(number)).encode()
        contents = len(objects) + 2
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % contents
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(pages))
    objects[1] = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, pages)
    return _with_objects(objects)


def _page_lines(number: int) -> Iterator[str]:
    yield f"BT /F1 18 Tf 72 740 Td (Chapter {number}) Tj ET"
    for line in range(12):
        text = f"Line {line} of page {number} tells of matter {number * 12 + line} and of little else."
        yield f"BT /F1 11 Tf 72 {700 - 16 * line} Td ({text}) Tj ET"


async def long_text(size: int) -> AsyncIterator[bytes]:
    """Real lines, no two of a block alike."""
    block = "".join(f"line {number}: nothing to see here, and more of it below\n" for number in range(20_000)).encode()
    for _ in range(size // len(block) + 1):
        yield block
