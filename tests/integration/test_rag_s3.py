"""RAG databases in a bucket, on a real S3 server on loopback: everything that works in a folder works there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, ResourceLockKind, RunGroup
from soliplex.ingester.lib.rag import inventory
from soliplex.ingester.lib.rag.database_files import all_databases
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.readers import can_be_read, readers_kept
from soliplex.ingester.lib.rag.writing import delete_documents, write_documents
from tests.integration.test_rag import IDENTITY, document, uris
from tests.support.s3 import open_s3_server

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The settings lead to it."""
    with open_s3_server() as server:
        made = server.new_bucket()
        assert made.access_secret is not None
        for name, value in {
            "LANCEDB_DIR": f"s3://{made.bucket}/some/prefix",
            "ARTIFACT_S3__ENDPOINT_URL": server.url,
            "ARTIFACT_S3__ACCESS_KEY_ID": made.access_key_id,
            "ARTIFACT_S3__ACCESS_SECRET": made.access_secret.get_secret_value(),
        }.items():
            monkeypatch.setenv(name, str(value))
        get_settings.cache_clear()
        yield f"s3://{made.bucket}/some/prefix"


async def test_a_database_in_a_bucket_is_written_searched_vacuumed_and_verified(
    database: type[Database], bucket: str
) -> None:
    from soliplex.ingester.example import run_end

    path = rag.rag_path("library")
    assert path == f"{bucket}/library"
    assert await rag.is_absent(path)
    with pytest.raises(NotFoundError):
        await inventory.existing_path("library")

    async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.CLI, max_wait=0):
        await write_documents(
            path, IDENTITY, [document("cats", "cats purr"), document("dogs", "dogs bark")], fence=SoleWriter()
        )
    async with readers_kept():
        assert await uris(path, "bark") == ["/shelf/dogs.md", "/shelf/cats.md"]
        assert await can_be_read(path)
        assert await delete_documents(path, ["sha256-cats"], fence=SoleWriter()) == 1
        assert await uris(path, "bark cats") == ["/shelf/dogs.md"]

        before = (await inventory.list_databases())[0]
        await run_end(RunGroup(workflow_definition_id="w", param_definition_id="p"), data_dir="library")
        after = (await inventory.list_databases())[0]
        assert (before.name, before.path) == ("library", path)
        assert 0 < after.size_bytes < before.size_bytes
        assert await uris(path, "bark cats") == ["/shelf/dogs.md"]

    info = await inventory.database_info("library")
    assert (info.documents.count, info.chunks.count, info.chunks.versions) == (1, 1, 1)
    record = await all_databases().recorded("library")
    assert record is not None
    assert record.checksum == await all_databases().checksum("library")
    assert await all_databases().recorded("nothing") is None
