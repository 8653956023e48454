"""One process of the pool, seen from the worker: started, called, watched, stopped.

How a call is stopped, each stage `grace` seconds after the one before, and only if the call has not ended by then:

    STOP      the handler can see it by `stop_requested()`; an async handler is cancelled
    SIGTERM   raises SystemExit in the handler, so that its `finally` blocks run
    SIGKILL   needs no cooperation: not even code in C that holds the interpreter, or a handler that ignores signals

A process that answers in the first stage goes on to serve; after a signal it is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import signal
import socket
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from soliplex.ingester.lib.log_facts import facts_now
from soliplex.ingester.lib.wf.errors import (
    EngineError,
    HandlerCrashed,
    MemoryLimitExceeded,
    PoolStopped,
    StepTimeout,
)
from soliplex.ingester.lib.wf.isolation import pickles
from soliplex.ingester.lib.wf.isolation.connection import Answer, Connection
from soliplex.ingester.lib.wf.isolation.wire import Frame, Kind, Setup
from soliplex.ingester.lib.wf.tracing import carried_span
from soliplex.ingester.lib.wiring import packed_settings

# The search path comes as arguments: what the worker can import, the handler's process can. The main module is not
# imported again, as multiprocessing would do: a script without a guard around its main code would start all over.
_BOOTSTRAP: Final = (
    "import sys; _, descriptor, *sys.path = sys.argv; del sys.argv[1:]; "
    "from soliplex.ingester.lib.wf.isolation.child import main; main(int(descriptor))"
)
_STDERR: Final = 2
_LONGEST_START: Final = 60.0
_BETWEEN_LOOKS_AT_MEMORY: Final = 0.1
_SHARE_LEFT_BEHIND: Final = 0.5
_LEFT_BEHIND_WITHOUT_LIMIT_MIB: Final = 2048
# Seconds for a killed process to be gone: usually milliseconds, seconds for a large one on a busy machine. A process
# that is stuck in the kernel is left to it.
_LONGEST_DEATH: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process may use, and how long the stages of stopping it take."""

    memory_mib: int | None
    calls: int
    grace: float
    cancel_grace: float


