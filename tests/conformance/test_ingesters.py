"""`Ingester`: one suite over an installation in this process and one behind a server, on each database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from soliplex.ingester import (
    ConflictError,
    Ingester,
    IngesterError,
    InvalidInputError,
    KnownSource,
    NotFoundError,
    NotOpenError,
    NotStoredAgainError,
    RemoteError,
    Stage,
)
from soliplex.ingester.installation.stages import Unwatched
from soliplex.ingester.lib.config import get_settings, load_settings
from soliplex.ingester.lib.models import ArtifactType
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.server import create_app
from tests.conformance.test_installations import serving
from tests.integration.test_rag import IDENTITY, document
from tests.support.documents import hash_of
from tests.support.engine import rows_of

QUICKLY: Final[dict[str, Any]] = {"workflow": "test_wf", "params": "test_base"}
"""Steps that do nothing."""


@pytest.fixture(params=["local", "remote"])
async def ingester(
    request: pytest.FixtureRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ingester]:
    monkeypatch.setenv("DOC_DB_URL", database_url)
    get_settings.cache_clear()
    use_registry(None)
    if request.param == "local":
        async with Ingester() as opened:
            yield opened
    else:
        async with serving(create_app()) as url, Ingester(server=url) as opened:
            yield opened
    use_registry(None)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("about apples")
    (folder / "deep" / "b.md").write_text("about bees")
    (folder / "c.tmp").write_text("about nothing")
    (folder / "empty.md").touch()
    return folder


async def test_a_folder_is_ingested_and_the_next_time_nothing_is_to_be_done(ingester: Ingester, docs: Path) -> None:
    report = await ingester.ingest(docs, source="handbook", exclude="*.tmp", **QUICKLY)
    assert (report.status, report.found, report.new, report.uploaded) == ("ok", 2, 2, 2)
    assert {str(why): count for why, count in report.left_out.items()} == {"excluded": 1, "empty": 1}
    assert report.progress is not None
    assert (report.progress.completed, report.failures, report.missing.uris) == (2, [], [])

    (docs / "a.md").write_text("about other apples")
    (docs / "deep" / "b.md").unlink()
    again = await ingester.ingest(str(docs), source="handbook", include=["*.md"], **QUICKLY)
    assert (again.changed, again.unchanged, again.uploaded) == (1, 0, 1)
    assert again.missing.uris == [f"{docs.as_posix()}/deep/b.md"]
    third = await ingester.ingest(docs, source="handbook", include="*.md", delete_missing=True, force=True, **QUICKLY)
    assert (third.unchanged, third.has_nothing_to_do, third.deleted) == (1, True, 1)
    assert await ingester.sources() == [KnownSource("handbook", 1)]


async def test_documents_that_fail_are_in_the_report(ingester: Ingester, docs: Path) -> None:
    report = await ingester.ingest(docs / "a.md", workflow="test_wf_fail", params="test_base")
    (failure,) = report.failures
    assert (report.status, report.has_failures, failure.stage) == ("failed", True, "chunk")
    assert failure.reason == "RuntimeError: this step always fails"
    later = await ingester.ingest(docs / "a.md", workflow="test_wf_fail", params="test_base")
    assert [each.uri for each in later.failed_before] == [f"{docs.as_posix()}/a.md"]


async def test_who_watches_is_told_of_every_stage(ingester: Ingester, docs: Path) -> None:
    class Watching(Unwatched):
        def __init__(self) -> None:
            self.ended: list[str] = []

        def end(self, stage: Stage) -> None:
            self.ended.append(stage.name)

    watching = Watching()
    await ingester.ingest(docs, watcher=watching, **QUICKLY)
    assert watching.ended[:3] == ["Looking", "Comparing", "Uploading"]
    assert set(watching.ended[3:]) == {"validate", "parse", "chunk", "embed", "store"}


async def test_an_ingestion_that_is_told_to_stop_is_taken_up_again(ingester: Ingester, docs: Path) -> None:
    stopping = asyncio.Event()
    stopping.set()
    report = await ingester.ingest(docs, stopping=stopping, **QUICKLY)
    assert (report.status, report.uploaded) == ("stopped", 0)
    assert (await ingester.ingest(docs, **QUICKLY)).status == "ok"


async def test_a_dry_run_says_what_would_be_done(ingester: Ingester, docs: Path) -> None:
    report = await ingester.ingest(docs / "a.md", dry_run=True, **QUICKLY)
    assert (report.would_upload, report.uploaded) == ([docs / "a.md"], 0)
    assert report.as_json()["forecast"] is not None
    assert await ingester.sources() == []


async def test_a_question_is_answered_with_where_the_answer_stands(ingester: Ingester) -> None:
    bees = document("bees", "when the bees leave the hive", source="garden", author="Ada")
    await write_documents(rag_path("library"), IDENTITY, [bees], fence=SoleWriter())
    asked: dict[str, Any] = {"kind": "text", "db": "library", "source": "garden", "meta": {"author": "Ada"}}
    (hit,) = await ingester.search("bees", limit=3, **asked)
    assert (hit.uri, hit.headings, hit.pages) == ("/garden/bees.md", ["Bees"], hit.page_numbers)
    assert "the bees leave" in hit.content
    assert hit.score > 0
    asked["source"] = "kitchen"
    assert await ingester.search("bees", **asked) == []
    with pytest.raises(NotFoundError, match="RAG database 'nothing' does not exist; known are: library"):
        await ingester.search("bees", db="nothing")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"kind": "magic"}, "kind"), ({"limit": 0}, "limit"), ({"limit": 101}, "limit")],
    ids=["kind", "none", "many"],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_wrong_question_is_refused_by_its_field(ingester: Ingester, wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        await ingester.search("bees", **wrong)
    assert refused.value.field == field


async def test_what_is_wrong_with_an_order_is_told_before_anything_is_done(ingester: Ingester, docs: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"paths: .*nowhere' does not exist; name a folder"):
        await ingester.ingest(docs / "nowhere")
    with pytest.raises(InvalidInputError, match="paths: are none"):
        await ingester.ingest()
    for name in ("", "s" * 256, "a\x00b"):
        with pytest.raises(InvalidInputError, match=r"^source: must"):
            await ingester.ingest(docs, source=name)
    with pytest.raises(InvalidInputError, match=r"^priority: must be between"):
        await ingester.ingest(docs, priority=10**11)
    with pytest.raises(IngesterError, match="did you mean 'test_wf'"):
        await ingester.ingest(docs, workflow="test_fw")
    with pytest.raises(InvalidInputError, match="uris: are none; `delete_source`"):
        await ingester.delete()
    assert await ingester.sources() == []


async def test_documents_are_listed_read_and_deleted(
    ingester: Ingester, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingester.ingest(docs, source="handbook", **QUICKLY)
    with pytest.raises(ConflictError, match="has no text: it was never parsed"):
        await ingester.read(f"{docs}/a.md", source="handbook")
    await _pretend_that_it_was_parsed("about apples", "# Apples — 🍎\n")
    await ingester.ingest(docs / "a.md", source="other", **QUICKLY)
    assert await ingester.sources() == [KnownSource("handbook", 3), KnownSource("other", 1)]
    assert await ingester.uris("handbook", prefix=f"{docs}/deep") == [f"{docs}/deep/b.md"]

    monkeypatch.chdir(docs)
    assert await ingester.read("a.md", source="handbook") == "# Apples — 🍎\n"
    assert await ingester.read(f"{docs}/a.md", source="other", version=1) == "# Apples — 🍎\n"
    with pytest.raises(NotFoundError, match=r"'z.md' of source 'handbook' does not exist"):
        await ingester.read("z.md", source="handbook")
    with pytest.raises(IngesterError, match=r"a.md.*did you mean .*a.md \(source (handbook|other)\)"):
        await ingester.read("a.md", source="nothing")

    with pytest.raises(IngesterError, match="does not exist"):
        await ingester.delete("a.md", "z.md", source="handbook")
    assert await ingester.delete("a.md", "deep/b.md", source="handbook") == 2
    assert await ingester.delete_source("handbook") == 1
    assert await ingester.delete_source("handbook") == 0
    assert await ingester.sources() == [KnownSource("other", 1)]


async def test_versions_are_listed_compared_and_gone_back_to(ingester: Ingester, docs: Path) -> None:
    file = docs / "a.md"
    for text in ("one line\n", "another line\n"):
        file.write_text(text)
        await ingester.ingest(file, **QUICKLY)
        await _pretend_that_it_was_parsed(text, text)
    assert [each.version for each in await ingester.versions(str(file))] == [2, 1]
    assert [each.version for each in await ingester.versions(str(file), limit=1)] == [2]
    diff = await ingester.diff(str(file), context=0)
    assert "+another line" in diff.text.unified

    done = await ingester.roll_back(str(file), 1, **QUICKLY)
    assert (done.version, done.is_changed) == (3, True)
    assert await ingester.read(str(file)) == "one line\n"
    with pytest.raises(NotStoredAgainError, match="searches still find the content from before: chunk: Runtime"):
        await ingester.roll_back(str(file), 2, workflow="test_wf_fail", params="test_base")
    with pytest.raises(NotFoundError, match="version 9"):
        await ingester.roll_back(str(file), 9)


async def _pretend_that_it_was_parsed(content: str, text: str) -> None:
    """What the steps of the test workflow do not make."""
    configs = dict(await rows_of("SELECT step_type, step_config_id FROM runstep"))
    await get_artifacts().write(hash_of(content.encode()), ArtifactType.PARSED_MD, configs["parse"], text.encode())


async def test_it_is_used_within_its_block_and_opened_once() -> None:
    ingester = Ingester()
    with pytest.raises(NotOpenError, match="async with Ingester"):
        await ingester.sources()
    with pytest.raises(NotOpenError):
        _ = ingester.loop
    async with ingester:
        assert await ingester.sources() == []
        assert ingester.loop is asyncio.get_running_loop()
        with pytest.raises(IngesterError, match="open already"):
            await ingester.__aenter__()
        assert await ingester.sources() == []
    with pytest.raises(NotOpenError):
        await ingester.sources()
    async with ingester:
        assert await ingester.sources() == []


def test_an_address_and_a_key_are_checked_when_they_are_given() -> None:
    with pytest.raises(InvalidInputError, match="server: 'localhost:8000' must begin with http://"):
        Ingester(server="localhost:8000")
    with pytest.raises(InvalidInputError, match="api_key: goes with server"):
        Ingester(api_key="secret")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_server_is_shown_the_key_that_is_given_or_else_that_of_the_settings(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a-key-that-is-long-enough-for-anybody"
    for name, value in {"DOC_DB_URL": database_url, "API_KEY": key, "API_KEY_ENABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    get_settings.cache_clear()
    async with serving(create_app(with_worker=False)) as url:
        for given in (key, None):
            async with Ingester(server=url, api_key=given) as ingester:
                assert await ingester.sources() == []
        async with Ingester(server=url, api_key="another") as ingester:
            with pytest.raises(RemoteError, match="asks for a key, or for another one; set API_KEY") as refused:
                await ingester.sources()
            assert refused.value.status == 401


async def test_a_server_that_is_not_there_is_told_by_its_address() -> None:
    async with Ingester(server="http://127.0.0.1:9") as ingester:
        with pytest.raises(RemoteError, match=r"http://127\.0\.0\.1:9: cannot be reached; is the server running"):
            await ingester.search("anything")


async def test_two_ingesters_with_settings_of_their_own_share_nothing(docs: Path, tmp_path: Path) -> None:
    settings = [load_settings(data_dir=tmp_path / name) for name in ("one", "two")]
    async with Ingester(settings=settings[0]) as one, Ingester(settings=settings[1]) as two:
        reports = await asyncio.gather(
            one.ingest(docs / "a.md", source="one", **QUICKLY), two.ingest(docs / "deep", source="two", **QUICKLY)
        )
        assert [report.status for report in reports] == ["ok", "ok"]
        assert await one.sources() == [KnownSource("one", 1)]
        assert await two.sources() == [KnownSource("two", 1)]
    assert all((tmp_path / name).is_dir() for name in ("one", "two"))


async def test_an_ingester_with_settings_of_its_own_is_asked_from_any_task(docs: Path, tmp_path: Path) -> None:
    opened = asyncio.Event()
    ingester = Ingester(settings=load_settings(data_dir=tmp_path / "elsewhere"))

    async def use() -> None:
        await opened.wait()
        await ingester.ingest(docs, **QUICKLY)
        assert await ingester.sources() == [KnownSource("files", 3)]

    task = asyncio.create_task(use())  # before the ingester is open: the task's context knows nothing of it
    async with ingester:
        opened.set()
        await task
