"""What the segmenter refuses: with the status that the interface says, the name of the field, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.storage import get_artifacts
from tests.support.engine import scalar
from tests.support.files import zipped
from tests.support.http import running_client

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 100
TEXT = ("notes.txt", b"Some words about the sea.\n")


@pytest.fixture
async def client(database: type[Database], database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with running_client(doc_db_url=database_url, max_file_size_limit=2000) as client:
        yield client


async def nothing_is_stored() -> bool:
    for table in ("document", "documenturi", "documenturihistory", "workflowrun", "segment", "webhookmessage"):
        if await scalar(f"SELECT count(*) FROM {table}"):
            return False
    artifacts = get_artifacts()
    spooled = list(artifacts.spool.folder.iterdir()) if artifacts.spool.folder.exists() else []
    return not spooled and [blob async for blob in artifacts.store.list("")] == []


REFUSED: Final[list[tuple[tuple[str, bytes], dict[str, str], int, str]]] = [
    (TEXT, {"doctype": "tiff"}, 422, "doctype"),
    (TEXT, {"doctype": "pdf"}, 422, "doctype"),
    (TEXT, {"article_size": "tiny"}, 422, "article_size"),
    (TEXT, {"maxsize": "0"}, 422, "maxsize"),
    (TEXT, {"maxsize": "many"}, 422, "maxsize"),
    (TEXT, {"maxtags": "0"}, 422, "maxtags"),
    (TEXT, {"maxtags": "101"}, 422, "maxtags"),
    (TEXT, {"usetags": "sea, ships"}, 422, "usetags"),
    (TEXT, {"usetags": '{"sea": 1}'}, 422, "usetags"),
    (TEXT, {"usetags": "[1, 2]"}, 422, "usetags"),
    (TEXT, {"usetags": '[" "]'}, 422, "usetags"),
    (TEXT, {"usetags": '["a\\u0000"]'}, 422, "usetags"),
    (TEXT, {"callbackurl": "ftp://example.org/x"}, 422, "callbackurl"),
    (TEXT, {"callbackurl": "nonsense"}, 422, "callbackurl"),
    (TEXT, {"callbackurl": "http://127.0.0.1:9/x"}, 422, "callbackurl"),
    (TEXT, {"callbackurl": "http://169.254.169.254/latest"}, 422, "callbackurl"),
    (TEXT, {"callbackurl": "http://[::ffff:10.0.0.1]/x"}, 422, "callbackurl"),
    (TEXT, {"callbackurl": "http://localhost/x"}, 422, "callbackurl"),
    (TEXT, {"enable_ocr": "perhaps"}, 422, "enable_ocr"),
    (TEXT, {"process_images": "true"}, 422, "process_images"),
    (TEXT, {"pdf_parsing_backend": "mupdf"}, 422, "pdf_parsing_backend"),
    (TEXT, {"ocr_backend": "rapidocr"}, 422, "ocr_backend"),
    (TEXT, {"extra_instructions": "x" * 10_001}, 422, "extra_instructions"),
    (TEXT, {"colour": "blue"}, 400, "colour"),
    (("empty.txt", b""), {}, 422, "uploadfile"),
    (("page.png", PNG), {}, 422, "enable_ocr"),
    (("large.txt", b"x" * 2001), {}, 413, "uploadfile: is larger than 2000 bytes"),
    (("things.zip", zipped({"a.txt": "a"})), {}, 415, "uploadfile"),
    (("program", b"\x7fELF" + b"\x00" * 100), {}, 415, "uploadfile"),
]


async def test_a_job_that_cannot_be_is_refused_and_leaves_nothing(client: httpx.AsyncClient) -> None:
    for number, (file, fields, status, named) in enumerate(REFUSED):
        path = ("/jobs", "/api/v1/segmenter/jobs")[number % 2]
        answer = await client.post(path, files={"uploadfile": file}, data=fields)
        assert (answer.status_code, named in answer.text) == (status, True), f"{file[0]} {fields}: {answer.text}"
        assert await nothing_is_stored(), f"{file[0]} {fields}"


async def test_a_job_without_a_file_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/jobs", files={"uploadfile": ("", b"")}, data={"maxsize": "10"})
    assert answer.status_code == 422
    answer = await client.post("/jobs", data={"maxsize": "10"})
    assert (answer.status_code, "uploadfile" in answer.text) == (422, True)
    assert await nothing_is_stored()


NOT_THERE: Final[list[tuple[str, str, dict[str, Any], int]]] = [
    ("GET", "/jobs/nonsense", {}, 404),
    ("GET", "/jobs/%00", {}, 422),
    ("PATCH", "/jobs/nonsense", {"json": {"status": "CANCELED"}}, 404),
    ("PATCH", "/jobs/nonsense", {"json": {"status": "COMPLETED"}}, 422),
    ("PATCH", "/jobs/nonsense", {"json": {}}, 422),
    ("PATCH", "/jobs/nonsense", {"json": {"status": "CANCELED", "progress": 5}}, 400),
    ("POST", "/jobs/nonsense/retry", {}, 404),
    ("DELETE", "/jobs/nonsense", {}, 404),
    ("GET", "/documents/1", {}, 404),
    ("GET", "/documents/1/segments", {}, 404),
    ("GET", "/documents/x", {}, 422),
    ("GET", "/segments/1", {}, 404),
    ("GET", "/segments/99999999999999999999", {}, 422),
    ("GET", "/jobs/?status=DONE", {}, 422),
    ("GET", "/jobs/?page=0", {}, 422),
]


async def test_what_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    for method, path, options, status in NOT_THERE:
        assert (await client.request(method, path, **options)).status_code == status, f"{method} {path} {options}"


async def test_a_text_is_what_its_sender_says_and_the_same_bytes_are_one_type(client: httpx.AsyncClient) -> None:
    first = await client.post("/jobs", files={"uploadfile": ("../notes.txt", TEXT[1])}, data={"doctype": "md"})
    document = (await client.get(f"/documents/{first.json()['documentid']}")).json()
    assert (document["filename"], document["mimetype"]) == ("notes.txt", "text/markdown")
    again = await client.post("/jobs", files={"uploadfile": TEXT}, data={"doctype": "txt"})
    assert (again.status_code, "doctype" in again.text) == (422, True)
    assert (await client.get("/jobs")).json()["total"] == 1


async def test_the_root_tells_programs_the_vendor_and_browsers_a_page(client: httpx.AsyncClient) -> None:
    for path in ("/", "/api/v1/segmenter/"):
        told = (await client.get(path)).json()
        assert (told["vendor"], told["name"]) == ("Soliplex", "Soliplex Ingester")
        assert told["version"]
    page = await client.get("/", headers={"Accept": "text/html"}, follow_redirects=True)
    assert page.headers["content-type"].startswith("text/html")
