"""What a client has against what is stored: new, changed, unchanged, stale; a hundred thousand at once."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database, Document, DocumentURI
from tests.support.documents import SOURCE, hash_of, new_batch, upload, uploaded
from tests.support.engine import scalar

HELLO = hash_of(b"hello")
BARE = HELLO.removeprefix("sha256-")


@pytest.mark.parametrize("sent", [HELLO, BARE, f"xx:{BARE}", f"sha256:{BARE}", BARE.upper(), {"sha256": BARE}])
async def test_the_same_content_matches_however_its_hash_is_written(database: type[Database], sent: Any) -> None:
    await upload("a", b"hello", await new_batch())
    found = await documents.source_status(SOURCE, {"a": sent})
    assert found.status == {"a": {"hash": sent if isinstance(sent, str) else BARE, "status": "matched"}}


async def test_other_content_is_a_mismatch_and_an_unknown_uri_is_new(database: type[Database]) -> None:
    await upload("a", b"hello", await new_batch())
    found = await documents.source_status(SOURCE, {"a": "sha256-other", "b": "sha256-new"})
    assert found.status == {
        "a": {"source_hash": "sha256-other", "stored_hash": HELLO, "status": "mismatch"},
        "b": {"hash": "sha256-new", "status": "new"},
    }


@pytest.mark.parametrize(
    ("sha256", "etag", "status"),
    [
        ("", '"v1"', "matched"),
        ("other", '"v1"', "matched"),
        (None, '"v1"', "matched"),
        ("", '"v2"', "mismatch"),
        ("", "", "mismatch"),
        (BARE, '"v2"', "matched"),
    ],
)
async def test_an_etag_speaks_where_the_hash_does_not(
    database: type[Database], sha256: str | None, etag: str, status: str
) -> None:
    await upload("a", b"hello", await new_batch(), meta={"_etag": '"v1"'})
    found = await documents.source_status(SOURCE, {"a": {"sha256": sha256, "etag": etag}})
    assert found.status["a"]["status"] == status


async def test_sources_are_told_apart(database: type[Database]) -> None:
    await upload("a", b"hello", await new_batch(), source="one")
    found = await documents.source_status("two", {"a": HELLO})
    assert found.status["a"]["status"] == "new"


async def test_the_keys_are_exactly_the_uris_sent(database: type[Database]) -> None:
    await uploaded(await new_batch(), "stored")
    odd = {"sent": "1", "ünïcode/日本": "2", "with 'quotes\"": "3", "a\x00b": "4"}
    with pytest.raises(InvalidInputError, match=r"^hashes: must not hold NUL"):
        await documents.source_status(SOURCE, odd)
    del odd["a\x00b"]
    assert list((await documents.source_status(SOURCE, odd)).status) == list(odd)


@pytest.mark.parametrize("value", [1, ["x"], True, {"sha256": 1}, {"etag": []}])
async def test_a_value_that_is_no_hash_is_refused_by_its_uri(database: type[Database], value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^hashes: the value of 'a/b' must be a hash"):
        await documents.source_status(SOURCE, {"a/b": value})


async def test_stale_uris_are_deleted_only_when_asked(database: type[Database]) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b", "c")
    await upload("c", b"content of c", batch_id, source="another")
    kept = await documents.source_status(SOURCE, {"a": "x"})
    assert (kept.deleted_count, await scalar("SELECT count(*) FROM documenturi")) == (0, 4)
    swept = await documents.source_status(SOURCE, {"a": "x"}, delete_stale=True)
    assert (swept.deleted_count, list(swept.status)) == (2, ["a"])
    assert (await documents.documents_of_source(SOURCE)).total == 1
    assert (await documents.documents_of_source("another")).total == 1


async def test_sending_nothing_with_delete_stale_empties_the_source(database: type[Database]) -> None:
    await uploaded(await new_batch(), "a", "b")
    swept = await documents.source_status(SOURCE, {}, delete_stale=True)
    assert (swept.status, swept.deleted_count) == ({}, 2)


async def test_a_hundred_thousand_uris_are_one_question(database: type[Database]) -> None:
    batch_id, count = await new_batch(), 100_000
    async with Database.engine().begin() as connection, Database.engine().connect() as other:
        await connection.run_sync(lambda sync: sync.execute(Document.__table__.insert(), _documents(count)))  # pyright: ignore[reportAttributeAccessIssue]
        await connection.run_sync(lambda sync: sync.execute(DocumentURI.__table__.insert(), _uris(count, batch_id)))  # pyright: ignore[reportAttributeAccessIssue]
        if other.dialect.name == "postgresql":
            # The worst moment for autovacuum to come by: it now believes that the tables are empty.
            await other.execution_options(isolation_level="AUTOCOMMIT")
            await other.execute(sa.text("ANALYZE document, documenturi"))
    sent = {f"/folder/{number}": hash_of(b"%d" % number) for number in range(10, count + 10)}
    found = await documents.source_status(SOURCE, sent, delete_stale=True)
    assert [row["status"] for row in found.status.values()].count("matched") == count - 10
    assert found.deleted_count == 10


def _documents(count: int) -> list[dict[str, Any]]:
    return [
        {"hash": hash_of(b"%d" % number), "mime_type": "text/plain", "file_size": 1, "doc_meta": {}}
        for number in range(count)
    ]


def _uris(count: int, batch_id: int) -> list[dict[str, Any]]:
    return [
        {
            "doc_hash": hash_of(b"%d" % number),
            "uri": f"/folder/{number}",
            "source": SOURCE,
            "version": 1,
            "batch_id": batch_id,
        }
        for number in range(count)
    ]
