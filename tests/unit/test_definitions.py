from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.enums import Isolation, LifeCycleEvent
from soliplex.ingester.lib.wf.definitions import (
    EventHandler,
    StepDefinition,
    WorkflowDefinition,
    parameter_set_from_mapping,
    parameter_set_from_yaml,
    workflow_from_json,
    workflow_from_mapping,
    workflow_from_steps,
    workflow_from_yaml,
)
from soliplex.ingester.lib.wf.errors import CycleError, DefinitionError, Problem, UnknownDefinitionError
from soliplex.ingester.lib.wf.retries import Backoff

PATH = Path("flow.yaml")


def read(text: str) -> WorkflowDefinition:
    return workflow_from_yaml(dedent(text), path=PATH)


def refused(text: str | bytes) -> list[str]:
    """The lines of the error that this text is refused with."""
    with pytest.raises(DefinitionError) as caught:
        workflow_from_yaml(text if isinstance(text, bytes) else dedent(text), path=PATH)
    return str(caught.value).splitlines()


def step_with(**fields: Any) -> StepDefinition:
    data = {"id": "flow", "item_steps": {"only": {"method": "my.handler", **fields}}}
    return workflow_from_mapping(data).step("only")


def problem_with(**fields: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        step_with(**fields)
    return str(caught.value)


COMPLETE = """\
    id: flow
    name: A flow
    meta: {owner: me}
    item_steps:
      Fetch:
        method: my.fetch
      parse:
        name: read it
        type: Parse
        method: my.handlers.parse
        retries: 3
        parameters: {format: markdown}
        timeout: 10m
        isolation: process
        backoff: {first: 1s, longest: 30s, factor: 3, jitter: 0}
      pages:
        method: my.page
        map: pages
        optional: true
      aside:
        method: my.aside
        depends_on: []
      join:
        method: my.join
        depends_on: [pages, aside]
    lifecycle_events:
      item_failed:
        - name: alert
          method: my.alert
          retries: 2
          parameters: {channel: "#alerts"}
"""


def test_every_key_of_a_workflow_file_is_read() -> None:
    flow = read(COMPLETE)

    assert (flow.id, flow.name, flow.meta) == ("flow", "A flow", {"owner": "me"})
    assert flow.step("parse") == StepDefinition(
        key="parse",
        name="read it",
        type="parse",
        method="my.handlers.parse",
        retries=3,
        parameters={"format": "markdown"},
        depends_on=("Fetch",),
        timeout=timedelta(minutes=10),
        isolation=Isolation.PROCESS,
        backoff=Backoff(timedelta(seconds=1), timedelta(seconds=30), 3.0, 0.0),
    )
    assert flow.step("pages").map == "pages"
    assert flow.step("pages").optional
    assert flow.handlers_for(LifeCycleEvent.ITEM_FAILED) == (
        EventHandler(name="alert", method="my.alert", retries=2, parameters={"channel": "#alerts"}),
    )
    assert flow.handlers_for("group_end") == ()
    assert flow.source_path == PATH
    assert flow.text == dedent(COMPLETE)


def test_what_a_step_leaves_out_has_a_default() -> None:
    step = read(COMPLETE).step("Fetch")

    assert step == StepDefinition(key="Fetch", method="my.fetch", name="Fetch", type="fetch")
    assert (step.retries, step.depends_on, step.map, step.timeout, step.isolation) == (1, (), False, None, None)
    assert step.backoff == Backoff()


def test_a_step_depends_on_the_one_before_unless_it_says_otherwise() -> None:
    flow = read(COMPLETE)

    assert flow.dependencies == {
        "Fetch": (),
        "parse": ("Fetch",),
        "pages": ("parse",),
        "aside": (),
        "join": ("pages", "aside"),
    }
    assert [step.key for step in flow.first_steps] == ["Fetch", "aside"]
    assert [step.key for step in flow.leaf_steps] == ["join"]


def test_steps_are_put_in_an_order_in_which_they_can_run() -> None:
    flow = read("""\
        id: flow
        item_steps:
          last: {method: my.last, depends_on: first}
          first: {method: my.first, depends_on: []}
        """)

    assert [step.key for step in flow.steps] == ["first", "last"]


def test_the_same_graph_from_yaml_and_from_code_is_equal() -> None:
    from_yaml = read("{id: flow, item_steps: {a: {method: my.a}, b: {method: my.b, map: true}}}")
    from_code = workflow_from_steps(
        "flow",
        [
            StepDefinition(key="b", method="my.b", depends_on=("a",), map=True),
            StepDefinition(key="a", method="my.a"),
        ],
    )

    assert from_yaml == from_code
    assert hash(from_yaml) == hash(from_code)


def test_a_definition_can_be_sent_to_another_process() -> None:
    flow = read(COMPLETE)

    assert pickle.loads(pickle.dumps(flow)) == flow
    assert pickle.loads(pickle.dumps(flow)).step("parse") == flow.step("parse")


def test_an_unknown_step_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownDefinitionError, match="step 'prase' does not exist; did you mean 'parse'"):
        read(COMPLETE).step("prase")


