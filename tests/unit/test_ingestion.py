from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, override

import pytest
from rich.console import Console

from soliplex.ingester.cli.ingest.display import LineDisplay, LiveDisplay, Speaking, display_for
from soliplex.ingester.cli.ingest.summary_words import exit_code_of, in_words
from soliplex.ingester.installation import following
from soliplex.ingester.installation.ingestion import Ingestion
from soliplex.ingester.installation.local_files import LocalFile, Rules, Why
from soliplex.ingester.installation.missing import Missing
from soliplex.ingester.installation.order import LONGEST_NAME, Order, name_of_batch
from soliplex.ingester.installation.stages import Stage
from soliplex.ingester.installation.summary import Summary
from soliplex.ingester.installation.values import Work
from soliplex.ingester.lib.answers import Waiting
from soliplex.ingester.lib.errors import IngesterError
from tests.support.files import zipped
from tests.support.targets import MemoryTarget


class Recorder(Speaking):
    """A display that keeps what it was told."""

    console = None

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ended: dict[str, Stage] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, stage: Stage) -> None:
        pass

    def end(self, stage: Stage) -> None:
        self.ended[stage.name] = replace(stage)

    @override
    def say(self, text: str, style: str = "") -> None:
        self.lines.append(text)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a.md", "b.md", "c.md", "d.md"):
        (folder / name).write_text(f"text of {name}")
    return folder


def order_for(folder: Path, **changes: object) -> Order:
    order = Order(paths=[folder], rules=Rules(), source="files", batch_name="docs", work=Work(), uploads_at_once=1)
    return replace(order, **changes)  # pyright: ignore[reportArgumentType]


async def ingest(
    target: MemoryTarget, order: Order, *, stopping: asyncio.Event | None = None, display: Recorder | None = None
) -> Summary:
    return await Ingestion(order, target, display or Recorder(), stopping or asyncio.Event()).run()


async def test_new_files_are_uploaded_and_processed(docs: Path) -> None:
    target, display = MemoryTarget(), Recorder()
    summary = await ingest(target, order_for(docs), display=display)
    assert target.uploads == ["a.md", "b.md", "c.md", "d.md"]
    assert (summary.found, summary.new, summary.uploaded, summary.started) == (4, 4, 4, 4)
    assert summary.progress is not None
    assert (summary.progress.completed, exit_code_of(summary), summary.status) == (4, 0, "ok")
    assert list(display.ended) == ["Looking", "Comparing", "Uploading", "parse", "store"]
    assert all(stage.is_over for stage in display.ended.values())


