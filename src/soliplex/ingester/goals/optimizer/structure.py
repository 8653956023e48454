"""The graph of a flow: which edges carry data, which are redundant, which steps are a chain, and what is critical.

An edge carries data if the step at its end may read what the one at its beginning gave. Where that cannot be told, it
is taken to do so: an edge that carries data is never removed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from soliplex.ingester.goals import tasks
from soliplex.ingester.goals.optimizer import chains
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import OUTSIDE, StepDefinition, WorkflowDefinition
from soliplex.ingester.lib.wf.errors import CannotExecute
from soliplex.ingester.lib.wf.flows import calling
from soliplex.ingester.lib.wf.flows.functions import imported

type Edges = Mapping[str, Sequence[str]]

_READS_ALL: Final = frozenset({"input", "inputs", "workflow_run", "run_step"})
LEVELS_OF_PRIORITY: Final = 5
"""How many priorities are given at most: durations are not exact enough for more."""


def redundant_edges(edges: Edges, keeps: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """Edges (dependency, step) that follow from others, and that `keeps` does not keep: the transitive reduction."""
    ancestors: dict[str, set[str]] = {}
    for step in graph.topological_order(edges):
        ancestors[step] = set(edges[step]).union(*(ancestors[each] for each in edges[step]))
    return [
        (needed, step)
        for step, dependencies in edges.items()
        for needed in dependencies
        if any(needed in ancestors[other] for other in dependencies if other != needed) and not keeps(needed, step)
    ]


def carries_data(flow: WorkflowDefinition, needed: str, step: str) -> bool:
    """Whether the step may read what the one it depends on gave."""
    asks = _asks_for(flow.step(step))
    return asks is None or needed in asks


def _asks_for(step: StepDefinition) -> frozenset[str] | None:
    """The names that a step may read. None: any."""
    if step.map is not False or step.method in (OUTSIDE, calling.COMMAND):
        return None
    names = set[str]()
    for link in chains.links_of(step):
        found = _parameters(link)
        if found is None or found & _READS_ALL:
            return None
        names |= found
    conditions = [step.when, step.repeat.until if step.repeat else None]
    return frozenset(names.union(*(condition.names for condition in conditions if condition)))


def _parameters(link: Mapping[str, Any]) -> frozenset[str] | None:
    address = str(link["method"])
    if address in (calling.CALL, calling.CALL_WITH_ITEM, tasks.EXECUTE):
        address = link["parameters"].get(calling.FUNCTION)
    return None if address is None else _parameters_at(str(address))


@lru_cache(maxsize=4096)
def _parameters_at(address: str) -> frozenset[str] | None:
    """The names of a plain function's parameters. None: it is something else, or not to be found here."""
    try:
        found = imported(address) if ":" in address else _attribute(address)
    except (CannotExecute, ImportError, AttributeError, ValueError):
        return None
    if not inspect.isfunction(found):
        return None
    parameters = inspect.signature(found).parameters.values()
    is_open = any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in parameters)
    return None if is_open else frozenset(each.name for each in parameters)


def _attribute(address: str) -> Any:
    module, _, name = address.rpartition(".")
    return getattr(importlib.import_module(module), name)


def mergeable_pairs(flow: WorkflowDefinition, is_short: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Pairs (a, b) where b alone waits for a, and for nothing else, and both are plain and short."""
    dependents = graph.dependents_of(flow.dependencies)
    for step in flow.steps:
        if len(step.depends_on) == 1 and len(dependents[step.depends_on[0]]) == 1:
            before = flow.step(step.depends_on[0])
            if before.type == step.type and all(_is_plain(each) and is_short(each.key) for each in (before, step)):
                yield before.key, step.key


def _is_plain(step: StepDefinition) -> bool:
    """Whether the step is nothing but a call of a function, which any process can import."""
    is_call = step.method in chains.MERGEABLE and all(
        calling.FUNCTION in link["parameters"] for link in chains.links_of(step)
    )
    is_special = step.map is not False or step.when or step.repeat or step.optional or step.isolation
    return is_call and not is_special


def remaining_path(edges: Edges, seconds: Mapping[str, float]) -> dict[str, float]:
    """For each step, how long it and the longest way from it to an end take."""
    dependents = graph.dependents_of(edges)
    longest: dict[str, float] = {}
    for step in reversed(graph.topological_order(edges)):
        after = max((longest[each] for each in dependents[step]), default=0.0)
        longest[step] = seconds.get(step, 0.0) + after
    return longest


def priorities(edges: Edges, seconds: Mapping[str, float]) -> dict[str, int]:
    """0 for what lies on the longest way, less for the rest: no step overtakes other flows more than it does now."""
    longest = remaining_path(edges, seconds)
    top = max(longest.values(), default=0.0)
    if not top:
        return {}
    return {step: -round((1 - value / top) * (LEVELS_OF_PRIORITY - 1)) for step, value in longest.items()}
