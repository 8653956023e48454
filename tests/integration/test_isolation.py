"""Handlers in processes of their own: real processes, real signals."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvloop

from soliplex.ingester.lib.errors import ConfigurationError
from soliplex.ingester.lib.wf.errors import (
    HandlerCrashed,
    HandlerError,
    MemoryLimitExceeded,
    PermanentError,
    PoolStopped,
    StepTimeout,
)
from soliplex.ingester.lib.wf.isolation import ProcessPool, host

HANDLERS = "tests.support.handlers_for_isolation"
GRACE = 0.2
CANCEL_GRACE = 0.1
LIMIT_MIB = 384
# Far more than anything here should take, on a machine that is busy with other tests.
LONG = 120.0
SLACK = 2.0


def pool_of(
    processes: int,
    *,
    memory_limit_mib: int | None = LIMIT_MIB,
    grace: float = GRACE,
    cancel_grace: float = CANCEL_GRACE,
    tasks_per_process: int = 200,
) -> ProcessPool:
    return ProcessPool(
        processes=processes,
        memory_limit_mib=memory_limit_mib,
        grace=grace,
        cancel_grace=cancel_grace,
        tasks_per_process=tasks_per_process,
    )


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    async with pool_of(1) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_pool() -> AsyncIterator[ProcessPool]:
    """One process for all tests that leave it as they found it: most of a test's time is the start of a process."""
    async with pool_of(1) as pool:
        yield pool


on_shared_pool = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
async def pool_of_two() -> AsyncIterator[ProcessPool]:
    async with pool_of(2) as pool:
        yield pool


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """Where a handler says that it runs, and in which process."""
    return tmp_path / "started"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """What some handlers wait for."""
    return tmp_path / "release"


async def call(
    pool: ProcessPool,
    name: str,
    *,
    timeout: float | None = LONG,  # noqa: ASYNC109  the pool's
    **arguments: object,
) -> Any:
    return await pool.run(f"{HANDLERS}.{name}", arguments, timeout=timeout)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while not condition():  # noqa: ASYNC110  what other processes do sets no event here
            await asyncio.sleep(0.002)


async def begin(pool: ProcessPool, name: str, started: Path, **arguments: object) -> asyncio.Task[Any]:
    """Start a call and wait until its handler runs."""
    call = pool.run(f"{HANDLERS}.{name}", {"started": started, **arguments})
    task = asyncio.create_task(call)
    await until(lambda: started.exists() or task.done())
    return task


def pid_in(path: Path) -> int:
    return int(path.read_text())


def create(path: Path) -> None:
    path.touch()


