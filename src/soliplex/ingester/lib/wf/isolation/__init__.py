"""Where a handler runs: in the worker itself, or in a process of its own that can be killed and has a memory limit.

    inline.py      an async handler on the worker's loop, a plain one in a thread
    process.py     ProcessPool: warm processes, one call at a time in each
    host.py          one process of the pool, seen from the worker
    connection.py    the worker's end of the connection to it
    child.py         the same process, seen from inside
    wire.py          the frames that pass between the two
    pickles.py       what is inside the frames
    stopping.py    stop_requested(), by which a handler learns that nobody waits for it any more

Owns the call of a handler: its time, its memory, its end. Knows nothing of steps, runs or databases: it is given a
function and its arguments, and gives back what came of them.
"""

from __future__ import annotations

from soliplex.ingester.lib.wf.isolation.inline import run_inline
from soliplex.ingester.lib.wf.isolation.process import ProcessPool
from soliplex.ingester.lib.wf.isolation.stopping import stop_requested

__all__ = ["ProcessPool", "run_inline", "stop_requested"]
