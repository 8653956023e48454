"""The form in which definitions are stored: whatever is stored is read back as it was."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.enums import Isolation
from soliplex.ingester.lib.wf.conditions import Condition, Repeat
from soliplex.ingester.lib.wf.definitions import (
    EventHandler,
    StepDefinition,
    WorkflowDefinition,
    parameter_set_from_yaml,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.stored_form import (
    parameter_set_from_stored,
    stored_form,
    stored_parameter_set,
    workflow_from_stored,
)
from tests.support.engine import METHOD

durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=300))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
conditions = st.sampled_from([Condition.parse(text) for text in ("true", "size(input) > 0")])


@st.composite
def workflows(draw: st.DrawFn) -> WorkflowDefinition:
    keys = [f"s{number}" for number in range(draw(st.integers(1, 5)))]
    steps: list[StepDefinition] = []
    for number, key in enumerate(keys):
        is_map = draw(st.booleans())
        before = draw(st.lists(st.sampled_from(keys[:number]), unique=True, max_size=1)) if number else []
        first = draw(durations)
        steps.append(
            StepDefinition(
                key=key,
                method=METHOD,
                name=draw(texts),
                type=draw(st.sampled_from(["", "Parse", "x.y"])),
                retries=draw(st.integers(1, 50)),
                parameters=draw(st.dictionaries(texts, json_values, max_size=3)),
                depends_on=tuple(before),
                map=draw(st.sampled_from([True, "items"])) if is_map else False,
                timeout=draw(st.none() | durations),
                isolation=draw(st.none() | st.sampled_from(Isolation)),
                optional=draw(st.booleans()),
                backoff=Backoff(first, first * 2, draw(st.floats(1, 5)), draw(st.floats(0, 1))),
                when=draw(st.none() | conditions),
                repeat=draw(st.none() | st.builds(Repeat, until=conditions, max=st.integers(1, 9), delay=durations)),
                max_failures=draw(st.none() | st.integers(0, 9)) if is_map else None,
                gather=draw(st.booleans()) if is_map else True,
                priority=draw(st.integers(-1_000, 1_000)),
                expected_items=draw(st.none() | st.integers(0, 9)) if is_map else None,
            )
        )
    handler = EventHandler(name="h", method=METHOD, retries=2, parameters={"p": 1})
    return workflow_from_steps(
        "w", steps, name=draw(texts), meta={"m": [1]}, lifecycle_events={"group_end": (handler,)}
    )


@given(workflows())
def test_a_workflow_is_read_back_as_it_was_stored(definition: WorkflowDefinition) -> None:
    form = stored_form(definition)
    back = workflow_from_stored(form.content)
    assert back == definition
    assert stored_form(back) == form


def test_a_parameter_set_is_read_back_as_it_was_stored() -> None:
    params = parameter_set_from_yaml("id: mine\nname: Mine\nconfig: {parse: {do_ocr: false}} # why\n", origin="user")
    back = parameter_set_from_stored(stored_parameter_set(params).content)
    assert (back, back.text) == (params, params.text)


def test_a_form_of_a_newer_version_of_the_product_is_refused_with_words() -> None:
    with pytest.raises(DefinitionError, match="upgrade it"):
        workflow_from_stored(json.dumps({"form": 99}))