def test_keys_mean_what_is_written_even_where_yaml_thinks_otherwise() -> None:
    flow = read("{id: flow, item_steps: {on: {method: my.a}, 1: {method: my.b}}, meta: {since: 2024-05-01}}")

    assert [step.key for step in flow.steps] == ["on", "1"]
    assert flow.meta == {"since": "2024-05-01"}


def test_anchors_and_merge_keys_save_writing() -> None:
    flow = read("""\
        id: flow
        meta:
          common: &common {retries: 3, method: my.common}
        item_steps:
          a: *common
          b: {<<: *common, method: my.own}
        """)

    assert [(step.method, step.retries) for step in flow.steps] == [("my.common", 3), ("my.own", 3)]


def test_empty_sections_are_sections_that_are_left_out() -> None:
    flow = read("""\
        id: flow
        meta:
        lifecycle_events:
        item_steps:
          a:
            method: my.a
            parameters:
        """)

    assert (flow.meta, flow.lifecycle_events, flow.step("a").parameters) == ({}, {}, {})


def test_every_problem_of_a_file_is_told_at_once_with_its_line() -> None:
    assert refused("""\
        id: 1flow
        nmae: typo
        item_steps:
          a:
            method: nodots
            retries: 0
          b:
            method: my.b
            depends_on: [aa]
        lifecycle_events:
          group_begin: []
        """) == [
        "flow.yaml:1: id: is '1flow'; begin with a letter or _, go on with letters, digits, _, . or -",
        "flow.yaml:2: nmae: unknown key 'nmae'; did you mean 'name'?",
        "flow.yaml:5: item_steps.a.method: is 'nodots'; give a dotted path, such as package.module.function",
        "flow.yaml:6: item_steps.a.retries: is 0; give a whole number of at least 1",
        "flow.yaml:9: item_steps.b.depends_on: step 'b' depends on 'aa', which is no step; did you mean 'a'?",
        "flow.yaml:11: lifecycle_events.group_begin: unknown event 'group_begin'; did you mean 'group_end'?",
    ]


def test_a_circle_names_its_path_file_and_line() -> None:
    with pytest.raises(CycleError, match="a -> b -> a") as caught:
        read("""\
            id: flow
            item_steps:
              a: {method: my.a, depends_on: b}
              b: {method: my.b, depends_on: a}
            """)
    assert (caught.value.path, caught.value.line, caught.value.cycle) == (PATH, 3, ("a", "b", "a"))


