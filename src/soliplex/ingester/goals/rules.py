"""`RuleDecomposer`: goals that are understood without a language model, part by part.

    "ingest ./docs, segment the PDFs, then tell https://example.org/hook"
     └ ingest ────▶ └ segment, of what was ingested ──▶ └ webhook, after all before it

Parts are separated by commas, semicolons, "and" or "then". What is said after "then" waits for all that was said before
it; a part that works on what an earlier one names waits for that one; others go side by side. What may mean two things
is refused: a plan must be what was said, or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from soliplex.ingester.goals.errors import GoalError, NotUnderstoodError

_SPLIT: Final = re.compile(
    r"\s*(?:[,;]|(?<![\s./\\])[.!](?=\s))\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+", re.IGNORECASE
)
"""Where a part ends. A dot that follows a slash or a blank is a folder."""
_PATH: Final = r"(?:(?:the\s+)?(?:folder|directory|file)\s+)?(?P<path>\"[^\"]+\"|'[^']+'|\S+)"
_OPENING: Final = re.compile(
    r"(?:(?P<first>first)|(?P<then>then|next|afterwards|after\s+that|finally)|please)\s+(?=\S)", re.IGNORECASE
)
"""What parts may begin with that says when, or nothing."""
_KINDS: Final[dict[str, str | list[str]]] = {
    "pdfs": "*.pdf",
    "pdf files": "*.pdf",
    "word files": ["*.docx", "*.doc"],
    "html files": ["*.html", "*.htm"],
    "markdown files": ["*.md", "*.markdown"],
    "text files": "*.txt",
}
_SEVERAL: Final = "files|documents|them|everything"
_EARLIER: Final = ("it", "them")
_WHICH: Final = rf"(?:the\s+|all\s+|all\s+the\s+)?(?P<kind>{'|'.join(_KINDS)}|{_SEVERAL}|it)"
_QUOTATION_MARKS: Final = str.maketrans("“”„«»", '"""""')
_FILES: Final = rf"(?:the\s+|all\s+|all\s+the\s+)?(?:{'|'.join(_KINDS)}|files|documents|folder|directory)"
_IN_A_PLACE: Final = re.compile(
    rf"\s(?:(?:in|from|among)\s+(?:it|them|{_FILES}|\.{{1,2}}|(?:\.{{0,2}}|~|[a-z]:)[/\\]\S*)|there|here)\Z",
    re.IGNORECASE,
)
"""The end of words to search for that name a place as well: `search for tax in ./docs`."""
_NO_WORDS: Final = re.compile(
    rf"(?:it|them|this|that|these|those|all|everything|nothing|out|out\s.*|{_FILES}(?:\s.*)?)\Z|.*\s(?:but\s+not|except|excluding)\s.*",
    re.IGNORECASE,
)
"""What may be words to search for, and is more likely to mean files, or something that was said before."""
_NO_PATH: Final = re.compile(
    r"(?:there|here|this|that|these|those|all|both|none|nothing|everything|anything|something|in|of|from|to)\Z|-|.*[*?<>|&$%`\"\[\]{}]|.*:\Z",
    re.IGNORECASE,
)
"""What may be a path, and is more likely to mean something else: a pattern, a variable, a word."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A form of words, and the kind of task it stands for."""

    kind: str
    pattern: re.Pattern[str]
    saying: str
    """An example of how people say it, for help and for errors."""


def _rule(kind: str, pattern: str, saying: str) -> Rule:
    return Rule(kind, re.compile(pattern, re.IGNORECASE), saying)


