from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.errors import ConfigurationError, NotFoundError
from soliplex.ingester.lib.wf import registry as registry_module
from soliplex.ingester.lib.wf.definitions import (
    EventHandler,
    ParameterSet,
    StepDefinition,
    WorkflowDefinition,
    parameter_set_from_yaml,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.errors import DefinitionError, UnknownDefinitionError
from soliplex.ingester.lib.wf.registry import Registry, cumulative_configs, effective_parameters

SHIPPED = Path(__file__).parents[2] / "config"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Folders:
    """The three directories of a registry, and a clock to let it look at them again."""

    def __init__(self, root: Path) -> None:
        self.workflows, self.params, self.user_params = root / "workflows", root / "params", root / "user_params"
        self.workflows.mkdir()
        self.params.mkdir()
        self.clock = Clock()
        self._writes = 0

    def registry(self) -> Registry:
        return Registry(self.workflows, self.params, self.user_params, clock=self.clock)

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        # File systems count time in ticks; two writes of a test may fall into one.
        self._writes += 1
        os.utime(path, ns=(self._writes, self._writes))
        return path

    def flow(self, flow_id: str, *, file: str | None = None, method: str = "my.handler") -> Path:
        text = f"id: {flow_id}\nitem_steps:\n  a: {{method: {method}}}\n"
        return self.write(self.workflows / f"{file or flow_id}.yaml", text)

    def let_time_pass(self) -> None:
        self.clock.seconds += 0.5


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_definitions_are_found_by_id_and_listed_in_its_order(folders: Folders) -> None:
    folders.flow("second", file="a")
    folders.flow("first", file="b")
    folders.write(folders.params / "default.yml", "id: default\n")
    folders.write(folders.user_params / "mine.yaml", "id: mine\n")
    registry = folders.registry()

    assert registry.workflow("second").source_path == folders.workflows / "a.yaml"
    assert [workflow.id for workflow in registry.workflows()] == ["first", "second"]
    assert [(params.id, params.origin) for params in registry.parameter_sets()] == [
        ("default", "app"),
        ("mine", "user"),
    ]
    assert registry.errors() == {}


def test_files_that_are_no_definitions_are_left_alone(folders: Folders) -> None:
    for name in ("README.md", ".hidden.yaml", "flow.yaml.bak"):
        folders.write(folders.workflows / name, "no: [definition")
    (folders.workflows / "folder.yaml").mkdir()
    (folders.workflows / "dangling.yaml").symlink_to("nowhere")
    os.mkfifo(folders.workflows / "pipe.yaml")

    registry = folders.registry()

    assert (registry.workflows(), registry.errors()) == ((), {})


def test_a_workflow_as_json_is_read_like_one_as_yaml(folders: Folders) -> None:
    steps = '[{"name": "a", "type": "task", "command": "my.handler"}]'
    text = f'{{\n\t"title": "\\ud83d\\ude00 Lengths",\n\t"steps": {steps}\n}}'
    folders.write(folders.workflows / "lengths.json", text)
    folders.write(folders.workflows / "other.json", '{"id": "other", "item_steps": {"a": {"method": "my.handler"}}}')
    folders.write(folders.params / "left_alone.json", '{"id": "set"}')
    registry = folders.registry()
    assert [flow.id for flow in registry.workflows()] == ["lengths", "other"]
    assert (registry.workflow("lengths").name, registry.workflow("lengths").text) == ("\U0001f600 Lengths", text)
    assert registry.workflow("lengths").steps[0].method == registry.workflow("other").steps[0].method == "my.handler"
    assert registry.parameter_sets() == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"title": "T",\n "steps": [,]}', "bad.json:2: is not valid JSON: Expecting value"),
        ('{"title": "T", "title": "U"}', "the key 'title' is given twice; keep one"),
        ('{"title": NaN}', "holds NaN, which is no JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ("[]", "give a mapping with the keys id, version, title, steps"),
        (
            '{"title": "T", "steps": [{"name": "a", "type": "tusk", "command": "c"}]}',
            r"steps\[0\].type: unknown type 'tusk'",
        ),
        ('{"title": "T", "steps": []}', "has no steps"),
        ("", "is not valid JSON"),
    ],
)
def test_what_is_wrong_with_a_file_of_json_is_told_with_its_place(folders: Folders, text: str, words: str) -> None:
    path = folders.write(folders.workflows / "bad.json", text)
    with pytest.raises(DefinitionError, match=words):
        folders.registry().workflow("bad")
    assert folders.registry().errors().keys() == {path}


