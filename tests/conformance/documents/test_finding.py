"""Finding documents by their place, their batch, their source and their hash."""

from __future__ import annotations

from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.views import Paging
from tests.support.documents import SOURCE, new_batch, upload, uploaded


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


async def test_looking_for_documents_goes_on_where_the_last_page_ended(database: type[Database]) -> None:
    await uploaded(await new_batch(), *(f"/{letter}.md" for letter in "abcdefg"))
    await upload("/a.md", b"elsewhere", await new_batch(source="wiki"), source="wiki")
    seen: list[tuple[str, str]] = []
    after = None
    while (page := await documents.look_for_documents(limit=3, after=after)).next:
        seen += [(each.source, each.uri) for each in page.items]
        after = page.next
    seen += [(each.source, each.uri) for each in page.items]
    assert seen == [*((SOURCE, f"/{letter}.md") for letter in "abcdefg"), ("wiki", "/a.md")]
    assert [each.source for each in (await documents.look_for_documents("A.M", source="wiki")).items] == ["wiki"]


async def test_one_look_goes_through_a_bounded_number_of_documents(database: type[Database]) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, *(f"/{number}.md" for number in range(9)), "/ÜBER_10%.md")
    questions: list[dict[str, Any]] = [{}, {"source": SOURCE}, {"batch_id": batch_id}]
    for question in questions:
        looks: list[list[str]] = []
        after = None
        while True:
            page = await documents.look_for_documents("über_10%", after=after, stretch=4, **question)
            looks.append([each.uri for each in page.items])
            if (after := page.next) is None:
                break
        assert looks == [[], [], ["/ÜBER_10%.md"]]


@pytest.mark.parametrize("after", ["x", "WzFd", "bnVsbA", "WyJhIiwgMV0", "\x00", "W10"])
async def test_a_place_to_go_on_from_that_no_answer_gave_is_refused(database: type[Database], after: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^after: is not what an answer"):
        await documents.look_for_documents(after=after)


async def test_a_batch_and_a_source_are_not_looked_through_together(database: type[Database]) -> None:
    with pytest.raises(InvalidInputError, match=r"^source: is given beside"):
        await documents.look_for_documents(source=SOURCE, batch_id=await new_batch())
