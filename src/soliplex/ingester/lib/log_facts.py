"""What every record of the log says beside its own words: the step, run and document that are worked on meanwhile.

    the engine ──▶ working_on(work) ──▶ tasks, threads with a copied context ──▶ facts_now() ◀── the log's formatter
                        │ carried along with a call
                        ▼
    a process that handlers run in ──▶ process_works_on(facts) ──▶ facts_now()

The facts are put together when a record is made, and not before: nearly all steps make none. Imports nothing but the
standard library, since every process that handlers run in imports it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

type Facts = Mapping[str, Any]


class Work(Protocol):
    """Something that is worked on."""

    def facts(self) -> Facts:
        """The facts that records tell of the work.

        There are none once it is over: tasks that began with it may outlive it.
        """
        ...


working_on: Final[ContextVar[Work | None]] = ContextVar("working_on", default=None)
_of_process: Final[dict[str, Any]] = {}


def facts_now() -> Facts:
    """What a record says that is made here and now."""
    work = working_on.get()
    return _of_process if work is None else work.facts()


@contextmanager
def process_works_on(facts: Facts) -> Generator[None]:
    """For the time of the block, the whole process works on this, whatever threads it has."""
    _of_process.update(facts)
    try:
        yield
    finally:
        _of_process.clear()