RULES: Final = (
    _rule("parse", rf"(?:parse|read)\s+{_WHICH}(?:\s+(?:in|of|from)\s+{_PATH})?", "parse the PDFs in FOLDER"),
    _rule("segment", rf"(?:segment|cut)\s+{_WHICH}(?:\s+(?:in|of|from)\s+{_PATH})?", "segment the PDFs [in FOLDER]"),
    _rule("ingest", rf"(?:ingest|add|index)\s+{_WHICH}(?:\s+(?:in|of|from)\s+{_PATH})?", "ingest the PDFs in FOLDER"),
    _rule("http", r"(?:get|fetch|request|call)\s+(?P<url>https?://\S+)", "get https://…"),
    _rule("webhook", r"(?:tell|notify|report\s+to|send\s+(?:it\s+)?to)\s+(?P<url>https?://\S+)", "tell https://…"),
    _rule("search", r"(?:search|look)\s+for\s+(?P<text>.+)|find\s+(?P<more>.+)", "search for WORDS"),
    _rule("shell", r"run\s+`(?P<command>[^`]+)`", "run `COMMAND` (if ORCHESTRATOR_ALLOW_SHELL is on)"),
    _rule("parse", rf"(?:parse|read)\s+{_PATH}", "parse FILE"),
    _rule("segment", rf"(?:segment|cut)\s+{_PATH}", "segment FILE"),
    _rule(
        "ingest", rf"(?:ingest|add|index)\s+{_PATH}", 'ingest FOLDER (in "quotation marks" if there are blanks in it)'
    ),
)
ON_DOCUMENTS: Final = frozenset({"ingest", "parse", "segment"})


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder or file that a part named, which files of it, and the task that works on them."""

    path: str
    include: str | list[str] | None
    task: str


@dataclass(slots=True)
class _Reading:
    """What was understood so far."""

    tasks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _named: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    """The places that were named since the last part that meant such, by path."""
    _meant: list[_Place] = field(default_factory=list["_Place"])
    """Those that this last part meant."""
    _before_then: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The tasks that were there when "then" was said."""
    _awaited: list[str] = field(default_factory=list[str])
    """The last of them: all that is said after "then" waits for these."""
    _picked: list[_Place] = field(default_factory=list["_Place"])
    """What the last part chose of the places that were meant: "the PDFs". None: all of them."""
    _found: dict[str, Any] | None = None
    """The last task, if it gives something that "it" may mean and that is no place: an answer, hits."""

    def add(self, kind: str, part: str, params: dict[str, Any], *, is_after_all: bool) -> None:
        if is_after_all:
            self._before_then, self._awaited = [*self.tasks], self._last()
        which = str(params.pop("kind", "")).lower()
        if include := _KINDS.get(which):
            params["include"] = include
        if kind not in ON_DOCUMENTS:
            if kind == "search":
                _check_words(part, params.get("text", ""))
            said = {name: _unquoted(value) if name in ("path", "text") else value for name, value in params.items()}
            self._put(kind, part, said, self._before(kind))
            self._found = None if kind == "webhook" else self.tasks[-1]
            return
        if str(params.get("path")).lower() in _EARLIER:  # the PDFs in it, the files of them
            which = params.pop("path").lower()
        if "path" in params:
            path = _checked(params["path"], part)
            self._named.pop(path, None)
            done = self._put(kind, part, {**params, "path": path}, self._awaited)
            self._named[path] = _Place(path, include, done)
            self._found = None
            return
        earlier = {task["id"] for task in self._before_then}
        picked: list[_Place] = []
        for place in self._those(part, which, include):
            inherited = {"include": place.include} if place.include else {}
            before = self._awaited if place.task in earlier else [place.task]
            done = self._put(kind, part, {"path": place.path, **inherited, **params}, before)
            picked.append(_Place(place.path, include, done))
        if include:
            self._picked = picked
        self._found = None

    def _those(self, part: str, which: str, include: str | list[str] | None) -> list[_Place]:
        """The places that are meant by a part that names none of its own, such as "segment them"."""
        if self._named:
            self._meant, self._named, self._picked = list(self._named.values()), {}, []
        if not self._meant:
            raise GoalError("goal", f"{part!r} does not say where; name a folder: {part} in ./docs")
        paths = [place.path for place in self._meant]
        if self._found is not None and (which == "it" or (which == "them" and self._found["kind"] == "search")):
            given = f"what {self._found['description']!r} gives"
            raise GoalError("goal", f"{part!r} may mean {' or '.join(paths)}, or {given}; name it")
        if which == "it" and len(self._meant) > 1:
            raise GoalError("goal", f"{part!r} may mean {' or '.join(paths)}; name the one, or say `them` for all")
        if include:
            if others := [place for place in self._meant if place.include not in (None, include)]:
                there = f"only {others[0].include} of {others[0].path} were meant before"
                raise GoalError("goal", f"{part!r} does not say where, and {there}; name the folder")
            return self._meant
        if self._picked and which not in _EARLIER:
            raise GoalError(
                "goal", f"{part!r} may mean all of {' or '.join(paths)}, or some; say `them`, or name the folder"
            )
        return self._picked or self._meant

    def _put(self, kind: str, part: str, params: dict[str, Any], depends_on: Sequence[str]) -> str:
        name = self._new_id(kind)
        self.tasks.append(
            {"id": name, "kind": kind, "description": part, "depends_on": [*depends_on], "params": params}
        )
        return name

    def _before(self, kind: str) -> list[str]:
        if kind == "webhook":
            return [task["id"] for task in self.tasks]  # a webhook tells what all tasks gave
        return self._last() if kind == "search" else self._awaited

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
        parts = _parts(goal)
        if not parts:
            raise GoalError("goal", f"is empty; say for instance: {'; '.join(self.sayings[:3])}")
        for word, decompose in self._known.items():
            if word.lower() in goal.lower():
                return decompose(goal)
        reading = _Reading()
        for part, is_after_all in parts:
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
    return params