def test_an_unknown_id_is_refused_with_the_nearest(folders: Folders) -> None:
    folders.flow("batch_split")
    registry = folders.registry()

    with pytest.raises(
        UnknownDefinitionError, match=r"workflow 'batch-split' does not exist; did you mean 'batch_split'"
    ):
        registry.workflow("batch-split")
    with pytest.raises(NotFoundError, match=r"^parameter set 'none' does not exist$"):
        registry.parameter_set("none")


def test_an_unknown_id_that_looks_like_no_other_is_refused_with_those_there_are(folders: Folders) -> None:
    folders.write(folders.params / "remote.yaml", "id: remote\n")
    with pytest.raises(NotFoundError, match=r"^parameter set 'default' does not exist; known are: remote$"):
        folders.registry().parameter_set("default")


def test_changed_added_and_removed_files_are_noticed(folders: Folders) -> None:
    folders.flow("changed")
    removed = folders.flow("removed")
    registry = folders.registry()

    folders.flow("changed", method="my.other")
    folders.flow("added")
    removed.unlink()
    folders.let_time_pass()

    assert registry.workflow("changed").step("a").method == "my.other"
    assert [workflow.id for workflow in registry.workflows()] == ["added", "changed"]


def test_files_are_looked_at_twice_a_second_at_most(folders: Folders) -> None:
    registry = folders.registry()
    folders.flow("added")

    folders.clock.seconds = 0.49
    assert registry.workflows() == ()
    folders.clock.seconds = 0.5
    assert len(registry.workflows()) == 1


def test_whoever_changes_a_file_can_have_it_read_at_once(folders: Folders) -> None:
    registry = folders.registry()
    folders.write(folders.user_params / "mine.yaml", "id: mine\n")

    registry.refresh()

    assert registry.parameter_set("mine").id == "mine"


async def test_a_large_change_is_read_in_a_thread_where_an_event_loop_would_wait(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[int] = []

    def noted(content: bytes, **options: Any) -> ParameterSet:
        readers.append(threading.get_ident())
        return parameter_set_from_yaml(content, **options)

    path = folders.params / "large.yaml"
    folders.write(path, "id: large\nname: before\n")
    registry = folders.registry()
    monkeypatch.setattr(registry_module, "parameter_set_from_yaml", noted)
    folders.write(path, "id: large\nname: after\n" + "# much to read\n" * 2_000)
    folders.let_time_pass()

    assert registry.parameter_set("large").name == "before"
    for reader in [thread for thread in threading.enumerate() if thread.name == "definitions"]:
        await asyncio.to_thread(reader.join)
    assert registry.parameter_set("large").name == "after"
    assert len(readers) == 1
    assert threading.get_ident() not in readers

    folders.write(path, "id: large\nname: small again\n")
    folders.let_time_pass()
    assert registry.parameter_set("large").name == "small again"


def test_a_file_that_is_replaced_in_the_same_tick_is_noticed(folders: Folders) -> None:
    path = folders.flow("flow")
    registry = folders.registry()
    before = path.stat()
    replacement = folders.write(path.with_suffix(".new"), path.read_text().replace("my.handler", "my.renewed"))
    os.utime(replacement, ns=(before.st_mtime_ns, before.st_mtime_ns))
    replacement.rename(path)
    folders.let_time_pass()

    assert registry.workflow("flow").step("a").method == "my.renewed"


def test_an_unchanged_definition_stays_the_same_object(folders: Folders) -> None:
    folders.flow("flow")
    registry = folders.registry()
    first = registry.workflow("flow")
    folders.flow("added")
    folders.let_time_pass()

    assert registry.workflow("flow") is first


def test_a_file_that_becomes_invalid_leaves_its_last_good_definition_in_use(
    folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    path = folders.flow("flow")
    registry = folders.registry()

    folders.write(path, "id: flow\nitem_steps: [broken")
    for _ in range(3):
        folders.let_time_pass()
        assert registry.workflow("flow").step("a").method == "my.handler"

    assert list(registry.errors()) == [path]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"{path}:3: is not valid YAML" in caplog.text


def test_a_file_that_is_put_right_is_in_use_again(folders: Folders) -> None:
    path = folders.flow("flow")
    registry = folders.registry()
    folders.write(path, "broken: [")
    folders.let_time_pass()
    registry.workflows()
    folders.flow("flow", method="my.repaired")
    folders.let_time_pass()

    assert registry.workflow("flow").step("a").method == "my.repaired"
    assert registry.errors() == {}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("id: flow\nitem_steps: [broken", "flow"),
        ("id: 'flow'\nitem_steps: {}\n", "flow"),
        ("name: without id\n", "file_name"),
        ("", "file_name"),
        ("\tid: flow", "file_name"),
    ],
)
def test_asking_for_the_id_of_an_invalid_file_raises_its_error(folders: Folders, text: str, asked: str) -> None:
    path = folders.write(folders.workflows / "file_name.yaml", text)
    folders.flow("other")
    registry = folders.registry()

    assert registry.workflow("other").id == "other"
    for _ in range(2):
        with pytest.raises(DefinitionError) as caught:
            registry.workflow(asked)
        assert caught.value.path == path