def test_a_circle_is_told_beside_other_problems() -> None:
    lines = refused("""\
        id: flow
        item_steps:
          a: {method: my.a, depends_on: b, retries: none}
          b: {method: my.b, depends_on: a}
        """)

    assert len(lines) == 2
    assert "a -> b -> a" in lines[1] + lines[0]


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    assert refused("""\
        id: flow
        item_steps:
          a: {method: my.a}
          b: {method: my.b}
          a: {method: my.c}
        """) == ["flow.yaml:3: item_steps.a: stands on line 3 and again on line 5; keep one of the two"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "flow.yaml:1: the file is empty"),
        ("# nothing\n", "flow.yaml:1: the file is empty"),
        ("- a\n- b\n", "flow.yaml:1: is ['a', 'b']; give a mapping"),
        ("just words", "flow.yaml:1: is 'just words'; give a mapping"),
        ("id: flow\nitem_steps: [\n", "flow.yaml:3: is not valid YAML"),
        ("id: flow\n\tname: x\n", "flow.yaml:2: is not valid YAML"),
        ("id: flow\n---\nid: other\n", "flow.yaml:2: is not valid YAML"),
        ("id: *nobody\n", "flow.yaml:1: is not valid YAML"),
        (b"id: flow\nname: \xff\xfe\n", "flow.yaml:2: is not UTF-8"),
        ("id: flow\nname: \ud800\n", "flow.yaml:2: holds half of a surrogate pair"),
        ("id: flow\nname: \x07\n", "flow.yaml:2: holds a control character"),
        ("id: flow\nmeta: &a [*a]\n", "flow.yaml:2: meta[0][0]: is an alias of what it stands in"),
        ("id: flow\nmeta: &a {<<: *a}\n", "flow.yaml:2: meta: is an alias of what it stands in"),
        ("id: flow\nmeta: {<<: 1}\n", "flow.yaml:2: meta: merges something that is no mapping"),
        ("id: flow\nmeta: {[a]: 1}\n", "flow.yaml:2: meta: has a list or mapping as a key"),
        ("id: flow\nmeta: {a: !!binary aGk=}\n", "flow.yaml:2: meta.a: has the tag"),
        ("id: flow\nmeta: {a: !!python/name:os.system x}\n", "flow.yaml:2: meta.a: has the tag"),
        ("id: flow\nmeta: {a: !!int x}\n", "flow.yaml:2: meta.a: is 'x', which cannot be read"),
        ("id: flow\nmeta: {a: .nan}\n", "flow.yaml:2: meta.a: is nan; give"),
        ("id: flow\nmeta: {a: 99999999999999999999}\n", "flow.yaml:2: meta.a: does not fit into 64 bits"),
        ('id: flow\nmeta: {a: "\\0"}\n', "flow.yaml:2: meta.a: holds a NUL character"),
        ("id: flow\nmeta: {'': 1}\n", "flow.yaml:2: meta: has the key ''"),
        ("id: flow\n", "flow.yaml:1: item_steps: has no steps"),
        ("id: flow\nitem_steps: {}\n", "flow.yaml:2: item_steps: has no steps"),
        ("id: flow\nitem_steps: [a]\n", "flow.yaml:2: item_steps: is ['a']; give a mapping"),
        ("id: flow\nitem_steps: {a: }\n", "flow.yaml:2: item_steps.a.method: is missing"),
        ("id: 7\nitem_steps: {a: {method: m.a}}\n", "flow.yaml:1: id: is 7; give a text, in quotes"),
        ("id: ' '\nitem_steps: {a: {method: m.a}}\n", "flow.yaml:1: id: is empty"),
        ("name: x\nitem_steps: {a: {method: m.a}}\n", "flow.yaml:1: id: is missing"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text: str | bytes, line: str) -> None:
    assert any(found.startswith(line) for found in refused(text)), refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "- " * 1_000 + "x",
        "? " * 1_000 + "x",
        "a: &n0 [x]\n" + "\n".join(f"k{n}: &n{n} [*n{n - 1}]" for n in range(1, 5_000)),
        "a: &n0 {x: 1}\n" + "\n".join(f"k{n}: &n{n} {{<<: *n{n - 1}}}" for n in range(1, 5_000)),
    ],
)
def test_nesting_without_end_is_refused_and_not_followed(text: str) -> None:
    assert "deeper than 64 levels" in refused(text)[0]


def test_aliases_of_aliases_cannot_swell_without_end() -> None:
    bomb = "a: &a0 [x, x]\n" + "\n".join(f"b{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))

    assert "above 100000 values" in refused(bomb)[0]


def test_a_huge_file_is_refused_unread() -> None:
    assert "larger than 8 MiB" in refused("#" * (8 * 1024 * 1024 + 1))[0]


def test_a_file_of_nothing_but_mistakes_is_told_in_a_screenful() -> None:
    lines = refused("id: flow\n" + "\n".join(f"key{number}: x" for number in range(5_000)))

    assert len(lines) == 26
    assert lines[-1] == "flow.yaml: and 4976 more; correct these first"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        ("250ms", timedelta(milliseconds=250)),
        ("90s", timedelta(seconds=90)),
        ("1.5 m", timedelta(seconds=90)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
    ],
)
def test_a_timeout_is_seconds_or_a_number_with_its_unit(value: float | str, expected: timedelta) -> None:
    assert step_with(timeout=value).timeout == expected


