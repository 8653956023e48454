"""What a document may do to the process that reads it, and in which words that is told."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import override

import pytest

from soliplex.ingester.lib.parsing.errors import Harm, HarmfulDocumentError
from soliplex.ingester.lib.wf.errors import HandlerCrashed, MemoryLimitExceeded, StepTimeout
from soliplex.ingester.lib.wf.isolation import ProcessPool
from soliplex.ingester.lib.workflow.document_processes import read_in_process, time_to_read


class Failing(ProcessPool):
    """A pool in which every call fails in the same way."""

    def __init__(self, exc: Exception) -> None:
        super().__init__()
        self._exc = exc

    @override
    async def run(
        self,
        method: str,
        arguments: Mapping[str, object],
        *,
        timeout: float | None = None,
    ) -> object:
        raise self._exc


@pytest.mark.parametrize(
    ("failure", "harm", "words"),
    [
        (StepTimeout(600), Harm.STALLED, r"longer than 600 seconds; raise PARSE_TIMEOUT_SECONDS"),
        (MemoryLimitExceeded(512), Harm.FILLED, r"more memory than the 512 MiB of STEP_MEMORY_LIMIT_MIB"),
        (HandlerCrashed(-signal.SIGSEGV), Harm.CRASHED, r"crashed the program that read it \(SIGSEGV\)"),
        (HandlerCrashed(3), Harm.CRASHED, r"exit code 3"),
    ],
)
async def test_harm_is_told_in_words_and_for_good(failure: Exception, harm: Harm, words: str) -> None:
    with pytest.raises(HarmfulDocumentError, match=words) as told:
        await read_in_process(Failing(failure), "any.function", {}, seconds=600)
    assert told.value.harm is harm
    assert "\n" not in str(told.value)


async def test_a_process_that_the_system_killed_may_be_tried_again() -> None:
    with pytest.raises(HandlerCrashed):
        await read_in_process(Failing(HandlerCrashed(-signal.SIGKILL)), "any.function", {}, seconds=600)


def test_a_text_gets_time_by_its_size_and_other_kinds_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "document"
    path.write_bytes(b"x" * 200_000)
    assert time_to_read(path, "text/html; charset=utf-8") == 70
    assert time_to_read(path, "application/pdf") == 600


def test_zero_means_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSE_TIMEOUT_SECONDS", "0")
    assert time_to_read(tmp_path, "text/html") is None