async def test_a_second_call_uploads_nothing_and_makes_no_batch(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    target.uploads.clear()
    summary = await ingest(target, order_for(docs))
    assert target.uploads == []
    assert len(target.batches) == 1
    assert (summary.unchanged, summary.has_nothing_to_do, exit_code_of(summary)) == (4, True, 0)
    assert "Nothing to do: all 4 files are unchanged." in headline(summary)


async def test_only_what_is_new_or_changed_is_uploaded(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    target.uploads.clear()
    (docs / "b.md").write_text("other text")
    (docs / "e.md").write_text("new text")
    summary = await ingest(target, order_for(docs))
    assert target.uploads == ["b.md", "e.md"]
    assert (summary.new, summary.changed, summary.unchanged) == (1, 1, 3)
    assert len(target.batches) == 2


async def test_unchanged_files_are_uploaded_again_on_demand(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    await ingest(target, order_for(docs, again=True))
    assert target.uploads == ["a.md", "b.md", "c.md", "d.md"] * 2


async def test_a_refused_file_fails_alone_with_its_reason(docs: Path) -> None:
    target, display = MemoryTarget(refused={"b.md": "larger than 10 bytes"}), Recorder()
    summary = await ingest(target, order_for(docs), display=display)
    assert (summary.uploaded, summary.files_failed, exit_code_of(summary)) == (3, 1, 1)
    assert any(line.endswith("b.md: larger than 10 bytes") for line in display.lines)
    assert summary.as_json()["failures"][0]["reason"] == "larger than 10 bytes"
    assert "3 documents ingested, 1 failed" in headline(summary)


async def test_a_document_that_is_routed_into_another_workflow_is_one_document(docs: Path) -> None:
    target = MemoryTarget(routed={"a.md", "c.md"}, failing={"c.md": "is encrypted"}, per_look=1)
    summary = await ingest(target, order_for(docs))
    assert "✗ 3 documents ingested, 1 failed" in headline(summary)


async def test_what_cannot_be_read_is_found_and_fails(docs: Path) -> None:
    (docs / "gone.md").symlink_to(docs / "nothing.md")
    summary = await ingest(MemoryTarget(), order_for(docs, rules=Rules(follow_links=True)))
    assert (summary.found, summary.uploaded, summary.files_failed, exit_code_of(summary)) == (5, 4, 1, 1)


async def test_documents_that_fail_are_told_with_stage_and_reason(docs: Path) -> None:
    target = MemoryTarget(failing={"a.md": "is encrypted", "c.md": "is encrypted"}, per_look=1)
    display = Recorder()
    summary = await ingest(target, order_for(docs), display=display)
    assert exit_code_of(summary) == 1
    assert [line for line in display.lines if "parse: is encrypted" in line] == display.lines
    assert len(display.lines) == 2
    words = "\n".join(line for line, _ in in_words(summary, "again"))
    assert "✗ 2 documents ingested, 2 failed" in words
    assert "2 at parse: is encrypted" in words
    assert "si-cli retry 1" in words
    assert display.ended["store"].skipped == 2


async def test_stopped_while_uploading_a_second_call_uploads_the_rest(docs: Path) -> None:
    stopping = asyncio.Event()

    def stop_at_b(file: LocalFile) -> None:
        if file.path.name == "b.md":
            stopping.set()

    target = MemoryTarget(on_upload=stop_at_b)
    summary = await ingest(target, order_for(docs), stopping=stopping)
    assert target.uploads == ["a.md", "b.md"]  # what is under way may finish
    assert (summary.stopped, exit_code_of(summary), target.groups) == (True, 130, [])
    words = "\n".join(line for line, _ in in_words(summary, "si-cli ingest docs"))
    assert "Stopped: 2 of 4 uploaded." in words
    assert "To go on:  si-cli ingest docs" in words

    again = await ingest(target, order_for(docs))
    assert target.uploads == ["a.md", "b.md", "c.md", "d.md"]
    assert (again.uploaded, again.unchanged, again.started, again.resumed) == (2, 2, 4, True)
    assert len(target.batches) == 1


async def test_stopped_while_processing_a_second_call_goes_on_with_the_same_group(docs: Path) -> None:
    stopping = asyncio.Event()
    target = MemoryTarget(per_look=1, on_look=stopping.set)
    summary = await ingest(target, order_for(docs), stopping=stopping)
    assert (summary.uploaded, summary.stopped, summary.run_group_id) == (4, True, 1)
    assert not target.is_working

    target.on_look = lambda: None
    again = await ingest(target, order_for(docs))
    assert (again.uploaded, again.started, again.run_group_id, again.resumed) == (0, 0, 1, True)
    assert again.progress is not None
    assert (again.progress.completed, exit_code_of(again)) == (4, 0)
    assert "4 documents ingested" in headline(again)


async def test_uploads_that_do_not_end_in_time_are_given_up_when_stopped(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soliplex.ingester.installation.interruptible.GRACE", 0.0)
    stopping = asyncio.Event()

    class Hanging(MemoryTarget):
        async def upload(self, file: LocalFile, **_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            stopping.set()
            await asyncio.Event().wait()

    summary = await ingest(Hanging(), order_for(docs), stopping=stopping)
    assert (summary.stopped, summary.uploaded) == (True, 0)


async def test_an_error_of_the_target_ends_it_and_comes_out_as_it_is(docs: Path) -> None:
    class Broken(MemoryTarget):
        async def upload(self, file: LocalFile, **_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise IngesterError("the disk is full")

    with pytest.raises(IngesterError, match="the disk is full"):
        await ingest(Broken(), order_for(docs, uploads_at_once=4))


async def test_a_dry_run_changes_nothing(docs: Path) -> None:
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs, dry_run=True))
    assert (target.uploads, target.batches) == ([], [])
    words = [line for line, _ in in_words(summary, "")]
    assert words[4] == "4 files would be uploaded (48 B): 4 new, 0 changed; 0 unchanged"
    assert words[0].endswith("a.md")
    assert words[-1].startswith("Expected time: about ")
    assert words[-1].endswith("which is a guess: no such documents have been processed here yet.")


async def test_a_dry_run_forecasts_from_what_was_recorded(docs: Path) -> None:
    (docs / "copy of a.md").write_text("text of a.md")
    rate = {"mime_type": "text/markdown", "documents": 10, "bytes": 480, "pages": 0, "chunks": 30}
    rates = [rate | {"step_type": "parse", "seconds": 40.0}, rate | {"step_type": "embed", "seconds": 20.0}]
    summary = await ingest(
        MemoryTarget(recorded={"rates": rates, "start_up_seconds": 3.0}), order_for(docs, dry_run=True)
    )
    assert summary.forecast is not None
    # The five files are four documents, a tenth of what took a minute after all was loaded.
    assert (summary.forecast.files, summary.forecast.chunks, summary.forecast.seconds) == (4, 3, pytest.approx(9.0))
    words = [line for line, _ in in_words(summary, "")]
    assert words[-1] == "Expected time: about 9.0 s, as 10 documents of the same kinds took before."
    assert words[-4].split() == ["Markdown", "4", "48", "B", "~4", "~3", "~6.0", "s"]
    assert words[-3].split() == ["loading", "models", "~3.0", "s"]
    assert words[-2].split() == ["in", "all", "4", "48", "B", "~4", "~3", "~9.0", "s"]


async def test_a_dry_run_with_nothing_to_do_says_so(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    summary = await ingest(target, order_for(docs, dry_run=True))
    assert "Nothing to do: all 4 files are unchanged." in headline(summary)


async def test_without_waiting_the_workflows_are_started_and_left(docs: Path) -> None:
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs, wait=False))
    assert (summary.started, exit_code_of(summary)) == (4, 0)
    assert "4 documents handed over" in headline(summary)
    assert set(target.runs.values()) == {0}


async def test_it_is_told_that_nobody_works(docs: Path) -> None:
    display = Recorder()
    await ingest(MemoryTarget(workers=False), order_for(docs), display=display)
    assert any("No worker is running" in line for line in display.lines)


async def test_what_is_left_out_is_counted_by_reason(docs: Path) -> None:
    (docs / "empty.md").touch()
    (docs / ".hidden").write_text("x")
    (docs / "notes.log").write_text("x")
    summary = await ingest(MemoryTarget(), order_for(docs, rules=Rules(exclude=["*.log"])))
    assert summary.left_out == {Why.EMPTY: 1, Why.HIDDEN: 1, Why.EXCLUDED: 1}
    words = "\n".join(line for line, _ in in_words(summary, ""))
    assert "left out: 1 hidden, 1 empty, 1 excluded" in words


async def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    summary = await ingest(MemoryTarget(), order_for(tmp_path))
    assert (headline(summary), exit_code_of(summary)) == ("No files found.", 0)


def headline(summary: Summary) -> str:
    return next(line for line, _ in in_words(summary, ""))


def test_the_batch_is_named_after_the_paths_whatever_their_order(tmp_path: Path) -> None:
    paths = [tmp_path / "b", tmp_path / "a"]
    assert name_of_batch(paths) == name_of_batch(paths[::-1]) == f"{tmp_path}/a, {tmp_path}/b"
    many = [tmp_path / f"folder-{number}" for number in range(100)]
    assert len(name_of_batch(many)) < LONGEST_NAME + 20
    assert name_of_batch(many) != name_of_batch(many[:-1])


def test_lines_are_printed_when_a_stage_ends_and_now_and_then_before() -> None:
    out, now = io.StringIO(), [0.0]
    stage = Stage(name="Uploading", total=1_200)
    with LineDisplay(Console(file=out), clock=lambda: now[0]) as display:
        for second in range(25):
            now[0], stage.done = second, second * 10
            display.show(stage)
        stage.done, stage.failed = 1_199, 1
        display.end(stage)
    assert out.getvalue().splitlines() == [
        "Uploading: 100/1,200, about 1 min 50 s left",
        "Uploading: 200/1,200, about 1 min 40 s left",
        "Uploading: 1,199/1,200, 1 failed, took 24.0 s",
    ]


def test_the_time_of_a_step_leaves_out_its_waiting() -> None:
    out, now = io.StringIO(), [0.0]
    step = Stage(name="store", total=2, is_step=True)
    with LineDisplay(Console(file=out), clock=lambda: now[0]) as display:
        for now[0], step.running, step.done in ((0, 0, 0), (4, 1, 0), (5, 0, 1), (9, 1, 1)):
            display.show(step)
        now[0], step.running, step.done = 9.5, 0, 2
        display.end(step)
    assert out.getvalue().splitlines() == ["store: 2/2, took 1.5 s"]


def test_a_terminal_shows_no_time_of_a_step_that_has_not_begun() -> None:
    now = [0.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    with LiveDisplay(console, clock=lambda: now[0]) as display:
        display.show(Stage(name="parse", total=3, running=1, is_step=True))
        display.show(Stage(name="store", total=3, is_step=True))
        now[0] = 7.0
    parse, store = console.export_text().rpartition("parse")[2].split("store")
    assert "0/3 7.0 s" in parse
    assert store.rstrip().endswith("0/3")


def test_what_a_step_loads_is_told_once_in_a_log_and_shown_in_a_terminal() -> None:
    out = io.StringIO()
    loading = Stage(name="parse", total=3, running=1, is_step=True, loading="loading the parser")
    with LineDisplay(Console(file=out), clock=lambda: 0.0) as display:
        display.show(loading)
        display.show(loading)
    assert out.getvalue().splitlines() == ["parse: 0/3, loading the parser"]
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    with LiveDisplay(console) as bars:
        bars.show(loading)
    assert "loading the parser" in console.export_text()


async def test_what_waits_to_be_tried_again_is_told_once(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "ASK_WHAT_WAITS_EVERY", 0.0)
    target = MemoryTarget(per_look=1, waiting=[Waiting("embed", "the server is away", 2)])
    display = Recorder()
    await ingest(target, order_for(docs), display=display)
    assert [said for said in display.lines if "away" in said] == [
        "⧗ 2 documents wait at embed, to be tried again: the server is away"
    ]


async def test_what_was_read_only_in_part_is_told_in_the_summary(docs: Path) -> None:
    target = MemoryTarget(read={"a.md": 0.63, "b.md": 0.999})
    summary = await ingest(target, order_for(docs))
    words = "\n".join(line for line, _ in in_words(summary, "again", " --server x"))
    assert "1 PDF read only in part, words are missing:" in words
    assert "a.md (63% read)" in words
    assert "si-cli status 1 --server x tells how many" in words
    assert exit_code_of(summary) == 0
    told = summary.as_json()["read_in_part"]
    assert told == [{"uri": f"{docs.as_posix()}/a.md", "coverage": 0.63, "missing_words": 1}]


async def test_what_is_tried_again_counts_without_what_the_group_had_done_before(docs: Path) -> None:
    target = MemoryTarget(failing={"a.md": "is broken"}, blank={"b.md"}, read={"c.md": 0.5})
    await ingest(target, order_for(docs))
    summary = await ingest(target, replace(order_for(docs), retry_failed=True))
    assert (summary.nothing_to_index, summary.read_in_part) == ([], [])


def test_bars_are_drawn_in_a_terminal_and_lines_elsewhere() -> None:
    assert isinstance(display_for(Console(file=io.StringIO(), force_terminal=True)), LiveDisplay)
    assert isinstance(display_for(Console(file=io.StringIO())), LineDisplay)


def test_a_terminal_shows_counts_failures_and_time() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    with LiveDisplay(console) as display:
        display.show(Stage(name="parse", total=3, done=1, failed=1))
        display.say("✗ a.md: is encrypted")
        display.end(Stage(name="parse", total=3, done=2, failed=1))
        display.show(Stage(name="Looking", done=7))
    text = console.export_text()
    assert "✗ a.md: is encrypted" in text
    assert "2/3" in text
    assert "1 failed" in text


async def test_known_files_that_are_gone_are_told_and_nothing_is_deleted(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    (docs / "b.md").unlink()
    summary = await ingest(target, order_for(docs))
    assert summary.missing.uris == [f"{docs.as_posix()}/b.md"]
    assert (summary.missing.known, summary.missing.obstacles, summary.missing.is_most) == (4, [], False)
    words = "\n".join(line for line, _ in in_words(summary, "again"))
    assert "Nothing to do: all 3 files are unchanged." in words
    assert "1 known file is gone and still found by searches:" in words
    assert "--delete-missing deletes them" in words
    assert (target.deleted, exit_code_of(summary)) == ([], 0)


async def test_a_folder_without_files_looks_like_one_that_is_not_mounted(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    for file in list(docs.glob("*")):  # noqa: ASYNC240  a few files of a test
        file.unlink()
    summary = await ingest(target, order_for(docs))
    assert len(summary.missing.uris) == 4
    assert [each for each in summary.missing.obstacles if "is it mounted?" in each] == summary.missing.obstacles != []


async def test_a_pattern_that_matches_nothing_misses_nothing(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    (docs / "b.md").unlink()
    summary = await ingest(target, order_for(docs, rules=Rules(include=["*.pdf"])))
    assert summary.missing.uris == []


async def test_what_cannot_be_read_speaks_against_deleting(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    (docs / "b.md").unlink()
    (docs / "broken.md").symlink_to(docs / "nothing.md")
    summary = await ingest(target, order_for(docs, rules=Rules(follow_links=True)))
    assert len(summary.missing.uris) == 1
    assert "broken.md: no such file or directory" in summary.missing.obstacles[0]


async def test_files_that_are_named_miss_no_others(docs: Path) -> None:
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    (docs / "b.md").unlink()
    summary = await ingest(target, order_for(docs, paths=[docs / "a.md"]))
    assert summary.missing.uris == []


def test_a_person_is_asked_where_more_than_half_would_go() -> None:
    assert not Missing([str(number) for number in range(10)], known=10).is_most
    assert not Missing([str(number) for number in range(11)], known=22).is_most
    assert Missing([str(number) for number in range(11)], known=21).is_most


async def test_what_failed_before_is_named_with_its_reason_and_is_no_success(docs: Path) -> None:
    target = MemoryTarget(failing={"a.md": "is encrypted"}, can_retry=False)
    await ingest(target, order_for(docs))
    summary = await ingest(target, order_for(docs))
    assert (exit_code_of(summary), summary.status, [each.uri for each in summary.failed_before]) == (
        1,
        "failed",
        [f"{docs.as_posix()}/a.md"],
    )
    words = "\n".join(line for line, _ in in_words(summary, "si-cli ingest docs"))
    assert "✗ Nothing new: all 4 files are unchanged, but 1 could not be processed before." in words
    assert "1 failed before, at parse: is encrypted" in words
    assert "--retry-failed" not in words  # it could not help
    assert summary.as_json()["failed_before"][0]["can_retry"] is False


async def test_what_failed_before_is_run_again_on_demand(docs: Path) -> None:
    target = MemoryTarget(failing={"a.md": "no room"}, mended=True)
    await ingest(target, order_for(docs))
    told = await ingest(target, order_for(docs))
    assert "si-cli ingest docs --retry-failed" in "\n".join(line for line, _ in in_words(told, "si-cli ingest docs"))
    summary = await ingest(target, order_for(docs, retry_failed=True))
    assert (exit_code_of(summary), summary.failed_before, len(summary.retried)) == (0, [], 1)
    assert "1 document ingested" in headline(summary)
    assert exit_code_of(await ingest(target, order_for(docs))) == 0


async def test_what_fails_again_is_told_once(docs: Path) -> None:
    target = MemoryTarget(failing={"a.md": "no room"})
    await ingest(target, order_for(docs))
    summary = await ingest(target, order_for(docs, retry_failed=True))
    assert (exit_code_of(summary), len(summary.failures), summary.failed_before) == (1, 1, [])
    assert "0 documents ingested, 1 failed" in headline(summary)


async def test_a_kind_that_nobody_reads_is_left_out_with_the_reason_and_no_failure(docs: Path) -> None:
    (docs / "b.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(58))
    (docs / "damaged.docx").write_bytes(b"PK\x05\x06" + bytes(18))  # that it is damaged, its validation says
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs))
    assert target.uploads == ["a.md", "b.md", "c.md", "d.md", "damaged.docx"]
    assert (summary.found, exit_code_of(summary), summary.left_out[Why.KIND]) == (5, 0, 1)
    words = "\n".join(line for line, _ in in_words(summary, "again"))
    assert "1 left out: no parser reads application/x-7z-compressed: " in words
    only = await ingest(target, order_for(docs, paths=[docs / "b.7z"]))
    assert (exit_code_of(only), headline(only)) == (0, "No files that can be read.")


async def test_a_document_without_text_is_not_told_as_ingested(docs: Path) -> None:
    target = MemoryTarget(blank={"b.md"})
    summary = await ingest(target, order_for(docs))
    assert "✓ 3 documents ingested, 1 with nothing to index in " in headline(summary)
    words = "\n".join(line for line, _ in in_words(summary, "again"))
    assert "nothing to index, no text was found: " in words
    assert summary.as_json()["nothing_to_index"] == [f"{docs.as_posix()}/b.md"]


async def test_where_nothing_holds_text_there_is_no_tick(docs: Path) -> None:
    summary = await ingest(MemoryTarget(blank={"b.md"}), order_for(docs, paths=[docs / "b.md"]))
    assert headline(summary).startswith("■ 0 documents ingested, 1 with nothing to index")


async def test_a_sidecar_is_metadata_and_no_document(docs: Path) -> None:
    sidecar = docs / "a.md.meta.json"
    sidecar.write_text('{"author": "Ada"}')
    (docs / "lonely.meta.json").write_text("{}")  # beside nothing: a document like any other
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs))
    assert target.uploads == ["a.md", "b.md", "c.md", "d.md", "lonely.meta.json"]
    assert (summary.sidecars, summary.found) == (1, 5)
    assert {"author": "Ada"} in target.metas.values()
    assert (await ingest(target, order_for(docs))).has_nothing_to_do
    sidecar.write_text('{"author": "Grace"}')
    assert (await ingest(target, order_for(docs))).changed == 1
    assert {"author": "Grace"} in target.metas.values()


async def test_a_sidecar_in_an_archive_is_metadata_and_no_document(docs: Path) -> None:
    files = {"in/a.pdf.txt": "text", "in/a.pdf.txt.meta.json": '{"author": "Ada"}', "in/lonely.meta.json": "{}"}
    (docs / "a.zip").write_bytes(zipped(files))
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs, paths=[docs / "a.zip"]))
    assert target.uploads == ["a.pdf.txt", "lonely.meta.json"]
    assert (summary.sidecars, {"author": "Ada"} in target.metas.values()) == (1, True)
    (docs / "a.zip").write_bytes(zipped(files | {"in/a.pdf.txt.meta.json": "[1]"}))
    (failure,) = (await ingest(target, order_for(docs, paths=[docs / "a.zip"]))).failures
    assert failure.reason == "a.pdf.txt.meta.json: must be a JSON object, not an array"


async def test_files_of_an_archive_that_is_left_out_or_cannot_be_read_are_not_deleted(docs: Path) -> None:
    (docs / "a.zip").write_bytes(zipped({"in/x.txt": "text", "in/y.txt": "more"}))
    target = MemoryTarget()
    await ingest(target, order_for(docs))
    for rules in (Rules(exclude=["*.zip"]), Rules(include=["*.md"])):
        assert (await ingest(target, order_for(docs, rules=rules))).missing.uris == []
    (docs / "a.zip").write_bytes(zipped({"in/x.txt": "text"}))
    assert (await ingest(target, order_for(docs))).missing.uris == [f"{docs.as_posix()}/a.zip!/in/y.txt"]
    (docs / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    damaged = await ingest(target, order_for(docs))
    assert "a.zip: the file is cut off" in (damaged.missing.doubt or "")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"author": }', "a.md.meta.json: must be a valid JSON object ("),
        (b"[1]", "a.md.meta.json: must be a JSON object, not an array"),
        (b"\xff", "a.md.meta.json: must be UTF-8 text"),
        (b'{"": 1}', "a.md.meta.json: the name ''"),
        (b'{"a": "\\u0000"}', "a.md.meta.json: must not hold NUL"),
    ],
)
async def test_a_wrong_sidecar_is_told_with_its_name_and_its_file_is_not_taken(
    docs: Path, content: bytes, problem: str
) -> None:
    (docs / "a.md.meta.json").write_bytes(content)
    target = MemoryTarget()
    summary = await ingest(target, order_for(docs))
    assert target.uploads == ["b.md", "c.md", "d.md"]
    (failure,) = summary.failures
    assert (failure.stage, failure.reason.startswith(problem), exit_code_of(summary)) == ("metadata", True, 1), failure