@pytest.mark.parametrize(
    "value", [0, -1, "0s", "ten", "10", "5 weeks", "9" * 400 + "s", True, float("nan"), 10**400, []]
)
def test_a_timeout_that_is_no_time_is_refused(value: object) -> None:
    assert "item_steps.only.timeout" in problem_with(timeout=value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5s", Backoff(first=timedelta(seconds=5))),
        (0, Backoff(first=timedelta(0))),
        ("10m", Backoff(first=timedelta(minutes=10), longest=timedelta(minutes=10))),
        ({"first": "10m"}, Backoff(first=timedelta(minutes=10), longest=timedelta(minutes=10))),
        ({"longest": 1}, Backoff(first=timedelta(seconds=1), longest=timedelta(seconds=1))),
        ({"factor": 3, "jitter": 0.5}, Backoff(factor=3.0, jitter=0.5)),
        ({}, Backoff()),
        (None, Backoff()),
    ],
)
def test_a_backoff_is_a_first_wait_or_a_mapping(value: object, expected: Backoff) -> None:
    assert step_with(backoff=value).backoff == expected


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"frist": 1}, "backoff.frist: unknown key 'frist'; did you mean 'first'?"),
        ({"first": "5s", "longest": "1s"}, "backoff.longest: 0:00:01 is shorter"),
        ({"factor": 0.5}, "backoff.factor: is 0.5"),
        ({"factor": "x"}, "backoff.factor: is 'x'"),
        ({"jitter": 2}, "backoff.jitter: is 2"),
        ("soon", "backoff: is 'soon'"),
    ],
)
def test_an_impossible_backoff_is_refused(value: object, place: str) -> None:
    assert f"item_steps.only.{place}" in problem_with(backoff=value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"retries": True}, "retries: is True; give a whole number"),
        ({"retries": 2**31}, "retries: is 2147483648; give a whole number"),
        ({"optional": "yes"}, "optional: is 'yes'; give true or false"),
        ({"map": 1}, "map: is 1; give true or false"),
        ({"map": ""}, "map: is empty"),
        ({"isolation": "proces"}, "isolation: unknown isolation 'proces'; did you mean 'process'?"),
        ({"depends_on": None}, "depends_on: is None; give a list of names, [] for none"),
        ({"depends_on": [1]}, "depends_on: is [1]; give a list of names"),
        ({"depends_on": "only"}, "depends_on: step 'only' depends on itself"),
        ({"parameters": [1]}, "parameters: is [1]; give a mapping"),
        ({"parameters": {"a": {1, 2}}}, "parameters.a: is {1, 2}; give a text"),
        ({"parameters": {3: 1}}, "parameters: has the key 3; give keys that are texts"),
        ({"type": "x" * 201}, "type: is 201 characters long; give at most 200"),
        ({"condition": "x"}, "condition: unknown key 'condition'"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_the_fix(fields: dict[str, Any], problem: str) -> None:
    assert f"item_steps.only.{problem}" in problem_with(**fields)


def test_a_map_step_maps_over_one_step_at_most() -> None:
    assert "maps over the output of one step, but depends on a, b" in "".join(
        refused("""\
            id: flow
            item_steps:
              a: {method: my.a}
              b: {method: my.b}
              c: {method: my.c, depends_on: [a, b], map: true}
            """)
    )


def test_two_handlers_of_an_event_have_names_of_their_own() -> None:
    lines = refused("""\
        id: flow
        item_steps: {a: {method: my.a}}
        lifecycle_events:
          group_end:
            - method: my.end
            - method: my.end
          group_start: my.start
        """)

    assert "group_end[1].name: 'my.end' is also the name of another handler" in lines[0]
    assert "group_start: is 'my.start'; give a list" in lines[1]


def test_steps_written_in_code_are_checked_too() -> None:
    with pytest.raises(DefinitionError) as caught:
        workflow_from_steps(
            "my flow",
            [
                StepDefinition(key="a", method="a", retries=0, timeout=timedelta(0)),
                StepDefinition(key="a", method="b"),
            ],
        )
    text = str(caught.value)
    assert all(part in text for part in ("is 'my flow'", "has 0 retries", "no time to run", "second step named 'a'"))


def test_a_workflow_has_steps() -> None:
    with pytest.raises(DefinitionError, match="has no steps"):
        workflow_from_steps("flow", [])
    with pytest.raises(DefinitionError, match="has no steps"):
        workflow_from_json({"title": "Flow", "steps": []})


JSON_FLOW = {
    "version": "1.0",
    "title": "My Workflow",
    "steps": [
        {"name": "step1", "type": "task", "command": "cmd1"},
        {
            "name": "step2",
            "type": "map",
            "command": "cmd2",
            "dependencies": ["step1"],
            "max_attempts": 5,
            "timeout": 30,
        },
        {"name": "aside", "command": "cmd3"},
    ],
}


def test_a_workflow_is_read_from_json() -> None:
    flow = workflow_from_json(JSON_FLOW)

    assert (flow.id, flow.name, flow.meta) == ("my_workflow", "My Workflow", {"version": "1.0"})
    assert flow.steps == (
        StepDefinition(key="step1", method="cmd1", type="task", retries=3),
        StepDefinition(
            key="step2",
            method="cmd2",
            type="map",
            retries=5,
            depends_on=("step1",),
            map=True,
            timeout=timedelta(seconds=30),
        ),
        StepDefinition(key="aside", method="cmd3", type="task", retries=3),
    )


@pytest.mark.parametrize(
    ("changes", "slug", "expected"),
    [
        ({}, "given", "given"),
        ({"id": "own"}, None, "own"),
        ({"id": "own"}, "given", "given"),
        ({"title": "2024: a report"}, None, "_2024_a_report"),
    ],
)
def test_a_json_workflow_has_the_id_it_is_given_or_one_of_its_title(
    changes: dict[str, Any], slug: str | None, expected: str
) -> None:
    assert workflow_from_json({**JSON_FLOW, **changes}, slug=slug).id == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({**JSON_FLOW, "title": "Ω"}, "title: is 'Ω', which gives no id; add an `id`"),
        ({"title": "x", "steps": [{"name": "a", "command": "c", "condition": "y"}]}, "steps[0].condition: unknown key"),
        ({"title": "x", "steps": [{"name": "a", "command": "c", "type": "mpa"}]}, "did you mean 'map'?"),
        ({"title": "x", "steps": [{"command": "c"}]}, "steps[0].name: is missing"),
        ({"title": "x", "steps": [{"name": "a", "command": "c"}] * 2}, "steps[1]: is a second step named 'a'"),
        ({"title": "x", "version": [], "steps": [{"name": "a", "command": "c"}]}, "version: is []"),
        ([], "is []; give a mapping with the keys id, version, title, steps"),
    ],
)
def test_a_wrong_json_workflow_is_refused(data: object, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        workflow_from_json(data)
    assert problem in str(caught.value)


def test_a_parameter_file_is_read() -> None:
    params = parameter_set_from_yaml(
        "id: mine\nmeta: {a: 1}\nconfig: {parse: {ocr_lang: [en, de], deep: {a: null}}, chunk: }\n", origin="user"
    )

    assert (params.id, params.name, params.origin, params.meta) == ("mine", "mine", "user", {"a": 1})
    assert params.config == {"parse": {"ocr_lang": ["en", "de"], "deep": {"a": None}}, "chunk": {}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id: mine\nconfg: {}\n", "p.yaml:2: confg: unknown key 'confg'; did you mean 'config'?"),
        ("id: mine\nconfig:\n  parse: fast\n", "p.yaml:3: config.parse: is 'fast'; give a mapping"),
        ("id: mine\nconfig: 3\n", "p.yaml:2: config: is 3; give a mapping"),
    ],
)
def test_a_wrong_parameter_file_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parameter_set_from_yaml(text, path=Path("p.yaml"))
    assert str(caught.value).startswith(problem)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(DefinitionError, match="deeper than 64 levels"):
        parameter_set_from_mapping({"id": "mine", "meta": endless})

    endless_list: list[Any] = []
    endless_list.append(endless_list)
    with pytest.raises(DefinitionError, match="deeper than 64 levels"):
        parameter_set_from_mapping({"id": "mine", "meta": {"a": endless_list}})