@contextlib.contextmanager
def watched(pid: int) -> Generator[Callable[[], bool]]:
    """Give a function that waits until the process is gone, even if the number is taken by another."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield lambda: bool(poll.poll(LONG * 1000))
    finally:
        os.close(descriptor)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Calls


@on_shared_pool
@pytest.mark.parametrize("name", ["add", "add_async"])
async def test_a_handler_gets_its_arguments_and_its_result_comes_back(shared_pool: ProcessPool, name: str) -> None:
    assert await call(shared_pool, name, a=1, b=2) == 3


@on_shared_pool
async def test_a_handler_runs_in_another_process(shared_pool: ProcessPool) -> None:
    assert await call(shared_pool, "pid") != os.getpid()


@on_shared_pool
async def test_what_is_loaded_stays_loaded_between_calls(shared_pool: ProcessPool) -> None:
    first = await call(shared_pool, "count")

    assert [await call(shared_pool, "count") for _ in range(2)] == [first + 1, first + 2]


@on_shared_pool
async def test_async_handlers_share_one_loop(shared_pool: ProcessPool) -> None:
    assert await call(shared_pool, "loop_identity") == await call(shared_pool, "loop_identity")


@on_shared_pool
@pytest.mark.parametrize("name", ["set_variable", "set_variable_async"])
async def test_a_context_variable_is_not_seen_by_the_next_call(shared_pool: ProcessPool, name: str) -> None:
    assert [await call(shared_pool, name) for _ in range(2)] == ["unset", "unset"]


@on_shared_pool
async def test_large_values_go_both_ways(shared_pool: ProcessPool) -> None:
    value = os.urandom(5_000_000)

    assert await call(shared_pool, "echo", value=value) == value


async def test_many_calls_are_spread_over_the_processes_and_each_gets_its_own_result(pool_of_two: ProcessPool) -> None:
    results = await asyncio.gather(*(call(pool_of_two, "echo", value=n) for n in range(200)))
    pids = await asyncio.gather(*(call(pool_of_two, "pid") for _ in range(20)))

    assert results == list(range(200))
    assert len(set(pids)) == 2


@on_shared_pool
async def test_callers_are_served_in_the_order_they_came(shared_pool: ProcessPool, tmp_path: Path) -> None:
    path = tmp_path / "order"

    await asyncio.gather(*(call(shared_pool, "append", path=path, text=letter) for letter in "abcdefgh"))

    assert path.read_text() == "abcdefgh"


@on_shared_pool
async def test_waiting_for_a_process_does_not_count_as_time_of_the_call(shared_pool: ProcessPool) -> None:
    await call(shared_pool, "pid")
    first = asyncio.create_task(call(shared_pool, "take", seconds=0.6))
    second = asyncio.create_task(call(shared_pool, "pid", timeout=0.5))

    await asyncio.gather(first, second)


@on_shared_pool
async def test_a_caller_that_stops_waiting_is_forgotten(shared_pool: ProcessPool, started: Path, release: Path) -> None:
    first = await begin(shared_pool, "pid_when_released", started, release=release)
    second = asyncio.create_task(call(shared_pool, "pid"))
    third = asyncio.create_task(call(shared_pool, "pid"))
    await asyncio.sleep(0)

    second.cancel()
    create(release)

    assert await third == await first
    assert second.cancelled()


async def test_a_pool_that_is_started_has_all_its_processes(pool_of_two: ProcessPool) -> None:
    first = await call(pool_of_two, "pid")

    await pool_of_two.start()

    assert len(pool_of_two._idle) == 2
    assert first in [process.pid for process in pool_of_two._idle]


async def test_output_and_logs_of_a_handler_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    async with pool_of(1) as pool:
        await call(pool, "talk", text="hello")

    captured = capfd.readouterr()
    assert captured.out == ""
    assert "hello\n" in captured.err
    assert "WARNING handler: hello, logged" in captured.err


# Exceptions


@on_shared_pool
@pytest.mark.parametrize("name", ["raise_value_error", "raise_value_error_async"])
async def test_an_exception_comes_back_with_the_traceback_of_the_process(shared_pool: ProcessPool, name: str) -> None:
    with pytest.raises(ValueError, match="no such page") as caught:
        await call(shared_pool, name, message="no such page")

    assert f"in {name}" in str(caught.value.__cause__)


@on_shared_pool
async def test_an_exception_that_builds_its_own_message_comes_back_whole(shared_pool: ProcessPool) -> None:
    with pytest.raises(ConfigurationError, match=r"^COLOUR: is green; make it blue$") as caught:
        await call(shared_pool, "raise_configuration_error")

    assert caught.value.fix == "make it blue"


@on_shared_pool
async def test_an_exception_that_cannot_be_pickled_comes_back_as_text(shared_pool: ProcessPool) -> None:
    with pytest.raises(HandlerError, match=r"^Unpicklable: broken$") as caught:
        await call(shared_pool, "raise_unpicklable", message="broken")

    assert caught.value.type_name == "Unpicklable"
    assert "in raise_unpicklable" in caught.value.traceback


@on_shared_pool
async def test_a_permanent_error_stays_permanent_even_as_text(shared_pool: ProcessPool) -> None:
    with pytest.raises(PermanentError, match="broken"):
        await call(shared_pool, "raise_unpicklable_permanent", message="broken")


@on_shared_pool
async def test_a_handlers_own_timeout_error_is_not_the_steps_timeout(shared_pool: ProcessPool) -> None:
    with pytest.raises(TimeoutError, match="a server did not answer"):
        await call(shared_pool, "raise_timeout_error")


@on_shared_pool
async def test_a_cancellation_raised_in_the_process_does_not_cancel_the_worker(shared_pool: ProcessPool) -> None:
    with pytest.raises(HandlerError, match="CancelledError"):
        await call(shared_pool, "raise_cancelled")


@on_shared_pool
async def test_exceptions_inside_a_result_come_back_whole(shared_pool: ProcessPool) -> None:
    one, error = await call(shared_pool, "results_with_an_exception")

    assert one == 1
    assert isinstance(error, ConfigurationError)
    assert str(error) == "COLOUR: is green; make it blue"


@on_shared_pool
async def test_an_argument_that_cannot_be_pickled_is_named(shared_pool: ProcessPool) -> None:
    with pytest.raises(PermanentError, match=r"argument 'b' of handler '.*\.add' cannot be pickled"):
        await call(shared_pool, "add", a=1, b=threading.Lock())

    assert await call(shared_pool, "add", a=1, b=2) == 3


@on_shared_pool
async def test_a_result_that_cannot_be_pickled_is_said_to_be_so(shared_pool: ProcessPool) -> None:
    with pytest.raises(PermanentError, match=r"its result, a lock, cannot be pickled"):
        await call(shared_pool, "unpicklable_result")


@on_shared_pool
@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (f"{HANDLERS}.absent", "cannot be imported"),
        ("no.such.module.function", "cannot be imported"),
        ("nothing", "cannot be imported"),
        (f"{HANDLERS}.NOT_A_FUNCTION", "is not a function"),
    ],
)
async def test_a_handler_that_is_not_there_fails_for_good(shared_pool: ProcessPool, method: str, problem: str) -> None:
    with pytest.raises(PermanentError, match=problem):
        await shared_pool.run(method, {})


# Timeouts


@pytest.mark.parametrize("name", ["loop_in_python", "sleep_long", "ignore_sigterm", "loop_in_c", "swallow_everything"])
async def test_a_call_ends_in_time_whatever_the_handler_does(pool: ProcessPool, name: str, started: Path) -> None:
    pid = await call(pool, "pid")
    began = time.monotonic()

    with pytest.raises(StepTimeout) as caught:
        await call(pool, name, timeout=0.3, started=started)

    assert time.monotonic() - began < 0.3 + 2 * GRACE + SLACK
    assert caught.value.seconds == 0.3
    assert not exists(pid)
    assert await call(pool, "add", a=1, b=2) == 3


async def test_a_handler_that_looks_whether_to_stop_keeps_its_process(started: Path) -> None:
    async with pool_of(1, grace=LONG) as pool:
        pid = await call(pool, "pid")

        with pytest.raises(StepTimeout):
            await call(pool, "loop_until_stop", timeout=0.1, started=started)

        assert await call(pool, "pid") == pid
        # The request was for that call alone: this one would end at once.
        with pytest.raises(StepTimeout):
            await call(pool, "loop_until_stop", timeout=0.1, started=started)


async def test_an_async_handler_is_cancelled_and_keeps_its_process(started: Path, tmp_path: Path) -> None:
    async with pool_of(1, cancel_grace=LONG) as pool:
        task = await begin(pool, "sleep_async", started, finished=tmp_path / "finished")

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await call(pool, "pid") == pid_in(tmp_path / "finished")


async def test_a_plain_handler_may_clean_up_when_it_is_terminated(started: Path, tmp_path: Path) -> None:
    async with pool_of(1, cancel_grace=0.7) as pool:
        task = await begin(pool, "sleep_with_finally", started, finished=tmp_path / "finished")

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (tmp_path / "finished").exists()


async def test_what_a_handler_started_ends_with_it(pool: ProcessPool, started: Path) -> None:
    task = await begin(pool, "start_another_process", started)

    with watched(pid_in(started.with_suffix(".other"))) as is_gone:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(is_gone)


# Cancellation


@pytest.mark.parametrize("name", ["sleep_long", "loop_in_c"])
async def test_a_cancelled_call_ends_with_its_process(pool: ProcessPool, name: str, started: Path) -> None:
    task = await begin(pool, name, started)
    began = time.monotonic()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - began < 2 * CANCEL_GRACE + SLACK
    assert not exists(pid_in(started))
    assert await call(pool, "add", a=1, b=2) == 3


async def test_a_call_that_is_cancelled_twice_returns_at_once_and_its_process_ends_all_the_same(started: Path) -> None:
    async with pool_of(1, cancel_grace=0.5) as pool:
        task = await begin(pool, "loop_in_c", started)
        pid = pid_in(started)
        with watched(pid) as is_gone:
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            assert exists(pid)
            assert await asyncio.to_thread(is_gone)
        assert await call(pool, "add", a=1, b=2) == 3


# Crashes


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("segfault", {}, "signal SIGSEGV (11)"),
        ("exit_with", {"code": 3}, "exit code 3"),
        ("raise_system_exit", {"code": 4}, "exit code 4"),
        ("signal_itself", {"signum": signal.SIGKILL}, "signal SIGKILL (9); perhaps the system ran out of memory"),
        ("fork_and_crash", {}, "exit code 3"),
    ],
)
async def test_a_crash_costs_one_call_and_no_other(
    pool_of_two: ProcessPool, started: Path, release: Path, name: str, arguments: dict[str, Any], message: str
) -> None:
    other = await begin(pool_of_two, "pid_when_released", started, release=release)

    with pytest.raises(HandlerCrashed) as caught:
        await call(pool_of_two, name, **arguments)
    create(release)

    assert str(caught.value) == f"the handler's process died: {message}"
    assert await other == pid_in(started)
    assert await asyncio.gather(*(call(pool_of_two, "add", a=n, b=n) for n in range(10))) == list(range(0, 20, 2))


async def test_a_crashed_process_is_replaced_before_the_next_call(pool: ProcessPool) -> None:
    with pytest.raises(HandlerCrashed):
        await call(pool, "exit_with", code=1)

    await until(lambda: len(pool._idle) == 1)


async def test_a_process_that_died_while_idle_is_replaced(pool: ProcessPool) -> None:
    pid = await call(pool, "pid")
    with watched(pid) as is_gone:
        os.kill(pid, signal.SIGKILL)
        assert await asyncio.to_thread(is_gone)
    await until(lambda: not exists(pid))

    assert await call(pool, "pid") != pid


@on_shared_pool
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_only_the_worker_decides_when_a_process_ends(shared_pool: ProcessPool, signum: int) -> None:
    assert await call(shared_pool, "signal_itself", signum=signum) == "still here"
    assert await call(shared_pool, "add", a=1, b=2) == 3


# Memory


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("allocate", 64 * 1024),
        ("allocate_and_keep", LIMIT_MIB + 128),  # only looking at what is resident finds out
        ("reserve", 8 * 1024),  # only the limit in the process itself does
    ],
)
async def test_a_handler_that_wants_too_much_memory_is_stopped(pool: ProcessPool, name: str, mib: int) -> None:
    before = await call(pool, "pid")

    with pytest.raises(MemoryLimitExceeded, match="STEP_MEMORY_LIMIT_MIB") as caught:
        await call(pool, name, mib=mib)

    assert caught.value.limit_mib == LIMIT_MIB
    assert await call(pool, "pid") != before


@on_shared_pool
async def test_a_handler_may_use_what_the_limit_allows(shared_pool: ProcessPool) -> None:
    assert await call(shared_pool, "allocate", mib=128) == 8


async def test_a_process_that_keeps_much_memory_is_replaced(pool: ProcessPool) -> None:
    before = await call(pool, "hoard", mib=LIMIT_MIB // 2 + 32)

    assert await call(pool, "pid") != before


async def test_without_a_limit_a_memory_error_is_the_handlers_own() -> None:
    async with pool_of(1, memory_limit_mib=None) as pool:
        with pytest.raises(MemoryError):
            await call(pool, "reserve", mib=2**40)


async def test_libraries_that_reserve_much_can_be_imported_under_the_default_limit() -> None:
    names = [name for name in ("onnxruntime", "lancedb") if importlib.util.find_spec(name)]
    async with ProcessPool(processes=1) as pool:
        assert await call(pool, "import_modules", timeout=None, names=names) == names


# Lifetime


async def test_a_process_is_replaced_after_so_many_calls() -> None:
    async with pool_of(1, tasks_per_process=2) as pool:
        pids = [await call(pool, "pid") for _ in range(5)]

    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_a_pool_that_stops_ends_running_and_waiting_calls(started: Path) -> None:
    pool = ProcessPool(processes=1, cancel_grace=CANCEL_GRACE)
    running = await begin(pool, "loop_in_c", started)
    waiting = asyncio.create_task(call(pool, "pid"))
    await asyncio.sleep(0)

    await pool.stop()

    assert not exists(pid_in(started))
    for task in (running, waiting):
        with pytest.raises(PoolStopped):
            await task


async def test_a_stopped_pool_takes_no_calls_until_it_is_started_again() -> None:
    async with pool_of(1) as pool:
        first = await call(pool, "pid")
        await pool.stop()
        assert not exists(first)
        with pytest.raises(PoolStopped):
            await call(pool, "pid")

        await pool.start()
        assert await call(pool, "add", a=1, b=2) == 3


async def test_stopping_while_a_process_starts_leaves_none_behind() -> None:
    pool = ProcessPool(processes=1)
    task = asyncio.create_task(call(pool, "pid"))
    await asyncio.sleep(0)

    await pool.stop()

    with pytest.raises(PoolStopped):
        await task
    assert not pool._all


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20])
async def test_a_pool_that_has_stopped_has_no_process_left_however_often_a_starting_one_was_cancelled(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = list[asyncio.subprocess.Process]()
    execute = host._execute

    async def noted(descriptor: int) -> asyncio.subprocess.Process:
        executed.append(await execute(descriptor))
        return executed[-1]

    monkeypatch.setattr(host, "_execute", noted)
    async with pool_of(1) as pool:
        task = asyncio.create_task(call(pool, "echo", value=1))
        await until(lambda: bool(executed))
        for _ in range(3):
            task.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert [each.returncode is None for each in executed] == [False]


async def test_a_call_that_is_cancelled_while_its_process_starts_gives_its_place_back(pool: ProcessPool) -> None:
    task = asyncio.create_task(call(pool, "pid"))
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await call(pool, "add", a=1, b=2) == 3


async def test_a_process_inherits_no_lock_of_the_worker(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    async with pool_of(1) as pool:
        await call(pool, "pid")
        os.close(lock)

        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)


def test_it_works_on_uvloop_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pool_of(1) as pool:
            assert await call(pool, "add", a=1, b=2) == 3
            with pytest.raises(StepTimeout):
                await call(pool, "sleep_long", timeout=0.2, started=tmp_path / "started")
            with pytest.raises(HandlerCrashed):
                await call(pool, "exit_with", code=3)
            assert await call(pool, "add_async", a=1, b=2) == 3

    uvloop.run(scenario())


SCRIPT = f"""
import asyncio, pathlib, sys
from soliplex.ingester.lib.wf.isolation import ProcessPool, host

