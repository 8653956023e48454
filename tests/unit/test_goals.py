"""What is made of goals: by rules, and of what decomposers give."""

from __future__ import annotations

from typing import Any

import pytest

from soliplex.ingester import GoalError, Orchestrator, RuleDecomposer, WorkflowComposer
from soliplex.ingester.goals.task_graph import task_graph


def test_a_sentence_becomes_tasks_that_wait_for_what_they_work_on() -> None:
    tasks = RuleDecomposer()("ingest ./docs, segment the PDFs, then tell https://example.org/hook")
    assert [(task["id"], task["depends_on"], task["params"]) for task in tasks] == [
        ("ingest", [], {"path": "./docs"}),
        ("segment", ["ingest"], {"include": "*.pdf", "path": "./docs"}),
        ("webhook", ["ingest", "segment"], {"url": "https://example.org/hook"}),
    ]


type Plan = list[tuple[str, list[str], dict[str, Any]]]


@pytest.mark.parametrize(
    ("goal", "plan"),
    [
        ("ingest .", [("ingest", [], {"path": "."})]),
        ("ingest ../..", [("ingest", [], {"path": "../.."})]),
        (
            "Ingest ./docs. Then segment the Word files!",
            [
                ("ingest", [], {"path": "./docs"}),
                ("segment", ["ingest"], {"path": "./docs", "include": ["*.docx", "*.doc"]}),
            ],
        ),
        (
            "ingest the PDFs in 'old, and new', segment them",
            [
                ("ingest", [], {"path": "old, and new", "include": "*.pdf"}),
                ("segment", ["ingest"], {"path": "old, and new", "include": "*.pdf"}),
            ],
        ),
        (r"ingest C:\docs\new.", [("ingest", [], {"path": r"C:\docs\new"})]),
        (
            "ingest ./a, ingest ./b, then segment the PDFs",
            [
                ("ingest", [], {"path": "./a"}),
                ("ingest_2", [], {"path": "./b"}),
                ("segment", ["ingest", "ingest_2"], {"path": "./a", "include": "*.pdf"}),
                ("segment_2", ["ingest", "ingest_2"], {"path": "./b", "include": "*.pdf"}),
            ],
        ),
        (
            "ingest ./a, segment it, ingest ./b, segment it",
            [
                ("ingest", [], {"path": "./a"}),
                ("segment", ["ingest"], {"path": "./a"}),
                ("ingest_2", [], {"path": "./b"}),
                ("segment_2", ["ingest_2"], {"path": "./b"}),
            ],
        ),
        (
            "ingest ./a, then ingest ./b and get https://example.org, then segment them and search for x",
            [
                ("ingest", [], {"path": "./a"}),
                ("ingest_2", ["ingest"], {"path": "./b"}),
                ("http", ["ingest"], {"url": "https://example.org"}),
                ("segment", ["ingest_2", "http"], {"path": "./a"}),
                ("segment_2", ["ingest_2", "http"], {"path": "./b"}),
                ("search", ["segment", "segment_2"], {"text": "x"}),
            ],
        ),
        (
            "Please ingest the folder ./a, then ingest the file b.md and segment b.md",
            [
                ("ingest", [], {"path": "./a"}),
                ("ingest_2", ["ingest"], {"path": "b.md"}),
                ("segment", ["ingest"], {"path": "b.md"}),
            ],
        ),
        (
            "first ingest ./a, run `date`; after that segment ./a and finally get https://example.org",
            [
                ("ingest", [], {"path": "./a"}),
                ("shell", ["ingest"], {"command": "date"}),
                ("segment", ["shell"], {"path": "./a"}),
                ("http", ["segment"], {"url": "https://example.org"}),
            ],
        ),
        (
            "ingest ./docs, segment the PDFs in it, parse them, then segment the HTML files",
            [
                ("ingest", [], {"path": "./docs"}),
                ("segment", ["ingest"], {"path": "./docs", "include": "*.pdf"}),
                ("parse", ["segment"], {"path": "./docs", "include": "*.pdf"}),
                ("segment_2", ["parse"], {"path": "./docs", "include": ["*.html", "*.htm"]}),
            ],
        ),
        (
            'ingest "all"; ingest "R&D [old]"',
            [("ingest", [], {"path": "all"}), ("ingest_2", [], {"path": "R&D [old]"})],
        ),
        ('search for "it"', [("search", [], {"text": "it"})]),
        ('search for "cats in ./docs"', [("search", [], {"text": "cats in ./docs"})]),
        ("search for TCP/IP in cars", [("search", [], {"text": "TCP/IP in cars"})]),
        (
            "search for “salt and pepper”, tell https://a.example/x?y=1,2 and tell https://b.example/.",
            [
                ("search", [], {"text": "salt and pepper"}),
                ("webhook", ["search"], {"url": "https://a.example/x?y=1,2"}),
                ("webhook_2", ["search", "webhook"], {"url": "https://b.example/"}),
            ],
        ),
    ],
)
def test_a_plan_is_what_was_said(goal: str, plan: Plan) -> None:
    assert [(task["id"], task["depends_on"], task["params"]) for task in RuleDecomposer()(goal)] == plan


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("then", "'then' is not understood"),
        ("ingest my documents", "'ingest my documents' is not understood.*quotation marks"),
        ("ingest PDFs", "does not say where; name a folder: ingest PDFs in ./docs"),
        ("ingest everything", "does not say where"),
        ("ingest the PDFs and Word files in ./docs", "'ingest the PDFs' does not say where"),
        ("ingest ./a and ingest ./b, segment it", "may mean ./a or ./b; name the one, or say `them`"),
        ("ingest https://example.org/a.pdf", "names an address.*si-cli fetch"),
        ("ingest ./docs, search for cats in it", "leave out 'in it', or put the words in quotation marks"),
        ("find all PDFs in ./docs", "names a place, and all that was ingested is searched; leave out 'in ./docs'"),
        ("ingest ./docs, get https://a.example, segment it", "may mean ./docs, or what 'get https://a.example' gives"),
        ("ingest ./docs, search for cats, then segment them", "may mean ./docs, or what 'search for cats' gives"),
        (
            "ingest the PDFs in ./docs, segment the HTML files",
            r"only \*.pdf of ./docs were meant before; name the folder",
        ),
        ("ingest ./docs, segment the PDFs, then parse the files", "may mean all of ./docs, or some"),
        ("ingest ./docs/*.pdf", "names no folder or file"),
        ("ingest $HOME/docs", "names no folder or file"),
        ("ingest ./docs?", "names no folder or file"),
        ("ingest here", "names no folder or file"),
        ("ingest ''", "names no folder or file"),
        ("find it", "may mean something else"),
        ("find PDFs about cats", "may mean something else"),
        ("search for cats but not dogs", "may mean something else"),
        ("search for cats in the PDFs", "leave out 'in the PDFs'"),
        ("tell https://a.example and https://b.example", "'https://b.example' is not understood"),
        ("do not ingest ./docs", "'do not ingest ./docs' is not understood"),
        ("nimm ./docs auf, dann melde es https://a.example", "'nimm ./docs auf' is not understood"),
        ("segment ./docs before telling https://a.example", "is not understood"),
    ],
)
def test_what_may_mean_something_else_is_refused(goal: str, problem: str) -> None:
    with pytest.raises(GoalError, match=problem):
        RuleDecomposer()(goal)


