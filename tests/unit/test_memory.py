"""Free memory goes back to the system."""

from __future__ import annotations

import platform

import pytest

from soliplex.ingester.lib.wf.memory import give_memory_back
from tests.support.faults import resident_mib


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do it by themselves")
def test_memory_that_the_c_library_keeps_goes_back_to_the_system() -> None:
    blocks = [bytearray(60_000) for _ in range(4000)]
    del blocks[:-1]  # the last lies above the others, and holds them
    before = resident_mib()
    give_memory_back()
    assert before - resident_mib() > 100