class HandlerProcess:
    """A process that handlers run in, one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process, connection: Connection, limits: Limits) -> None:
        self._process = process
        self._connection = connection
        self._limits = limits
        self._calls = 0
        self._exit = asyncio.create_task(self._wait_for_exit())
        self._stopping: asyncio.Task[None] | None = None
        self._was_signalled = False
        self._is_retired = False
        self._ran_out_of_memory = False

    @classmethod
    async def start(cls, limits: Limits) -> Self:
        """Start a process and wait until it can take a call."""
        ours, theirs = socket.socketpair()
        with theirs:
            _, connection = await asyncio.get_running_loop().create_unix_connection(Connection, sock=ours)
            try:
                process = await _execute(theirs.fileno())
            except BaseException:
                connection.close()
                raise
        started = cls(process, connection, limits)
        try:
            await started._set_up()
        except BaseException:
            await asyncio.shield(started.retire(limits.cancel_grace))
            raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can take a call."""
        return self._connection.is_idle and not self._was_signalled

    @property
    def is_spent(self) -> bool:
        """Whether it should not take another call, because what calls leave behind adds up."""
        return self._calls >= self._limits.calls or self._ran_out_of_memory or self._resident_mib() > self._left_behind

    @property
    def _left_behind(self) -> float:
        """MiB that a process may hold between calls."""
        limit = self._limits.memory_mib
        return _LEFT_BEHIND_WITHOUT_LIMIT_MIB if limit is None else limit * _SHARE_LEFT_BEHIND

    async def call(
        self,
        method: str,
        arguments: Mapping[str, object],
        *,
        timeout: float | None,  # noqa: ASYNC109  kept by stages, of which asyncio.timeout knows none
    ) -> object:
        """Call a handler; gives its result, or raises what it raised."""
        carried = pickles.Carried(facts_now(), carried_span())
        answer = self._connection.ask(Frame(Kind.CALL, pickles.dump_call(method, arguments, carried)))
        self._calls += 1
        with self._memory_watched():
            try:
                is_in_time = await _within(timeout, answer)
            except asyncio.CancelledError:
                await self._stop_call(answer, self._limits.cancel_grace)
                raise
            if timeout is not None and not is_in_time:
                await self._stop_call(answer, self._limits.grace)
                raise StepTimeout(timeout)
        return await self._outcome(answer.result())

    async def retire(self, grace: float) -> None:
        """End the process, whatever it is doing; returns when it is gone."""
        self._is_retired = True
        if self._stopping is not None:
            await self._stopping
        # To the process this is a request to stop as well.
        self._connection.close()
        if not await _within(grace, self._exit):
            await self._terminate(grace)
        await self._connection.lost

    async def _set_up(self) -> None:
        log_level = logging.getLogger().getEffectiveLevel()
        setup = Setup(os.getpid(), self._limits.memory_mib, log_level, packed_settings())
        answer = self._connection.ask(Frame(Kind.SETUP, pickles.dumps(setup)))
        if not await _within(_LONGEST_START, answer):
            await self._terminate(self._limits.grace)
        await self._outcome(answer.result() if answer.done() else None)

    async def _outcome(self, answer: Frame | None) -> object:
        match answer:
            case None:
                raise await self._cause_of_death()
            case Frame(Kind.FAILED, body):
                raise pickles.load_failure(body)
            case Frame(Kind.OUT_OF_MEMORY):
                self._ran_out_of_memory = True
                raise self._memory_error()
            case Frame(_, body):
                return pickles.load_result(body) if body else None

    async def _cause_of_death(self) -> Exception:
        if not await _within(self._limits.grace, self._exit):
            await self._terminate(self._limits.grace)
        if self._is_retired:
            return PoolStopped()
        if self._ran_out_of_memory:
            return self._memory_error()
        return HandlerCrashed(self._exit.result() if self._exit.done() else -signal.SIGKILL)

    def _memory_error(self) -> EngineError | MemoryError:
        limit = self._limits.memory_mib
        return MemoryError() if limit is None else MemoryLimitExceeded(limit)

    async def _stop_call(self, answer: Answer, grace: float) -> None:
        # A task of its own: the caller may be cancelled once more, and the process must end all the same.
        self._stopping = asyncio.create_task(self._go_through_stages(answer, grace))
        await asyncio.shield(self._stopping)

    async def _go_through_stages(self, answer: Answer, grace: float) -> None:
        self._connection.send(Frame(Kind.STOP))
        if not await _within(grace, answer):
            await self._terminate(grace)

    async def _terminate(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
        if not await _within(grace, self._exit):
            self._signal(signal.SIGKILL)
            await _within(_LONGEST_DEATH, self._exit)

    def _signal(self, signum: signal.Signals) -> None:
        """Signal the process together with those it started, such as an office suite that converts a document."""
        self._was_signalled = True
        _signal_group(self._process.pid, signum)

    async def _wait_for_exit(self) -> int:
        code = await self._process.wait()
        # What it left running dies with it, and if forked, lets go of the connection.
        _signal_group(self._process.pid, signal.SIGKILL)
        return code

    @contextlib.contextmanager
    def _memory_watched(self) -> Generator[None]:
        limit = self._limits.memory_mib
        if limit is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal timer
            # The next look is arranged first, so that an error in this one does not end the looking.
            timer = loop.call_later(_BETWEEN_LOOKS_AT_MEMORY, look)
            if self._resident_mib() > limit:
                timer.cancel()
                self._ran_out_of_memory = True
                self._signal(signal.SIGKILL)

        timer = loop.call_later(_BETWEEN_LOOKS_AT_MEMORY, look)
        try:
            yield
        finally:
            timer.cancel()

    def _resident_mib(self) -> float:
        return _resident_bytes(self._process.pid) / 2**20


async def _execute(descriptor: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _BOOTSTRAP,
        str(descriptor),
        *sys.path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STDERR,
        pass_fds=(descriptor,),
        # Out of reach of a Ctrl-C in the terminal; and the process and what it starts can be killed together.
        start_new_session=True,
    )


def _signal_group(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


async def _within(seconds: float | None, future: asyncio.Future[Any]) -> bool:
    done, _ = await asyncio.wait({future}, timeout=seconds)
    return bool(done)


def _resident_bytes(pid: int) -> int:
    """What the process holds in memory; 0 where the system does not tell."""
    try:
        # Not read through a Path: this is asked after every call, and each system call gives up the interpreter's lock.
        file = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        try:
            return int(os.read(file, 256).split()[1]) * mmap.PAGESIZE
        finally:
            os.close(file)
    except (OSError, IndexError):
        return 0