def _checked(said: str, part: str) -> str:
    """The path that a part names, without its quotation marks."""
    path = _unquoted(said)
    if not path.strip() or (path == said and _NO_PATH.match(said)):
        raise GoalError(
            "goal", f"{part!r} names no folder or file; write its path out, in quotation marks where it has signs in it"
        )
    if _SCHEME.match(path):
        raise GoalError(
            "goal",
            f"{part!r} names an address, and such tasks read folders and files; `si-cli fetch` ingests addresses",
        )
    return path


def _unquoted(said: str) -> str:
    return said[1:-1] if len(said) > 1 and said[0] in "\"'" and said[-1] == said[0] else said


def _check_words(part: str, text: str) -> None:
    if found := _IN_A_PLACE.search(_without_quotes(part)[0]):
        raise GoalError(
            "goal",
            f"{part!r} names a place, and all that was ingested is searched; "
            f"leave out {found.group().strip()!r}, or put the words in quotation marks",
        )
    if _NO_WORDS.match(_without_quotes(text)[0]):
        raise GoalError("goal", f"{part!r} may mean something else than these words; put them in quotation marks")


def _parts(goal: str) -> list[tuple[str, bool]]:
    """The parts, each with whether it waits for all before it. What stands in quotation marks is not cut."""
    text, kept = _without_quotes(goal.replace("\x00", " ").strip().translate(_QUOTATION_MARKS))
    text = _without_stop(text)
    parts: list[tuple[str, bool]] = []
    place, after_all = 0, False
    for cut in [*_SPLIT.finditer(text), None]:
        part = text[place : cut.start() if cut else len(text)].strip()
        next_after_all = False
        while opening := _OPENING.match(part):
            part = part[opening.end() :]
            after_all = after_all or bool(opening["then"])
            next_after_all = next_after_all or bool(opening["first"])
        if part:
            parts.append((_with_quotes(part, kept), after_all))
        if cut:
            place = cut.end()
            after_all = next_after_all or "then" in cut.group().lower()
    return parts


def _without_stop(text: str) -> str:
    """Without what ends a sentence. A last word that is nothing but dots is a folder: `ingest .`, `ingest ../..`."""
    is_folder = re.search(r"(?:^|[\s/\\])\.{1,2}$", text)
    return text if is_folder else text.rstrip(".!")


def _without_quotes(text: str) -> tuple[str, list[str]]:
    kept: list[str] = []

    def taken(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\x00{len(kept) - 1}\x00"

    # An apostrophe within a word is none: a quotation begins before a word and ends after one.
    in_quotes = r"\"[^\"]*\"|`[^`]*`|(?<!\S)'[^']*'(?![^\s,;.!])|https?://\S*[^\s,;.!]"
    unquoted = re.sub(in_quotes, taken, text.replace("\x00", " "))
    # Rules try what is between two words in several ways, and many blanks in very many.
    return " ".join(unquoted.split()), kept


def _with_quotes(text: str, kept: Sequence[str]) -> str:
    return re.sub(r"\x00(\d+)\x00", lambda found: kept[int(found[1])], text)