print("the script runs", flush=True)

async def main():
    folder = pathlib.Path(sys.argv[1])
    async with ProcessPool(processes=3) as pool:
        await pool.start()
        print(*(process.pid for process in pool._all), flush=True)
        if sys.argv[2:] == ["and stays"]:
            await asyncio.gather(*(
                pool.run("{HANDLERS}." + name, {{"started": folder / name}}) for name in ("loop_in_c", "ignore_sigterm")
            ))

asyncio.run(main())
"""


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    """A program that uses a pool, without a guard around its main code."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return [sys.executable, str(path), str(tmp_path)]


@pytest.fixture
def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_a_script_without_a_guard_runs_once(script: list[str], environment: dict[str, str]) -> None:
    ended = subprocess.run(script, capture_output=True, text=True, check=True, env=environment, timeout=LONG)

    assert ended.stdout.count("the script runs") == 1
    assert ended.stderr == ""


async def test_no_process_outlives_a_killed_worker(
    script: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    busy = [tmp_path / "loop_in_c", tmp_path / "ignore_sigterm"]
    worker = await asyncio.create_subprocess_exec(*script, "and stays", stdout=subprocess.PIPE, env=environment)
    assert worker.stdout is not None
    await worker.stdout.readline()
    pids = [int(pid) for pid in (await worker.stdout.readline()).split()]
    assert len(pids) == 3
    with contextlib.ExitStack() as stack:
        gone = [stack.enter_context(watched(pid)) for pid in pids]
        await until(lambda: all(path.exists() for path in busy))

        worker.kill()
        await worker.wait()

        for is_gone in gone:
            assert await asyncio.to_thread(is_gone)