def test_what_no_rule_understands_is_named_with_what_can_be_said() -> None:
    with pytest.raises(GoalError, match=r"'make coffee' is not understood.*ingest ./docs.*search for WORDS"):
        RuleDecomposer()("ingest ./docs and make coffee")


def test_blanks_and_control_characters_say_nothing() -> None:
    decompose = RuleDecomposer()
    assert decompose("ingest\n\n ./docs \t then   search for x") == decompose("ingest ./docs then search for x")
    quoted = decompose('ingest "./my  docs"')
    assert quoted[0]["params"] == {"path": "./my  docs"}
    assert decompose("search for \x000\x00")[0]["params"] == {"text": "0"}


@pytest.mark.timeout(60)
def test_a_goal_of_many_blanks_is_read_at_once() -> None:
    with pytest.raises(GoalError, match="is not understood"):
        RuleDecomposer()(f"make{' ' * 10_000}coffee{' and' * 1000}{' ' * 1000}x")


def _nested(depth: int) -> list[dict[str, Any]]:
    return [{"id": "a", "description": "a", "subtasks": _nested(depth - 1) if depth else []}]


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ([], "is empty"),
        ("Sure! First you should", "give a list of tasks"),
        ([{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}], "a → b → a"),
        ([{"id": "a", "depends_on": ["c"]}], "'c'"),
        ([{"id": "a"}, {"id": "a"}], "twice"),
        ([{"id": "1 a"}], "begin with a letter"),
        (
            [{"id": "goal"}],
            r"tasks\[0\].id: is 'goal', and answer, context, functions, goal, input, item, state, task are",
        ),
        ([{"id": "a", "timeout": float("nan")}], r"tasks\[0\].timeout: is nan; give a number of seconds"),
        ([{"id": "a", "timeout": 10**12}], "is 1000000000000; give a number of seconds"),
        ([{"id": "a", "max_attempts": 1.5}], r"tasks\[0\].max_attempts: is 1.5; give a whole number"),
        ([{"id": "a", "max_attempts": 2**31}], "is 2147483648; give a whole number"),
        (_nested(11), "nested more than 10 deep"),
    ],
)
def test_what_is_no_graph_of_tasks_is_refused_with_its_reason(tasks: object, problem: str) -> None:
    with pytest.raises(GoalError, match=problem):
        task_graph("goal", tasks, max_depth=10)


async def test_a_decomposer_that_does_not_end_is_given_up() -> None:
    async def loops(goal: str) -> None:
        import asyncio

        await asyncio.Event().wait()

    with pytest.raises(GoalError, match="it may loop"):
        await Orchestrator.decompose_goal("anything", loops, timeout=0.01)


async def test_goals_beside_one_that_raises_an_error_are_executed_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    ended = list[str]()

    async def compose(goal: str, *args: object, **options: object) -> None:
        if goal == "slow":
            raise TimeoutError("not reached")
        for _ in range(9):
            await asyncio.sleep(0)
        ended.append(goal)

    monkeypatch.setattr(WorkflowComposer, "compose_from_goal", compose)
    with pytest.raises(TimeoutError, match="not reached"):
        await WorkflowComposer.compose_multiple_workflows(["slow", "quick"], lambda goal: [goal])
    assert ended == ["quick"]
