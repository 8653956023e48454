"""What `si-cli top` shows of an overview: it fits the terminal, and says what it leaves out."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rich.console import Console

from soliplex.ingester.cli.output import console
from soliplex.ingester.cli.top.frame import frame
from soliplex.ingester.installation.overview import (
    ActiveGroup,
    BusyWorker,
    FailureCause,
    HeldLock,
    Overview,
    StepsOfType,
)

NOW = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
NOTHING = Overview(
    at=NOW, steps=[], workers=[], worker_count=0, locks=[], lock_count=0, groups=[], group_count=0, causes=[]
)
STEPS = StepsOfType(
    step_type="parse",
    ready=10_000,
    is_exact=False,
    running=3,
    workers=0,
    oldest_ready_seconds=123.0,
    completed=150,
    failed=7,
)
GROUP = ActiveGroup(
    id=12,
    name="a name that is longer than all the room there is in a narrow terminal",
    workflow_definition_id="batch",
    status="RUNNING",
    total_runs=1000,
    remaining_runs=250,
    failed_runs=3,
    seconds_left=185.0,
    reason=None,
)
WORKER = BusyWorker(
    id="vm-17-abcdef",
    hostname="vm",
    slots=8,
    running_steps=9,
    seconds_since_checkin=4.0,
    resident_bytes=2**30,
    processes_resident_bytes=2**29,
)
LOCK = HeldLock(
    resource_key="rag:/data/lancedb/papers",
    holder_kind="worker",
    holder_id="vm-17-abcdef",
    acquired_at=NOW - timedelta(seconds=5),
    expires_at=NOW + timedelta(seconds=5),
)
CAUSE = FailureCause(
    message="connection to <address> refused",
    error_type="ConnectionError",
    step_types=["embed", "store"],
    failed=4,
    to_be_retried=2,
    newest=NOW - timedelta(minutes=2),
    run_ids=[1],
)
BUSY = replace(
    NOTHING,
    steps=[replace(STEPS, step_type=f"type {number}") for number in range(9)],
    workers=[replace(WORKER, id=f"worker-{number}") for number in range(9)],
    worker_count=200,
    locks=[LOCK] * 9,
    lock_count=9,
    groups=[replace(GROUP, id=number) for number in range(9)],
    group_count=50,
    causes=[CAUSE] * 9,
)


def shown(overview: Overview, *, width: int = 80, height: int | None = None, note: str = "") -> list[str]:
    out: Console = console()
    out.file, out.width = io.StringIO(), width
    out.print(frame(overview, where="http://host:8000", height=height, note=note))
    return out.file.getvalue().splitlines()


def test_where_nothing_goes_on_it_says_so() -> None:
    text = "\n".join(shown(NOTHING))
    assert "host:8000  " in text
    assert "no steps: nothing waits or runs" in text
    assert "no run group is under way" in text
    assert "no worker: `si-cli worker` starts one" in text


def test_all_that_goes_on_stands_in_one_frame() -> None:
    overview = replace(
        NOTHING,
        steps=[STEPS],
        workers=[WORKER],
        worker_count=1,
        locks=[LOCK],
        lock_count=1,
        groups=[GROUP],
        group_count=1,
        causes=[CAUSE],
    )
    text = "\n".join(" ".join(line.split()) for line in shown(overview, width=100))
    assert "1 worker · 8/8 slots · 10,000 ready · 2.5 steps/s" in text
    assert "parse 10,000+ 3 2.5 7 2 min 3 s 0" in text
    assert "█████████░░░ 750/1,000 3 about 3 min left" in text
    assert "vm-17-abcdef vm 9 8 1.5 GiB 4.0 s ago" in text
    assert "rag:/data/lancedb/papers worker vm-17-abcdef 5.0 s" in text
    assert "4 2 embed, store connection to <address> refused 2 min ago" in text


def test_a_frame_fits_the_terminal_and_says_what_is_left_out() -> None:
    for height in (24, 30, 60):
        lines = shown(BUSY, height=height)
        assert len(lines) <= height
        assert max(map(len, lines)) <= 80
        assert lines[-1].startswith("q leaves")
    text = "\n".join(shown(BUSY, height=24))
    assert "… and 199 more" in text  # of the workers, one is shown
    assert all(heading in text for heading in ("step", "group", "worker", "locked", "failed"))


def test_each_line_is_one_whatever_names_hold() -> None:
    hostile = "a\x1b[2Jb\nc\u202ed"
    overview = replace(NOTHING, groups=[replace(GROUP, name=hostile)], group_count=1)
    lines = shown(overview, width=120, height=24, note=hostile)
    assert not any(character in "".join(lines) for character in "\x1b\u202e")
    assert sum(r"a\x1b[2Jb\nc\u202ed" in line for line in lines) == 2


def test_a_type_that_only_ended_lately_is_not_said_to_have_no_worker() -> None:
    (line,) = [
        line for line in shown(replace(NOTHING, steps=[replace(STEPS, ready=0, workers=None)])) if "parse" in line
    ]
    assert line.split()[-3:] == ["2", "min", "3"] or line.rstrip().endswith("2 min 3 s")


def test_an_expired_lock_is_said_to_be_expired() -> None:
    overview = replace(NOTHING, locks=[replace(LOCK, expires_at=NOW - timedelta(seconds=1))], lock_count=1)
    assert "vm-17-abcdef (expired)" in "\n".join(shown(overview, width=120))
