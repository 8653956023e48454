"""Four ways to define a flow, validated, stored, shown and executed alike: JSON, classes, functions, and step by step.

JSON is read from a file of a folder, too.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from soliplex.ingester import Executor, Flow, FlowBuilder, IngesterError, Workflow, WorkflowDefinition
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.catalog import get_registry, use_registry
from soliplex.ingester.lib.wf.flows.classes import definition_of_class
from soliplex.ingester.lib.wf.operations.definitions import newest_with_drafts
from soliplex.ingester.lib.wf.registry import Registry
from tests.support import flow_functions


class Step(NamedTuple):
    """A step, however it is written."""

    name: str
    command: str
    after: tuple[str, ...] = ()
    is_map: bool = False
    attempts: int = 3


SLUG: Final = "lines"
HERE: Final = "tests.support.flow_functions."
GOOD: Final = (
    Step("words", "words"),
    Step("half", "length", ("words",), is_map=True, attempts=2),
    Step("sum", "summed", ("half", "words"), attempts=5),
)
BAD: Final = {
    "a circle": ((Step("a", "words", ("b",)), Step("b", "words", ("a",))), r"in a circle: a -> b -> a"),
    "a self-edge": ((Step("a", "words", ("a",)),), "step 'a' depends on itself"),
    "an unknown dependency": (
        (Step("a", "words"), Step("b", "words", ("aa",))),
        "step 'b' depends on 'aa', which is no step; did you mean 'a'",
    ),
    "a name given twice": ((Step("a", "words"), Step("a", "words")), "step (?:named )?'a'"),
    "a map over two": (
        (Step("a", "words"), Step("b", "words"), Step("c", "length", ("a", "b"), is_map=True)),
        "maps over the output of one step, but depends on a, b",
    ),
    "no attempt": ((Step("a", "words", attempts=0),), "at least 1"),
}


def as_json(steps: tuple[Step, ...]) -> dict[str, Any]:
    return {
        "id": SLUG,
        "version": "1.0",
        "title": "Lines",
        "steps": [
            {
                "name": step.name,
                "type": "map" if step.is_map else "task",
                "command": HERE + step.command,
                "dependencies": list(step.after),
                "max_attempts": step.attempts,
                "timeout": 30,
            }
            for step in steps
        ],
    }


class Made(NamedTuple):
    """A flow, and what is given to whoever starts it."""

    definition: WorkflowDefinition
    startable: Any


async def from_json(steps: tuple[Step, ...], folder: Path) -> Made:
    del folder
    flow = WorkflowDefinition.parse(as_json(steps))
    return Made(flow, flow)


async def from_a_folder(steps: tuple[Step, ...], folder: Path) -> Made:
    (folder / "lines.json").write_text(json.dumps(as_json(steps), indent="\t"))
    use_registry(Registry(folder, None))
    return Made(get_registry().workflow(SLUG), SLUG)


async def from_a_class(steps: tuple[Step, ...], folder: Path) -> Made:
    del folder

    class Lines(Workflow):
        def definition(self) -> dict[str, Any]:
            return as_json(steps)

        async def execute_command(self, run_id: int, command: str, input: Any, context: Any) -> Any:  # noqa: A002
            function = getattr(flow_functions, command.rpartition(".")[2])
            return await function(**{name: input[name] for name in function.__annotations__ if name in input})

    return Made(definition_of_class(Lines)[0], Lines)


async def from_functions(steps: tuple[Step, ...], folder: Path) -> Made:
    del folder
    flow = Flow(SLUG, title="Lines")
    for step in steps:
        function = getattr(flow_functions, step.command)
        given: dict[str, Any] = {"name": step.name, "depends_on": step.after, "max_attempts": step.attempts}
        (flow.map_step(**given) if step.is_map else flow.step(**given))(function)
    return Made(flow.definition(), flow)


async def from_the_builder(steps: tuple[Step, ...], folder: Path) -> Made:
    del folder
    await FlowBuilder.create_flow(SLUG)
    for step in steps:
        await FlowBuilder.add_step(
            SLUG,
            step.name,
            step.after,
            step_type="map" if step.is_map else "single",
            max_attempts=step.attempts,
            command=HERE + step.command,
        )
    return Made(await ops.find_workflow(SLUG), SLUG)


MAKERS = [from_json, from_a_folder, from_a_class, from_functions, from_the_builder]
type Maker = Callable[[tuple[Step, ...], Path], Awaitable[Made]]
made_in_every_way = pytest.mark.parametrize("made", MAKERS, ids=lambda maker: maker.__name__)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    use_registry(Registry(None, None))
    yield
    use_registry(None)


@made_in_every_way
async def test_a_flow_is_stored_shown_and_executed_alike_however_it_was_defined(
    database: type[Database], tmp_path: Path, made: Maker
) -> None:
    flow, startable = await made(GOOD, tmp_path)
    graph = views.graph_of_definition(flow)
    facts = [(node.key, node.is_map, node.retries, node.timeout_seconds) for node in graph.nodes]
    assert facts == [("words", False, 3, 30.0), ("half", True, 2, 30.0), ("sum", False, 5, 30.0)]
    assert {(each.source, each.target) for each in graph.edges} == {
        ("words", "half"),
        ("words", "sum"),
        ("half", "sum"),
    }
    assert [step.command.replace(":", ".") for step in flow.steps] == [HERE + step.command for step in GOOD]

    run_id = await Executor.start_workflow(startable, {"text": "to be or not"}, key="once")
    assert await Executor.start_workflow(startable, {"text": "other"}, key="once") == run_id
    await Executor.execute_pending_tasks()
    run = await Executor.status(run_id)
    assert (run.workflow_slug, run.output) == (SLUG, {"sum": {"letters": 9, "words": 4}})
    if made is not from_a_folder:
        stored = await newest_with_drafts(SLUG)
        assert stored is not None
        assert stored.workflow == flow


@made_in_every_way
@pytest.mark.parametrize("problem", BAD)
async def test_what_is_wrong_is_refused_by_name_however_it_was_defined(
    database: type[Database], tmp_path: Path, made: Maker, problem: str
) -> None:
    steps, words = BAD[problem]
    if made is from_the_builder and problem == "a circle":
        words = "step 'a' depends on 'b', which is no step"  # step by step, no circle can come about
    with pytest.raises(IngesterError, match=words):
        await made(steps, tmp_path)
