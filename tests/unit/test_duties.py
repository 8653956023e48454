"""What becomes of a loop whose rounds raise, and that no loop of the engine is run in any other way."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Final

import pytest

from soliplex.ingester.lib.wf import duties as module
from soliplex.ingester.lib.wf.duties import ENOUGH, Duties, Duty

ENGINE: Final = Path(module.__file__).parent
MAKES_TASKS: Final = frozenset(
    {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe", "Thread", "Timer", "call_later"}
)
MAY_MAKE_TASKS: Final = {
    "duties.py:Duties.start": "the one place where loops begin",
    "lifecycle.py:LifecycleBus._start": "one delivery, which ends by itself; its error is told by a callback",
    "deadlines.py:Deadlines.within": "a timer that sets itself again before it does anything else",
    "deadlines.py:Deadlines._look": "a timer that sets itself again before it does anything else",
    "feed.py:ChangeFeed.following": "ends with its last follower; its error ends all streams, and is told of",
    "feed.py:_to_the_end": "one question to the database; awaited where it stands, or ended by itself",
    "registry.py:Registry._refresh_when_due": "reads changed files once, and tells of its own error",
    "isolation/process.py:ProcessPool.start": "the group is awaited where it stands",
    "isolation/process.py:ProcessPool.stop": "the group is awaited where it stands",
    "isolation/process.py:ProcessPool._new_process": "starts one process; awaited where it stands, or given up",
    "isolation/process.py:ProcessPool._in_background": "replaces one process, and tells of its own error",
    "isolation/host.py:HandlerProcess.__init__": "waits for the end of one process",
    "isolation/host.py:HandlerProcess._stop_call": "the stages of stopping one call, which end by themselves",
    "isolation/host.py:HandlerProcess._memory_watched": "a timer that sets itself again before it does anything else",
    "isolation/host.py:HandlerProcess._memory_watched.look": "a timer that sets itself again, as above",
}


class Mortal(BaseException):
    """Nothing that a guard against errors catches."""


class Rounds:
    """A duty whose first rounds raise; it is over after a last one that does not."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = list(errors)
        self.is_over = False
        self.ends = 0

    async def round(self) -> None:
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors.pop(0)
        self.is_over = True

    async def end(self) -> None:
        self.ends += 1

    def duty(self) -> Duty:
        return Duty(name="rounds", round=self.round, is_over=lambda: self.is_over, at_end=self.end)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)


async def test_errors_of_any_kind_are_told_and_followed_by_the_next_round(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(ValueError("one"), OSError("two"), RecursionError("three"))
    duties = Duties("me")
    await duties.start(rounds.duty())
    assert (duties.lost, duties.troubles, rounds.ends) == ({}, [], 1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR"]
    assert all("rounds" in record.getMessage() for record in caplog.records)


async def test_a_duty_that_ends_all_the_same_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    rounds, heard = Rounds(Mortal("gone")), asyncio.Event()
    duties = Duties("me")
    duties.on_lost = heard.set
    await asyncio.wait([duties.start(rounds.duty())])
    await heard.wait()
    assert duties.troubles == ["the duty 'rounds' has ended: Mortal('gone')"]
    assert rounds.ends == 1
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


async def test_a_duty_that_only_fails_is_in_trouble_until_a_round_goes_well() -> None:
    duties, allowed = Duties("me"), asyncio.Event()
    failures, is_over = 0, False

    async def fail() -> None:
        nonlocal failures, is_over
        failures += 1
        if failures <= ENOUGH:
            raise ValueError("again")
        await allowed.wait()
        is_over = True

    task = duties.start(Duty(name="failing", round=fail, is_over=lambda: is_over))
    while failures <= ENOUGH:  # noqa: ASYNC110  a few rounds of the loop, and what is waited for is a number
        await asyncio.sleep(0)
    assert duties.troubles == ["the duty 'failing' fails again and again: ValueError('again')"]
    allowed.set()
    await task
    assert duties.troubles == []


async def test_who_cancels_the_task_that_calls_it_does_not_end_the_duty() -> None:
    rounds = 0

    async def cancel_caller() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await asyncio.sleep(0)

    duties = Duties("me")
    other = duties.start(Duty(name="other", round=asyncio.Event().wait))  # pyright: ignore[reportArgumentType]  a bool
    await duties.start(Duty(name="cancelling", round=cancel_caller, is_over=lambda: rounds > 2))
    assert duties.lost == {}
    await duties.end([other])
    assert duties.lost == {}


def test_a_loop_that_is_closed_is_not_kept_open() -> None:
    async def forget_about_them() -> Duties:
        duties = Duties("me")
        for name in ("one", "two"):
            duties.start(Duty(name=name, round=asyncio.Event().wait))  # pyright: ignore[reportArgumentType]  a bool
        await asyncio.sleep(0)
        return duties

    assert asyncio.run(forget_about_them()).tasks == frozenset()


class _Makers(ast.NodeVisitor):
    """Finds the functions that make tasks or threads."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._inside: list[str] = []

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _enter  # noqa: N815  as `ast` names them

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if name in MAKES_TASKS:
            self.found.add(".".join(self._inside))
        self.generic_visit(node)


def makers(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        visitor = _Makers()
        visitor.visit(ast.parse(path.read_text()))
        found |= {f"{path.relative_to(folder)}:{where}" for where in visitor.found}
    return found


def test_the_engine_makes_no_task_that_lives_on_but_as_a_duty() -> None:
    assert makers(ENGINE) == set(MAY_MAKE_TASKS), (
        "run a loop by `Duties.start`; tell of a task that ends by itself here"
    )
