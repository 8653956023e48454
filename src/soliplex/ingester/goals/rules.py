"""`RuleDecomposer`: goals that are understood without a language model, part by part.

    "ingest ./docs, segment the PDFs, then tell https://example.org/hook"
     └ ingest ────▶ └ segment, of what was ingested ──▶ └ webhook, after all before it

Parts are separated by commas, semicolons, "and" or "then". "then" waits for all that was said before; a part that works
on what an earlier one names waits for that one; others go side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from soliplex.ingester.goals.errors import GoalError, NotUnderstoodError

_SPLIT: Final = re.compile(
    r"\s*(?:[,;]\s*(?:and\s+)?(?P<a>then\s+)?|\s+and\s+(?P<b>then\s+)|\s+then\s+(?P<c>)|\s+and\s+)", re.IGNORECASE
)
_PATH: Final = r"(?P<path>\"[^\"]+\"|'[^']+'|\S+)"
_KINDS: Final = {"pdfs": "*.pdf", "pdf files": "*.pdf", "word files": "*.docx", "html files": "*.html",
                 "markdown files": "*.md", "text files": "*.txt"}  # fmt: skip
_WHICH: Final = rf"(?:the\s+|all\s+|all\s+the\s+)?(?P<kind>{'|'.join(_KINDS)}|files|documents|it|them|everything)"


@dataclass(frozen=True, slots=True)
class Rule:
    """A form of words, and the kind of task it stands for."""

    kind: str
    pattern: re.Pattern[str]
    saying: str
    """How people say it."""


def _rule(kind: str, pattern: str, saying: str) -> Rule:
    return Rule(kind, re.compile(pattern, re.IGNORECASE), saying)


RULES: Final = (
    _rule("parse", rf"(?:parse|read)\s+{_WHICH}(?:\s+(?:in|of|from)\s+{_PATH})?", "parse the PDFs in FOLDER"),
    _rule("segment", rf"(?:segment|cut)\s+{_WHICH}(?:\s+(?:in|of|from)\s+{_PATH})?", "segment the PDFs [in FOLDER]"),
    _rule("ingest", rf"(?:ingest|add|index)\s+{_WHICH}\s+(?:in|of|from)\s+{_PATH}", "ingest the PDFs in FOLDER"),
    _rule("http", r"(?:get|fetch|request|call)\s+(?P<url>https?://\S+)", "get https://…"),
    _rule("webhook", r"(?:tell|notify|report\s+to|send\s+(?:it\s+)?to)\s+(?P<url>https?://\S+)", "tell https://…"),
    _rule("search", r"(?:search|look)\s+for\s+(?P<text>.+)|find\s+(?P<more>.+)", "search for WORDS"),
    _rule("shell", r"run\s+`(?P<command>[^`]+)`", "run `COMMAND` (if ORCHESTRATOR_ALLOW_SHELL is on)"),
    _rule("parse", rf"(?:parse|read)\s+{_PATH}", "parse FILE"),
    _rule("segment", rf"(?:segment|cut)\s+{_PATH}", "segment FILE"),
    _rule("ingest", rf"(?:ingest|add|index)\s+{_PATH}", "ingest FOLDER"),
)
ON_DOCUMENTS: Final = frozenset({"ingest", "parse", "segment"})


@dataclass(slots=True)
class _Reading:
    """What was understood so far."""

    tasks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    path_of: tuple[str, str] | None = None
    """The last place that was named, and the task that named it."""

    def add(self, kind: str, part: str, params: dict[str, Any], *, is_after_all: bool) -> None:
        name = self._new_id(kind)
        depends_on = self._last() if is_after_all or kind in ("webhook", "search") else []
        if kind in ON_DOCUMENTS:
            if "path" in params:
                self.path_of = (params["path"], name)
            elif self.path_of is not None:
                params["path"] = self.path_of[0]
                depends_on = depends_on or [self.path_of[1]]
            else:
                raise GoalError("goal", f"{part!r} does not say where; name a folder: {part} in ./docs")
        self.tasks.append({"id": name, "kind": kind, "description": part, "depends_on": depends_on, "params": params})

    def _last(self) -> list[str]:
        waited_for = {each for task in self.tasks for each in task["depends_on"]}
        return [task["id"] for task in self.tasks if task["id"] not in waited_for]

    def _new_id(self, kind: str) -> str:
        taken = sum(task["kind"] == kind for task in self.tasks)
        return kind if not taken else f"{kind}_{taken + 1}"


class RuleDecomposer:
    """Takes goals apart by rules. More of them may be given; they are asked first."""

    def __init__(self, rules: Sequence[Rule] = (), *, known: Mapping[str, Callable[[str], Any]] | None = None) -> None:
        self._rules = (*rules, *RULES)
        self._known = dict(known or {})

    def __call__(self, goal: str) -> list[dict[str, Any]]:
        """The tasks of the goal. NotUnderstoodError names the first part that no rule understands."""
        if not goal.strip():
            raise GoalError("goal", f"is empty; say for instance: {'; '.join(self.sayings[:3])}")
        for word, decompose in self._known.items():
            if word.lower() in goal.lower():
                return decompose(goal)
        reading = _Reading()
        for part, is_after_all in _parts(goal):
            kind, params = self._understood(part, reading)
            reading.add(kind, part, params, is_after_all=is_after_all)
        return reading.tasks

    @property
    def sayings(self) -> list[str]:
        """What can be said."""
        return list(dict.fromkeys(rule.saying for rule in self._rules))

    def _understood(self, part: str, reading: _Reading) -> tuple[str, dict[str, Any]]:
        for rule in self._rules:
            if found := rule.pattern.fullmatch(part):
                return rule.kind, _params(found)
        raise NotUnderstoodError(part, [task["description"] for task in reading.tasks], self.sayings)


def _params(found: re.Match[str]) -> dict[str, Any]:
    params = {name: value for name, value in found.groupdict().items() if value}
    if "more" in params:
        params["text"] = params.pop("more")
    if "path" in params:
        params["path"] = params["path"].strip("\"'")
    if "kind" in params:
        pattern = _KINDS.get(params.pop("kind").lower())
        params |= {"include": pattern} if pattern else {}
    return params


def _parts(goal: str) -> list[tuple[str, bool]]:
    """The parts, each with whether it waits for all before it. What stands in quotation marks is not cut."""
    text, kept = _without_quotes(goal.strip().rstrip(".!"))
    parts: list[tuple[str, bool]] = []
    place, after_all = 0, False
    for cut in [*_SPLIT.finditer(text), None]:
        part = text[place : cut.start() if cut else len(text)].strip()
        if part.lower().startswith("then "):
            part, after_all = part[5:].strip(), True
        if part:
            parts.append((_with_quotes(part, kept), after_all))
        if cut:
            place = cut.end()
            after_all = "then" in cut.group().lower()
    return parts


def _without_quotes(text: str) -> tuple[str, list[str]]:
    kept: list[str] = []

    def taken(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\x00{len(kept) - 1}\x00"

    return re.sub(r"\"[^\"]*\"|`[^`]*`|https?://\S*[^\s,;.]", taken, text), kept


def _with_quotes(text: str, kept: Sequence[str]) -> str:
    return re.sub(r"\x00(\d+)\x00", lambda found: kept[int(found[1])], text)
