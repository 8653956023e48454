from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.errors import CycleError, DefinitionError

type Graph = dict[str, list[str]]


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> Graph:
    """Graphs in which a hidden order exists, defined in any other order."""
    names = draw(st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=12))
    edges = {
        name: draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        for index, name in enumerate(names)
    }
    return {name: edges[name] for name in draw(st.permutations(names))}


@st.composite
def cyclic_graphs(draw: st.DrawFn) -> Graph:
    """Acyclic graphs to which one edge was added, from a step back to one that waits for it."""
    dependencies = draw(acyclic_graphs().filter(lambda made: any(made.values())))
    late = draw(st.sampled_from([name for name, needed in dependencies.items() if needed]))
    early = draw(st.sampled_from(sorted(graph.ancestors_of(late, dependencies))))
    return {**dependencies, early: [*dependencies[early], late]}


@given(acyclic_graphs())
def test_every_step_comes_once_and_after_all_it_depends_on(dependencies: Graph) -> None:
    order = graph.topological_order(dependencies)

    assert sorted(order) == sorted(dependencies)
    position = {step: index for index, step in enumerate(order)}
    assert all(position[needed] < position[step] for step, edges in dependencies.items() for needed in edges)


@given(acyclic_graphs())
def test_a_step_is_passed_over_only_while_it_waits(dependencies: Graph) -> None:
    defined = list(dependencies)
    placed: set[str] = set()
    for step in graph.topological_order(dependencies):
        ready = [name for name in defined if name not in placed and placed.issuperset(dependencies[name])]
        assert step == ready[0]
        placed.add(step)


@given(cyclic_graphs())
def test_the_circle_named_is_one_that_exists(dependencies: Graph) -> None:
    with pytest.raises(CycleError) as caught:
        graph.topological_order(dependencies)

    cycle = caught.value.cycle
    assert cycle[0] == cycle[-1]
    assert len(set(cycle)) == len(cycle) - 1
    assert all(later in dependencies[earlier] for earlier, later in pairwise(cycle))
    assert " -> ".join(cycle) in str(caught.value)


@given(acyclic_graphs())
def test_a_graph_without_a_circle_has_none(dependencies: Graph) -> None:
    assert graph.find_cycle(dependencies) is None


def test_a_circle_is_written_as_a_path() -> None:
    with pytest.raises(CycleError, match="a -> b -> c -> a"):
        graph.topological_order({"a": ["b"], "b": ["c"], "c": ["a"]})


def test_the_way_to_a_circle_is_no_part_of_it() -> None:
    assert graph.find_cycle({"start": ["a"], "a": ["b"], "b": ["a"]}) == ("a", "b", "a")


def test_a_chain_of_many_thousand_steps_is_ordered() -> None:
    names = [f"step{number}" for number in range(20_000)]
    chain: Graph = {name: [before] for before, name in pairwise(names)} | {names[0]: []}

    assert graph.topological_order(chain) == tuple(names)
    assert len(graph.ancestors_of(names[-1], chain)) == len(names) - 1


def test_a_circle_of_many_thousand_steps_is_found() -> None:
    names = [f"step{number}" for number in range(20_000)]
    circle: Graph = {name: [before] for before, name in zip([names[-1], *names], names, strict=False)}

    cycle = graph.find_cycle(circle)

    assert cycle is not None
    assert len(cycle) == len(names) + 1


def test_an_unknown_dependency_is_named_with_the_nearest_step() -> None:
    with pytest.raises(DefinitionError, match=r"step 'chunk' depends on 'prase'.*did you mean 'parse'") as caught:
        graph.topological_order({"parse": [], "chunk": ["prase"]})
    assert caught.value.key == "chunk"


def test_a_step_cannot_depend_on_itself() -> None:
    with pytest.raises(DefinitionError, match="'parse' depends on itself"):
        graph.topological_order({"parse": ["parse"]})


def test_a_dependency_is_named_once() -> None:
    with pytest.raises(DefinitionError, match="'chunk' names its dependency 'parse' twice"):
        graph.topological_order({"parse": [], "chunk": ["parse", "parse"]})


def test_all_wrong_edges_are_told_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        graph.topological_order({"a": ["a"], "b": ["x"], "c": ["y"]})
    assert [problem.key for problem in caught.value.problems] == ["a", "b", "c"]


def test_nothing_at_all_has_an_empty_order() -> None:
    assert graph.topological_order({}) == ()


def test_ancestors_are_all_that_must_be_finished_before() -> None:
    diamond = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "aside": ["a"]}

    assert graph.ancestors_of("d", diamond) == {"a", "b", "c"}
    assert graph.ancestors_of("a", diamond) == frozenset()
    assert graph.dependents_of(diamond)["a"] == ["b", "c", "aside"]
