"""Flows: graphs of functions, classes with callbacks, and flows that are made at run time, with a real worker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester import (
    ConflictError,
    Executor,
    Flow,
    FlowBuilder,
    InvalidInputError,
    NotFoundError,
    PermanentError,
    RunFailed,
    Subflow,
    Worker,
    WorkerConfig,
    Workflow,
    WorkflowDefinition,
    list_schedules,
    schedule,
    unschedule,
)
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.flows import functions
from tests.support import flow_functions
from tests.support.engine import assert_consistent, registry_in_use, rows_of
from tests.support.flow_functions import Greeting, lengths, outer, told, waiting
from tests.support.working import until, working

TEXT = {"text": "to be or not"}


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    told.clear()
    with registry_in_use():
        yield


async def test_a_flow_of_functions_gives_what_its_last_steps_give(database: None) -> None:
    run_id = await lengths.start(TEXT)
    async with working():
        run = await Executor.wait(run_id, timeout=300)
    assert (run.status, run.output, run.error) == ("completed", {"total": 9}, None)
    assert [(step.name, step.status, step.output) for step in run.steps] == [
        ("words", "completed", ["to", "be", "or", "not"]),
        ("length", "completed", [2, 2, 2, 3]),
        ("total", "completed", 9),
    ]
    assert await rows_of("SELECT DISTINCT step_type FROM runstep") == [("flow",)]
    await assert_consistent()


async def test_the_same_key_again_is_the_same_run(database: None) -> None:
    first = await lengths.start(TEXT, key="k1")
    assert await lengths.start({"text": "other"}, key="k1") == first
    assert await lengths.start(TEXT, key="k2") != first


async def test_a_step_whose_condition_does_not_hold_is_skipped(database: None) -> None:
    run_id = await lengths.start({"text": ""})
    assert await Executor.execute_pending_tasks() == 3
    run = await Executor.status(run_id)
    assert (run.status, run.output) == ("completed", {"total": None})
    assert [step.skipped for step in run.steps] == [False, False, True]


async def test_a_flow_can_be_called_in_memory() -> None:
    assert await lengths.call(TEXT) == {"total": 9}
    assert await lengths.call({"text": ""}) == {"total": None}
    assert await waiting.call(signals={"approve": "Ada"}) == {"approved": {"pages": 3, "by": "Ada"}}
    with pytest.raises(Exception, match="step 'words' asks for text"):
        await lengths.call({})


async def test_a_flow_that_is_called_in_memory_gives_what_a_run_would(database: None) -> None:
    """Outputs come back from JSON, each function gets its own, and an item that fails is told of in the same words."""
    flow = Flow("alike", max_attempts=1)

    @flow.step
    def pair() -> Any:
        return (1, {2: "two"})

    @flow.step
    def changed(pair: list[Any]) -> int:
        pair.append(3)
        return len(pair)

    @flow.map_step(over="numbers", tolerant=True)
    def inverse(item: int) -> float:
        return 1 / item

    @flow.step
    async def all_of_it(pair: Any, changed: int, inverse: list[Any]) -> Any:
        return [pair, changed, inverse]

    run_id = await flow.start({"numbers": (1, 0)})
    await Executor.execute_pending_tasks()
    expected = {"all_of_it": [[1, {"2": "two"}], 3, [1.0, {"error": "ZeroDivisionError: division by zero"}]]}
    assert (await Executor.status(run_id)).output == expected
    assert await flow.call({"numbers": (1, 0)}) == expected
    flow.step(name="odd")(lambda: {1, 2})
    with pytest.raises(PermanentError, match="the handler's result cannot be stored as JSON"):
        await flow.call({"numbers": []})


async def test_a_function_may_be_whatever_can_be_called(database: None) -> None:
    class Doubles:
        async def __call__(self, number: int) -> int:
            return number * 2

    flow = Flow("callables")
    flow.step(name="by_object")(Doubles())

    @flow.step
    def by_another(by_object: int) -> Any:
        return Doubles()(by_object)

    run_id = await flow.start({"number": 4})
    await Executor.execute_pending_tasks()
    assert (await Executor.status(run_id)).output == await flow.call({"number": 4}) == {"by_another": 16}
    for name, problem in (("", "name: is missing"), ("item", "name: is 'item', and answer, context, inp")):
        with pytest.raises(InvalidInputError, match=problem):
            flow.step(name=name)(lambda: 1)
    await FlowBuilder.create_flow("built")
    with pytest.raises(InvalidInputError, match="step: is 'state', and answer, context"):
        await FlowBuilder.add_step("built", "state")


async def test_a_function_says_how_far_it_has_come_and_a_step_of_that_name_comes_first(database: None) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    flow, named = Flow("slow"), Flow("named")

    @flow.step
    async def convert(progress: Any) -> None:
        progress(0.5, "half")
        begun.set()
        await go_on.wait()

    @flow.map_step(over="pages")
    def page(item: int, progress: Any) -> int:
        progress(1.0)
        return item

    @named.step(name="progress")
    def first() -> int:
        return 3

    @named.step
    def last(progress: int) -> int:
        return progress + 1

    go_on.set()
    assert await flow.call({"pages": [1, 2]}) == {"convert": None, "page": [1, 2]}
    begun.clear()
    go_on.clear()
    async with working():
        run_id = await flow.start({"pages": [1, 2]})
        async with asyncio.timeout(120):
            await begun.wait()
        told = "SELECT progress FROM runstep WHERE workflow_step_name = 'convert' AND progress IS NOT NULL"
        await until(lambda: rows_of(told))
        ((progress,),) = await rows_of(told)
        assert "half" in str(progress)
        go_on.set()
        assert (await Executor.wait(run_id, timeout=120)).output == {"convert": None, "page": [1, 2]}
        assert (await Executor.wait(await named.start(), timeout=120)).output == {"last": 4}


async def test_functions_that_only_this_process_has_are_found_by_the_slug_of_their_flow(database: None) -> None:
    """By a subflow, by a schedule, by whoever starts the flow by its slug: such runs carry no token."""
    inside, outside = Flow("inside"), Flow("outside")

    @inside.step
    def half(number: int) -> float:
        return number / 2

    @outside.step
    def asked(number: int, answer: Any) -> Any:
        return Subflow("inside", {"number": number}) if answer is None else answer["half"]

    await inside.start({"number": 2})
    run_ids = [await Executor.start_workflow("inside", {"number": 4}), await outside.start({"number": 8})]
    await Executor.execute_pending_tasks()
    assert [(await Executor.status(run_id)).output for run_id in run_ids] == [{"half": 2.0}, {"asked": 4.0}]


async def test_functions_that_only_this_process_has_are_executed_by_it_alone(database: None) -> None:
    flow, seen = Flow("closures"), list[int]()

    @flow.map_step(over="numbers")
    async def collect(item: int, context: dict[str, Any]) -> int:
        seen.append(context["item_index"])
        return item + 1

    @flow.step
    def largest(collect: list[int]) -> int:
        return max(collect)

    run_id = await flow.start({"numbers": [4, 9, 2]})
    assert await Executor.execute_pending_tasks() == 5
    assert (await Executor.status(run_id)).output == {"largest": 10}
    assert sorted(seen) == [0, 1, 2]
    types = {kind for (kind,) in await rows_of("SELECT DISTINCT step_type FROM runstep")}
    assert all(kind.startswith("@process:") for kind in types)


async def test_a_class_executes_the_commands_of_its_steps_and_is_told_of_the_end(database: None) -> None:
    good = await Executor.start_workflow(Greeting, {"name": "Ada"})
    bad = await Executor.start_workflow(Greeting, {"name": ""})
    await Executor.execute_pending_tasks()
    run = await Executor.status(good)
    assert (run.workflow_slug, run.output) == ("greeting", {"shout": "1: HELLO ADA"})
    failed = await Executor.status(bad)
    assert (failed.status, failed.error) == ("failed", "step 'greet' failed: ValueError: nobody to greet")
    assert failed.failed_at is not None
    assert sorted(each[:3] for each in told) == [
        ("completed", good, {"shout": "1: HELLO ADA"}),
        ("failed", bad, "step 'greet' failed: ValueError: nobody to greet"),
    ]
    assert len({each[3] for each in told}) == 2


async def test_a_class_that_only_this_process_has_works_too(database: None) -> None:
    class Local(Workflow):
        def definition(self) -> dict[str, Any]:
            return {"title": "Local", "steps": [{"name": "only", "type": "task", "command": "go"}]}

        def execute_command(self, run_id: int, command: str, input: dict[str, Any], context: dict[str, Any]) -> Any:  # noqa: A002
            return command

    run_id = await Executor.start_workflow(Local)
    await Executor.execute_pending_tasks()
    assert (await Executor.status(run_id)).output == {"only": "go"}


async def test_the_end_of_a_run_waits_for_the_process_that_can_tell_it(database: None) -> None:
    """A process without the class may take the event: it gives the event back, and no attempt is counted."""
    told_here, elsewhere = asyncio.Future[Any](), dict[str, Any]()

    class Local(Workflow):
        def definition(self) -> dict[str, Any]:
            return {"title": "Local end", "steps": [{"name": "only", "type": "task", "command": "go"}]}

        def execute_command(self, run_id: int, command: str, input: dict[str, Any], context: dict[str, Any]) -> Any:  # noqa: A002
            elsewhere.update(functions._kept)  # pyright: ignore[reportPrivateUsage]  as in a process that has no class
            functions._kept.clear()  # pyright: ignore[reportPrivateUsage]
            return command

        async def on_complete(self, run_id: int, output: dict[str, Any], context: dict[str, Any]) -> None:
            told_here.set_result(output)

    await Executor.start_workflow(Local)
    asked = "SELECT status_message, retry FROM lifecyclehistory WHERE event = 'item_end'"
    async with working(step_patience=3600):
        await until(lambda: _tells(asked))
        assert await rows_of(asked) == [(await _tells(asked), 0)]
        functions._kept.update(elsewhere)  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(300):
            assert await told_here == {"only": "go"}
    assert await rows_of(asked) == [(None, 0)]


async def _tells(asked: str) -> str | None:
    rows = await rows_of(asked)
    return rows[0][0] if rows and "waits for a worker that can handle it" in (rows[0][0] or "") else None


async def test_a_definition_names_its_functions_by_their_paths(database: None) -> None:
    definition = WorkflowDefinition.parse(
        {"title": "Plain", "steps": [{"name": "a", "type": "task", "command": "tests.support.handlers.gives_much"}]}
    )
    run_id = await Executor.start_workflow(definition)
    await Executor.execute_pending_tasks()
    assert len((await Executor.status(run_id)).output["a"]["text"]) == 100_000


async def test_a_step_may_ask_to_be_called_again_wait_for_a_signal_and_run_another_flow(database: None) -> None:
    waits = await waiting.start()
    async with working():
        await Executor.signal("approve", "Ada")
        run = await Executor.wait(waits, timeout=300)
        assert run.output == {"approved": {"pages": 3, "by": "Ada"}}
        assert await lengths.save() == "lengths"
        asks = await Executor.wait(await outer.start(TEXT), timeout=300)
    assert asks.output == {"inner": 9}


async def test_a_run_that_is_not_over_in_time_is_told_and_can_be_cancelled_and_retried(database: None) -> None:
    run_id = await lengths.start(TEXT)
    with pytest.raises(TimeoutError, match=rf"run {run_id} is not over after 0.01 s"):
        await Executor.wait(run_id, timeout=0.01)
    assert (await Executor.cancel(run_id)).status == "cancelled"
    assert (await Executor.retry(run_id)).status == "started"
    await Executor.execute_pending_tasks()
    assert (await Executor.status(run_id)).output == {"total": 9}


async def test_a_flow_that_is_made_at_run_time_is_kept_and_run_with_functions_or_without(database: None) -> None:
    await FlowBuilder.create_flow("made", max_attempts=1, timeout=5)
    await FlowBuilder.add_step("made", "double", command="tests.support.flow_functions.doubled")
    await FlowBuilder.add_step("made", "list", ["double"])
    built = await FlowBuilder.add_step("made", "half", ["list"], step_type="map", initial_tasks=2)
    assert [(step.name, step.step_type, step.depends_on) for step in built.steps] == [
        ("double", "single", []),
        ("list", "single", ["double"]),
        ("half", "map", ["list"]),
    ]
    functions = {"list": lambda double: [double, double + 1], "half": flow_functions.halved}
    assert await Executor.execute_dynamic("made", {"number": 4}, functions) == {"half": [4.0, 4.5]}
    assert [flow.slug for flow in await FlowBuilder.list_flows()] == ["made"]
    with pytest.raises(RunFailed, match="is to have 2 items, and the output of step 'list' has 3"):
        await Executor.execute_dynamic("made", {"number": 4}, functions | {"list": lambda double: [double] * 3})
    await FlowBuilder.delete_flow("made")
    assert await FlowBuilder.list_flows() == []
    with pytest.raises(NotFoundError):
        await FlowBuilder.get_flow("made")


async def test_what_is_wrong_with_a_flow_is_refused_by_name(database: None) -> None:
    with pytest.raises(InvalidInputError, match="slug: is '1st'"):
        await FlowBuilder.create_flow("1st")
    await FlowBuilder.create_flow("made")
    with pytest.raises(ConflictError, match="'made' already"):
        await FlowBuilder.create_flow("made")
    with pytest.raises(DefinitionError, match="nobody"):
        await FlowBuilder.add_step("made", "a", ["nobody"])
    with pytest.raises(InvalidInputError, match="step_type"):
        await FlowBuilder.add_step("made", "a", step_type="many")  # pyright: ignore[reportArgumentType]  refused
    with pytest.raises(InvalidInputError, match="command"):
        await FlowBuilder.add_step("made", "a", command="rm -rf /")
    await FlowBuilder.add_step("made", "a")
    with pytest.raises(InvalidInputError, match=r"depends_on: is 'a'; give a list of steps, such as \['a'\]"):
        await FlowBuilder.add_step("made", "b", "a")
    with pytest.raises(InvalidInputError, match="depends_on: is 'words'; give a list"):
        Flow("other").step(depends_on="words")(flow_functions.doubled)
    with pytest.raises(InvalidInputError, match="step_functions: has no function for a"):
        await Executor.execute_dynamic("made")
    with pytest.raises(InvalidInputError, match=r"step_functions\['a'\]: is 5; give a function"):
        await Executor.execute_dynamic("made", {}, {"a": 5})  # pyright: ignore[reportArgumentType]  refused
    with pytest.raises(InvalidInputError, match="max_attempts: is '3'; give a whole number of at least 1"):
        await FlowBuilder.add_step("made", "b", max_attempts="3")  # pyright: ignore[reportArgumentType]  refused
    with pytest.raises(InvalidInputError, match="priority: is 'high'"):
        await lengths.start(TEXT, priority="high")  # pyright: ignore[reportArgumentType]  refused
    with pytest.raises(NotFoundError, match="workflow 'mede' does not exist; did you mean 'made'"):
        await Executor.start_workflow("mede")
    with pytest.raises(NotFoundError, match="'b'"):
        await Executor.execute_dynamic("made", {}, {"a": print, "b": print})


def test_a_cycle_names_its_path() -> None:
    flow = Flow("circle")

    @flow.step
    def a(c: int) -> int:
        return c

    @flow.step
    def b(a: int) -> int:
        return a

    @flow.step
    def c(b: int) -> int:
        return b

    with pytest.raises(DefinitionError, match="in a circle: a -> c -> b -> a"):
        flow.definition()


def test_an_option_that_is_not_there_is_refused() -> None:
    flow = Flow("options")
    with pytest.raises(InvalidInputError, match="retries: is no option of a step; give one of"):
        flow.step(retries=3)(lambda: None)  # pyright: ignore[reportCallIssue]  refused

    @flow.step
    def many(*numbers: int) -> int:
        return sum(numbers)

    with pytest.raises(InvalidInputError, match="takes any number of numbers; name each parameter like a step"):
        flow.definition()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_attempts": 0}, "max_attempts: is 0; give a whole number of at least 1"),
        ({"max_attempts": "3"}, "max_attempts: is '3'"),
        (
            {"max_attempts": 2**31},
            "max_attempts: is 2147483648; give a whole number of at least 1, and at most 2147483647",
        ),
        ({"depends_on": [print]}, "depends_on: holds <built-in function print>; give the names of steps"),
        ({"when": 5}, "only.when: is 5; give a condition as a text"),
        ({"repeat": 3}, "only.repeat: give `until`, `max`"),
        ({"repeat": {"until": "true", "max": "3"}}, "only.repeat.max: is '3'; give a whole number of at least 1"),
    ],
)
def test_an_option_of_another_type_is_refused(options: dict[str, Any], problem: str) -> None:
    def define() -> WorkflowDefinition:
        flow = Flow("options")
        flow.step(name="only", **options)(lambda: None)
        return flow.definition()

    with pytest.raises(InvalidInputError, match=re.escape(problem)):
        define()


def test_what_functions_are_told_of_their_call_is_no_name_of_a_step() -> None:
    with pytest.raises(InvalidInputError, match="name: is 'state', and answer, context, input, item, state are"):
        Flow("own").step(name="state")(lambda: None)
    with pytest.raises(
        DefinitionError, match=r"steps\[0\].name: is 'item', and answer, context, input, item, state are"
    ):
        WorkflowDefinition.parse({"title": "own", "steps": [{"name": "item", "command": "m.f"}]})


async def test_many_who_execute_what_is_ready_execute_everything_once(database: None) -> None:
    run_ids = [await lengths.start(TEXT) for _ in range(5)]
    counts = await asyncio.gather(*(Executor.execute_pending_tasks() for _ in range(2)))
    assert sum(counts) == 5 * 7
    assert [(await Executor.status(run_id)).status for run_id in run_ids] == ["completed"] * 5


async def test_a_run_whose_deadline_came_while_nobody_was_there_is_not_begun(database: None) -> None:
    flow, called = Flow("late"), list[int]()
    flow.step(name="only")(lambda: called.append(1))
    run_id = await flow.start(deadline=utcnow() + timedelta(hours=1))
    later = Worker(WorkerConfig(consumers={"*": 5}), clock=lambda: utcnow() + timedelta(hours=2))
    await later.start()
    run = await Executor.wait(run_id, 60)
    await later.stop()
    assert (run.status, run.error, called) == ("failed", "the deadline of the run has passed", [])


async def test_a_flow_is_scheduled_and_unscheduled(database: None) -> None:
    added = await schedule(lengths, "0 6 * * 1-5", TEXT, time_zone="Europe/Paris")
    assert (added.name, added.workflow_id, added.input) == ("lengths", "lengths", TEXT)
    assert [each.name for each in await list_schedules()] == ["lengths"]
    await unschedule("lengths")
    assert await list_schedules() == []
    await schedule(await Executor.save(Greeting), "0 6 * * *")
    assert [each.workflow_id for each in await list_schedules()] == ["greeting"]
    await unschedule("greeting")