def test_a_mapping_of_too_many_values_is_refused() -> None:
    with pytest.raises(DefinitionError, match="more than 100000 values"):
        parameter_set_from_mapping({"id": "mine", "meta": {"a": [0] * 200_000}})


KNOWN_KEYS = """
    id name meta item_steps lifecycle_events config type method retries parameters depends_on map timeout isolation
    optional backoff first longest factor jitter group_start steps title version command dependencies
"""
KEYS = st.sampled_from(KNOWN_KEYS.split())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "b", "my.handler", "map", "task", "process", "10s", "2h"])
)
VALUES = st.recursive(
    SCALARS | st.binary(max_size=3) | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | SCALARS, inner, max_size=6),
    max_leaves=25,
)
READERS = st.sampled_from([workflow_from_mapping, workflow_from_json, parameter_set_from_mapping])


def problems_of(reader: Callable[..., object], *args: Any, **kwargs: Any) -> tuple[Problem, ...]:
    """What a reader finds wrong; whatever else it raises fails the test."""
    try:
        reader(*args, **kwargs)
    except DefinitionError as exc:
        return exc.problems
    return ()


@given(READERS, VALUES)
def test_no_data_raises_anything_but_a_definition_error(reader: Callable[[Any], object], data: Any) -> None:
    assert all(problem.text for problem in problems_of(reader, data))