def test_an_unreadable_file_is_told_and_stops_nothing_else(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders.flow("secret")
    folders.flow("open")
    real_open = Path.open

    def refuse(self: Path, *args: object, **kwargs: object) -> object:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return real_open(self, *args, **kwargs)  # pyright: ignore[reportCallIssue, reportArgumentType]  passed on as given

    monkeypatch.setattr(Path, "open", refuse)
    registry = folders.registry()

    assert registry.workflow("open").id == "open"
    with pytest.raises(DefinitionError, match="Permission denied"):
        registry.workflow("secret")


def test_two_files_with_one_id_are_refused_with_both_names(folders: Folders) -> None:
    one, two = folders.flow("flow", file="one"), folders.flow("flow", file="two")
    registry = folders.registry()

    with pytest.raises(DefinitionError) as caught:
        registry.workflow("flow")
    assert f"{one}:1: id: the workflow 'flow' is also defined in {two}" in str(caught.value)
    assert set(registry.errors()) == {one, two}


def test_a_second_file_with_an_id_in_use_does_not_take_it_over(folders: Folders) -> None:
    folders.flow("flow", file="b")
    registry = folders.registry()
    newcomer = folders.flow("flow", file="a", method="my.other")
    folders.let_time_pass()

    assert registry.workflow("flow").step("a").method == "my.handler"
    assert list(registry.errors()) == [newcomer]


def test_a_user_cannot_shadow_a_shipped_parameter_set(folders: Folders) -> None:
    shipped = folders.write(folders.params / "default.yaml", "id: default\n")
    shadow = folders.write(folders.user_params / "default.yaml", "id: default\nname: mine\n")
    registry = folders.registry()

    assert registry.parameter_set("default").origin == "app"
    assert str(shipped) in str(registry.errors()[shadow])


def test_a_missing_directory_is_named_by_its_setting(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^WORKFLOW_DIR: "):
        Registry(tmp_path / "missing", folders.params)
    with pytest.raises(ConfigurationError, match=r"^PARAM_DIR: "):
        Registry(folders.workflows, tmp_path / "missing")


def test_a_directory_that_goes_away_for_a_moment_takes_nothing_with_it(folders: Folders) -> None:
    folders.flow("flow")
    registry = folders.registry()
    folders.workflows.rename(folders.workflows.with_name("away"))
    folders.let_time_pass()

    assert registry.workflow("flow").id == "flow"
    assert list(registry.errors()) == [folders.workflows]

    folders.workflows.with_name("away").rename(folders.workflows)
    folders.let_time_pass()
    assert registry.errors() == {}


def code_flow(flow_id: str, method: str = "my.code") -> WorkflowDefinition:
    return workflow_from_steps(flow_id, [StepDefinition(key="a", method=method)])


def test_a_workflow_made_in_code_is_found_until_it_is_unregistered() -> None:
    registry = Registry(None, None)
    registry.register(code_flow("flow"))
    registry.register(code_flow("flow", "my.newer"))

    assert registry.workflow("flow").step("a").method == "my.newer"

    registry.unregister("flow")
    with pytest.raises(NotFoundError):
        registry.workflow("flow")
    with pytest.raises(NotFoundError):
        registry.unregister("flow")


def listening(flow_id: str) -> WorkflowDefinition:
    events = {"group_start": (EventHandler(name="tell", method="my.tell"),)}
    return workflow_from_steps(flow_id, [StepDefinition(key="a", method="my.code")], lifecycle_events=events)


def test_the_workflows_that_handle_events_are_those_in_use(folders: Folders) -> None:
    folders.write(
        folders.workflows / "file.yaml",
        "id: file\nitem_steps:\n  a: {method: my.handler}\n"
        "lifecycle_events:\n  item_end: [{name: tell, method: my.tell}]\n",
    )
    folders.flow("silent")
    registry = folders.registry()
    registry.register(listening("code"))
    registry.register(code_flow("quiet"))

    def ids() -> list[str]:
        return [workflow.id for workflow in registry.listening_workflows()]

    assert ids() == ["file", "code"]
    folders.flow("another")  # everything is indexed anew, what was registered included
    folders.let_time_pass()
    assert ids() == ["file", "code"]
    registry.register(code_flow("code"))
    assert ids() == ["file"]
    registry.register(listening("code"))
    registry.unregister("code")
    assert ids() == ["file"]


def test_code_cannot_take_an_id_from_a_file_nor_a_file_from_code(folders: Folders) -> None:
    path = folders.flow("file")
    registry = folders.registry()
    with pytest.raises(DefinitionError, match=r"'file' is already defined"):
        registry.register(code_flow("file"))

    registry.register(code_flow("code"))
    late = folders.flow("code")
    folders.let_time_pass()
    assert registry.workflow("code").step("a").method == "my.code"
    assert registry.workflow("file").source_path == path
    assert "is also defined in code" in str(registry.errors()[late])
    assert [workflow.id for workflow in registry.workflows()] == ["code", "file"]

    registry.unregister("code")
    assert registry.workflow("code").source_path == late
    assert registry.errors() == {}


STEP = StepDefinition(key="read", type="parse", method="my.read", parameters={"format": "text", "pages": [1, 2]})


def test_a_parameter_set_overrides_the_workflows_own_parameters() -> None:
    params = ParameterSet(id="p", name="p", config={"parse": {"format": "markdown", "ocr": True}})

    assert effective_parameters(STEP, params) == {"format": "markdown", "pages": [1, 2], "ocr": True}
    assert effective_parameters(STEP, None) == STEP.parameters


def test_an_entry_by_key_stands_before_one_by_type() -> None:
    params = ParameterSet(id="p", name="p", config={"parse": {"format": "markdown"}, "read": {"ocr": True}})

    assert effective_parameters(STEP, params) == {"format": "text", "pages": [1, 2], "ocr": True}


def test_a_handler_that_changes_its_parameters_changes_nothing_for_the_next() -> None:
    parameters = effective_parameters(STEP, None)
    pages = parameters["pages"]
    assert isinstance(pages, list)
    pages.append(3)

    assert effective_parameters(STEP, None)["pages"] == [1, 2]


def test_parameter_sets_share_what_comes_before_their_first_difference() -> None:
    workflow = Registry(SHIPPED / "workflows", SHIPPED / "params").workflow("batch")
    small = ParameterSet(id="s", name="s", config={"parse": {"ocr": True}, "chunk": {"chunk_size": 10}})
    large = ParameterSet(id="l", name="l", config={"parse": {"ocr": True}, "chunk": {"chunk_size": 20}})

    one, two = cumulative_configs(workflow, small), cumulative_configs(workflow, large)

    assert [key for key in one if one[key] == two[key]] == ["validate", "parse"]
    assert one["chunk"].cumulative_json == '{"chunk":{"chunk_size":10},"parse":{"ocr":true},"validate":{}}'
    assert one["embed"].step_type == "embed"
    assert one["embed"].cumulative_json != two["embed"].cumulative_json


def test_a_cumulative_configuration_holds_ancestors_and_no_other_branch() -> None:
    workflow = workflow_from_steps(
        "flow",
        [
            StepDefinition(key="a", method="m.a", parameters={"ü": 1}),
            StepDefinition(key="b", method="m.b", depends_on=("a",)),
            StepDefinition(key="c", method="m.c", depends_on=("a",)),
            StepDefinition(key="d", method="m.d", depends_on=("c",)),
        ],
    )

    configs = cumulative_configs(workflow, None)

    assert configs["a"].cumulative_json == '{"a":{"ü":1}}'
    assert configs["d"].cumulative_json == '{"a":{"ü":1},"c":{},"d":{}}'


def test_the_shipped_definitions_are_valid() -> None:
    registry = Registry(SHIPPED / "workflows", SHIPPED / "params")

    assert registry.errors() == {}
    assert [workflow.id for workflow in registry.workflows()] == [
        "batch",
        "batch_split",
        "batch_split_vacuum",
        "fetch",
        "interactive",
        "sorted",
        "test_wf",
        "test_wf_fail",
    ]
    assert [params.id for params in registry.parameter_sets()] == ["default", "sorted", "test_base"]
    for workflow in registry.workflows():
        if workflow.id in {"fetch", "sorted"}:
            continue
        assert [step.key for step in workflow.steps] == ["validate", "parse", "chunk", "embed", "store"]


def test_a_definition_whose_file_was_written_a_moment_ago_is_found(folders: Folders) -> None:
    registry = folders.registry()
    folders.clock.seconds += 0.1
    with pytest.raises(UnknownDefinitionError):
        registry.workflow("new")
    folders.flow("new")
    folders.write(folders.params / "new.yaml", "id: new\n")
    folders.clock.seconds += 0.1
    assert registry.workflow("new").id == "new"
    assert registry.parameter_set("new").id == "new"
