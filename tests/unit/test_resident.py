"""The memory of processes, as it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from soliplex.ingester.lib.resident import resident_of

HOLDS = "held = b'x' * (64 << 20); print('held', flush=True); input()"


def test_a_process_is_told_with_those_it_started() -> None:
    before = resident_of(os.getpid())
    assert before is not None
    assert before.own > 1 << 20
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found, of_child = resident_of(os.getpid()), resident_of(child.pid)
        child.communicate(b"\n")
    assert found is not None
    assert of_child is not None
    assert of_child.own > 64 << 20
    assert found.children - before.children > 60 << 20


def test_a_number_that_was_given_to_another_process_tells_nothing() -> None:
    now = datetime.now(UTC)
    assert resident_of(os.getpid(), since=now) is not None
    assert resident_of(os.getpid(), since=now - timedelta(days=3650)) is None
    assert resident_of(2**22 + 1) is None
