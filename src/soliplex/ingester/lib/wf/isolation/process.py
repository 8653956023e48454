"""A pool of warm processes that handlers run in. Each can be killed, and has a limit on its memory.

A host of our own, and not one of the usual process pools: those cannot kill one call and spare the others
(concurrent.futures), or else they manage their processes from threads, import the main module anew and offer no say in
how a call is stopped (pebble). Here a process is a plain subprocess with one socket, which asyncio handles without
threads, and which inherits nothing else of the worker: no open file, no lock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from soliplex.ingester.lib.wf.errors import PoolStopped
from soliplex.ingester.lib.wf.isolation.host import HandlerProcess, Limits

_log = logging.getLogger(__name__)


class ProcessPool:
    """Runs handlers in processes: at most `processes` calls at once, the others wait in the order they came.

    Processes are started when they are first needed, or all of them by `start()`. One that crashed, was killed, holds
    more than half of its memory limit or has served `tasks_per_process` calls is replaced at once. What calls leave
    behind shows in the memory, so calls need not be few: to import docling anew takes as long as a thousand small
    documents. The stages of stopping a call, in `host.py`, are `grace` seconds apart after a timeout, `cancel_grace`
    after a cancellation.
    """

    def __init__(
        self,
        *,
        processes: int = 2,
        memory_limit_mib: int | None = 4096,
        grace: float = 2.0,
        cancel_grace: float = 0.3,
        tasks_per_process: int = 10_000,
    ) -> None:
        self._limits = Limits(
            memory_mib=memory_limit_mib, calls=tasks_per_process, grace=grace, cancel_grace=cancel_grace
        )
        self._processes = processes
        # Whoever holds a slot may have one process. A semaphore, since it is first come, first served.
        self._slots = asyncio.Semaphore(processes)
        self._all: set[HandlerProcess] = set()
        # The last one used comes first: its modules are imported and its models loaded.
        self._idle: list[HandlerProcess] = []
        self._background: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all processes now, so that the first calls find them ready."""
        self._is_stopped = False
        are_all_ready = asyncio.Barrier(self._processes)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._processes):
                group.create_task(self._warm_one(are_all_ready))

    async def run(
        self,
        method: str,
        arguments: Mapping[str, object],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  counts from when a process is free, not from here
    ) -> object:
        """Call the function `package.module.function`, plain or async, in a process of the pool.

        Returns what it returned, or raises what it raised; StepTimeout, HandlerCrashed or MemoryLimitExceeded if it was
        the process that ended. A cancelled call ends when the process has answered or is gone.
        """
        process = await self._acquire()
        try:
            return await process.call(method, arguments, timeout=timeout)
        finally:
            self._release(process)

    async def stop(self) -> None:
        """End all processes, with what they are doing: those calls, and the waiting ones, raise PoolStopped."""
        self._is_stopped = True
        self._idle.clear()
        async with asyncio.TaskGroup() as group:
            for process in list(self._all):
                group.create_task(self._end(process))
        # A slot is given back when all about its process is settled.
        for _ in range(self._processes):
            await self._slots.acquire()
        for _ in range(self._processes):
            self._slots.release()
        # A call that was cancelled twice did not wait for the process that was being started for it.
        if self._background:
            await asyncio.wait(self._background)

    async def _warm_one(self, are_all_ready: asyncio.Barrier) -> None:
        process = await self._acquire()
        try:
            await are_all_ready.wait()  # so that each call takes another process
        finally:
            self._release(process)

    async def _acquire(self) -> HandlerProcess:
        await self._slots.acquire()
        try:
            return await self._idle_process() or await self._new_process()
        except BaseException:
            self._slots.release()
            raise

    def _release(self, process: HandlerProcess) -> None:
        if process.is_alive and not process.is_spent and not self._is_stopped:
            self._idle.append(process)
            self._slots.release()
        else:
            self._in_background(self._replace(process))

    async def _idle_process(self) -> HandlerProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            await self._end(process)  # the process died while it was idle
        return None

    async def _new_process(self) -> HandlerProcess:
        if self._is_stopped:
            raise PoolStopped
        starting = asyncio.create_task(HandlerProcess.start(self._limits))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.shield(self._in_background(self._give_up(starting)))
            raise
        self._all.add(process)
        if self._is_stopped:
            await self._end(process)
            raise PoolStopped
        return process

    async def _replace(self, process: HandlerProcess) -> None:
        """End a process and start another. The slot stays taken so long: there are never more processes than slots."""
        try:
            await self._end(process)
            self._idle.append(await self._new_process())
        except PoolStopped:
            pass  # there is nothing to put in its place
        except Exception:  # noqa: BLE001  nobody waits for this task: the log is where it can be told
            _log.exception("no new process could be started for isolated steps; the next call will try again")
        finally:
            self._slots.release()

    async def _give_up(self, starting: asyncio.Task[HandlerProcess]) -> None:
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await self._end(starting.result())

    async def _end(self, process: HandlerProcess) -> None:
        await process.retire(self._limits.cancel_grace if self._is_stopped else self._limits.grace)
        self._all.discard(process)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
