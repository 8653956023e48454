"""Finding documents by their place, their batch, their source and their hash."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.views import Paging
from tests.support.documents import SOURCE, new_batch, uploaded


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("REPORT", ["/a/Report_1.pdf", "/b/report%2.PDF"]),
        ("t_1", ["/a/Report_1.pdf"]),
        ("%", ["/b/report%2.PDF"]),
        ("_", ["/a/Report_1.pdf"]),
        ("straße", ["/c/Straße.md"]),
        ("ÜBER", ["/d/über.md"]),
        ("\\", []),
        ("' OR 1=1 --", []),
    ],
)
async def test_a_pattern_is_plain_text_of_either_case(database: type[Database], pattern: str, found: list[str]) -> None:
    await uploaded(await new_batch(), "/a/Report_1.pdf", "/b/report%2.PDF", "/c/Straße.md", "/d/über.md")
    assert [uri.uri for uri in (await documents.find_documents(pattern)).items] == found


@pytest.mark.parametrize("pattern", ["", " ", "\x00"])
async def test_a_pattern_that_says_nothing_is_refused(database: type[Database], pattern: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^pattern: must not"):
        await documents.find_documents(pattern)


async def test_the_uris_of_a_source_come_in_pages_in_their_order(database: type[Database]) -> None:
    await uploaded(await new_batch(), "c", "a", "b")
    page = await documents.documents_of_source(SOURCE, paging=Paging(1, 2))
    assert ([uri.uri for uri in page.items], page.total) == (["a", "b"], 3)
    assert (await documents.documents_of_source("unknown")).items == []


@pytest.mark.parametrize("doc_hash", ["sha256-unknown", "", "ä", "\x00"])
async def test_an_unknown_hash_is_not_found(database: type[Database], doc_hash: str) -> None:
    for call in (documents.document_info, documents.document_history):
        with pytest.raises(NotFoundError, match=r"document .* does not exist"):
            await call(doc_hash)
