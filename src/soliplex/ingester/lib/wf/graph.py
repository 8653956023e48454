"""The graph of a workflow's steps: what depends on what, in which order, and never in a circle.

Pure functions over `{step: [steps it depends on]}`. Everything here is iterative: a workflow of many thousand steps
in one chain must not meet Python's recursion limit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from soliplex.ingester.lib.wf.errors import CycleError, DefinitionError, Problem, suggestion

# Problems reported at most: for each, the nearest name is sought among all steps, and a file full of typing errors must
# stay cheap.
_PROBLEMS_REPORTED = 25


def topological_order(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Order the steps so that each comes after all it depends on; among equals, as they were defined."""
    check_edges(dependencies)
    if cycle := find_cycle(dependencies):
        raise CycleError(cycle)
    return _order(dependencies)


def check_edges(dependencies: Mapping[str, Sequence[str]]) -> None:
    """Refuse unknown, repeated and self-dependencies, all of them in one error."""
    problems = [Problem(text, key=step) for step, text in islice(edge_problems(dependencies), _PROBLEMS_REPORTED)]
    if problems:
        raise DefinitionError(problems[0].text, key=problems[0].key, more=tuple(problems[1:]))


def edge_problems(dependencies: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Give (step, what is wrong with one of its dependencies)."""
    for step, needed in dependencies.items():
        seen: set[str] = set()
        for dependency in needed:
            if dependency == step:
                yield step, f"step {step!r} depends on itself; remove {step!r} from what it depends on"
            elif dependency in seen:
                yield step, f"step {step!r} names its dependency {dependency!r} twice; name it once"
            elif dependency not in dependencies:
                yield (
                    step,
                    (
                        f"step {step!r} depends on {dependency!r}, which is no step; "
                        f"{suggestion(dependency, dependencies)}"
                    ),
                )
            seen.add(dependency)


def find_cycle(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """Give a circle `(a, b, c, a)` in which each step depends on the next, or None; all names must be known."""
    finished: set[str] = set()
    for start in dependencies:
        if start not in finished and (cycle := _cycle_reached_from(start, dependencies, finished)):
            return cycle
    return None


def _cycle_reached_from(
    start: str, dependencies: Mapping[str, Sequence[str]], finished: set[str]
) -> tuple[str, ...] | None:
    # The steps being visited, in the order of the walk, each with what is left to look at: a stack, and a set as well.
    trail = {start: iter(dependencies[start])}
    while trail:
        step, unseen = next(reversed(trail.items()))
        following = next((dependency for dependency in unseen if dependency not in finished), None)
        if following is None:
            finished.add(step)
            trail.popitem()
        elif following in trail:
            visited = list(trail)
            return (*visited[visited.index(following) :], following)
        else:
            trail[following] = iter(dependencies[following])
    return None


def _order(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    position = {step: index for index, step in enumerate(dependencies)}
    names = tuple(dependencies)
    dependents = dependents_of(dependencies)
    missing = {step: len(needed) for step, needed in dependencies.items()}
    ready = [position[step] for step, count in missing.items() if count == 0]
    ordered: list[str] = []
    while ready:
        step = names[heapq.heappop(ready)]
        ordered.append(step)
        for dependent in dependents[step]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                heapq.heappush(ready, position[dependent])
    return tuple(ordered)


def dependents_of(dependencies: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Turn the edges round: for each step, the steps that wait for it."""
    dependents: dict[str, list[str]] = {step: [] for step in dependencies}
    for step, needed in dependencies.items():
        for dependency in needed:
            dependents[dependency].append(step)
    return dependents


def ancestors_of(step: str, dependencies: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Give every step that must be finished before `step` can begin."""
    found: set[str] = set()
    waiting = list(dependencies[step])
    while waiting:
        ancestor = waiting.pop()
        if ancestor not in found:
            found.add(ancestor)
            waiting.extend(dependencies[ancestor])
    return frozenset(found)
