"""What a process that is forked from another must not share with it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from soliplex.ingester.lib.wf.operations.claim import Pool, this_process
before = this_process()
if os.fork() == 0:
    print(before != this_process(), Pool().accepts(before), Pool().accepts(this_process()), flush=True)
    os._exit(0)
os.wait()
print(before == this_process(), flush=True)
"""


def test_steps_whose_functions_one_process_has_are_not_taken_by_those_forked_from_it() -> None:
    done = subprocess.run((sys.executable, "-c", PROGRAM), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "True"]