@given(
    st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["group_start", "step_end", "other"]), VALUES, max_size=2),
)
def test_no_steps_raise_anything_but_a_definition_error(steps: Any, events: Any) -> None:
    data = {"id": "flow", "item_steps": steps, "lifecycle_events": events}

    assert all(problem.text for problem in problems_of(workflow_from_mapping, data))


@given(st.text() | st.binary() | st.text(alphabet="ab:-[]{}&*<>?!|'\"# \n\t,0.~%", max_size=60))
def test_no_text_raises_anything_but_a_definition_error(text: str | bytes) -> None:
    assert all(problem.text for problem in problems_of(workflow_from_yaml, text))
    assert all(problem.text for problem in problems_of(parameter_set_from_yaml, text))


@given(VALUES)
def test_no_yaml_raises_anything_but_a_definition_error_that_names_the_file(data: Any) -> None:
    text = yaml.safe_dump({"id": "flow", "item_steps": {"a": data}, "meta": data}, allow_unicode=True)

    assert all(problem.path == PATH for problem in problems_of(workflow_from_yaml, text, path=PATH))


CONDITIONAL = """\
    id: flow
    item_steps:
      a: {method: my.a}
      b: {method: my.b, depends_on: [a], when: size(a) > 0, repeat: {until: output.done, max: 5, delay: 2s}}
      m: {method: my.m, depends_on: [a], map: true, tolerant: true, max_failures: 3, gather: false}
      n: {method: my.n, depends_on: [a], map: true, tolerant: true}
    """


def test_conditions_loops_and_tolerance_are_read() -> None:
    flow = read(CONDITIONAL)
    b, m, n = flow.step("b"), flow.step("m"), flow.step("n")
    assert b.when is not None
    assert b.when.text == "size(a) > 0"
    assert b.repeat is not None
    assert (b.repeat.until.text, b.repeat.max, b.repeat.delay) == ("output.done", 5, timedelta(seconds=2))
    assert (m.max_failures, m.gather, n.max_failures, n.gather) == (3, False, 2**31 - 1, True)
    assert pickle.loads(pickle.dumps(flow)) == flow
    assert read(CONDITIONAL) == flow


def test_conditions_are_read_from_json_too() -> None:
    step = {"name": "b", "type": "map", "command": "do_b", "when": "x > 1", "tolerant": True, "optional": True}
    flow = workflow_from_json({"title": "flow", "steps": [step | {"repeat": {"until": "output", "max": 2}}]})
    (b,) = flow.steps
    assert (b.when is not None, b.repeat is not None, b.optional, b.max_failures) == (True, True, True, 2**31 - 1)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ("when: size(a >", "item_steps.b.when.*cannot be read: 1:9: Syntax error"),
        ("when: c > 1", "item_steps.b.when: names the step 'c', on which it does not depend; add it to depends_on"),
        ("when: 3", "item_steps.b.when: is 3; give a text"),
        ("repeat: {until: c.done, max: 3}", "item_steps.b.repeat.until: names the step 'c'"),
        ("repeat: {until: 'true'}", "item_steps.b.repeat.max: is missing; add `max:`"),
        ("repeat: {max: 3}", "item_steps.b.repeat.until: is missing"),
        ("repeat: {until: 'true', max: 0}", "item_steps.b.repeat.max: is 0; give a whole number of at least 1"),
        ("repeat: {until: 'true', max: 3, delay: -1}", "item_steps.b.repeat.delay: is -1"),
        ("tolerant: true", "item_steps.b.tolerant: is for map steps only"),
        ("gather: false", "item_steps.b.gather: is for map steps only"),
        ("map: true, max_failures: 3", "item_steps.b.max_failures: goes with `tolerant: true` only"),
    ],
)
def test_what_is_wrong_with_a_condition_is_said_with_its_place(facts: str, problem: str) -> None:
    steps = f"a: {{method: my.a}}, b: {{method: my.b, {facts}}}, c: {{method: my.c}}"
    with pytest.raises(DefinitionError, match=problem):
        read(f"{{id: flow, item_steps: {{{steps}}}}}")
