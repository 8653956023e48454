"""YAML as plain values with the line of every key, and without YAML's traps.

Beyond `yaml.safe_load`: a key given twice is refused (YAML keeps the last in silence), keys are texts as written
(`on:` is no truth value), dates stay texts, and neither deep nesting nor aliases of aliases can exhaust the process.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import ReaderError

from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.reading import DEEPEST_NESTING, MOST_NODES, JsonValue, KeyPath, Source, dotted, shown

LARGEST_FILE: Final = 8 * 1024 * 1024

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_PLAIN_SCALARS: Final = frozenset({f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float")})
# A date is what an unquoted 2024-05-01 becomes; as JSON it is the same text.
_TEXT_SCALARS: Final = frozenset({f"{_TAG}{kind}" for kind in ("str", "timestamp", "value", "merge")})


def read_yaml(content: str | bytes, path: Path | None = None) -> tuple[JsonValue, Source]:
    """Give the document's value, and its source with the line of each key; problems found are noted in the source."""
    text = decoded(content, path)
    root = _composed(text, path)
    lines: dict[KeyPath, int] = {(): 1}
    source = Source(path, text, lines)
    if root is None:
        raise DefinitionError("the file is empty; give at least an `id:`", path=path, line=1)
    return _Values(source, lines).value(root, ()), source


def decoded(content: str | bytes, path: Path | None) -> str:
    if len(content) > LARGEST_FILE:
        raise DefinitionError(f"is larger than {LARGEST_FILE // 1024**2} MiB; split it", path=path)
    try:
        # A lone surrogate in a text is found here too; libyaml would fail on it later, and less clearly.
        encoded = content.encode() if isinstance(content, str) else content
        return encoded.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = exc.object.count(b"\n", 0, exc.start) + 1
        raise DefinitionError("is not UTF-8; save it as UTF-8", path=path, line=line) from exc
    except UnicodeEncodeError as exc:
        line = exc.object.count("\n", 0, exc.start) + 1
        raise DefinitionError("holds half of a surrogate pair; remove it", path=path, line=line) from exc


def _composed(text: str, path: Path | None) -> yaml.Node | None:
    try:
        _refuse_deep_nesting(text, path)
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as exc:
        problem = f"is not valid YAML: {_told(exc)}; correct it there or just above"
        raise DefinitionError(problem, path=path, line=_line_of(exc.problem_mark or exc.context_mark)) from exc
    except ReaderError as exc:
        line = text.encode().count(b"\n", 0, exc.position) + 1
        raise DefinitionError("holds a control character; remove it", path=path, line=line) from exc


def _refuse_deep_nesting(text: str, path: Path | None) -> None:
    # Composing nodes is recursive, in C without a guard: a file of a million brackets would end the process.
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST_NESTING:
            problem = f"is nested deeper than {DEEPEST_NESTING} levels; make it flatter"
            raise DefinitionError(problem, path=path, line=_line_of(event.start_mark))


class _Values:
    """Turns nodes into values, noting the line of each key."""

    def __init__(self, source: Source, lines: dict[KeyPath, int]) -> None:
        self._source = source
        self._lines = lines
        self._constructor = SafeConstructor()
        self._remaining_nodes = MOST_NODES
        self._around: set[yaml.Node] = set()

    def value(self, node: yaml.Node, where: KeyPath) -> JsonValue:
        self._count(node, where)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            entries = self._entries(node, where)
            return {key: self._inside(node, item, (*where, key)) for key, item in entries.items()}
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._inside(node, item, (*where, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, where)

    def _inside(self, collection: yaml.Node, node: yaml.Node, where: KeyPath) -> JsonValue:
        self._lines.setdefault(where, _line(node))
        with self._within(collection, where):
            return self.value(node, where)

    def _scalar(self, node: yaml.Node, where: KeyPath) -> JsonValue:
        if node.tag in _TEXT_SCALARS and isinstance(node, yaml.ScalarNode):
            return node.value
        if node.tag not in _PLAIN_SCALARS or not isinstance(node, yaml.ScalarNode):
            self._source.note(where, f"has the tag {shown(node.tag)}; only texts, numbers, lists and mappings are read")
            return None
        try:
            return self._constructor.construct_object(node)
        except (ValueError, KeyError, OverflowError, yaml.YAMLError):
            self._source.note(where, f"is {shown(node.value)}, which cannot be read; put it in quotes")
            return None

    def _entries(self, node: yaml.MappingNode, where: KeyPath) -> dict[str, yaml.Node]:
        """Give the mapping's values by key: those it merges (`<<`) first, its own over them."""
        merged = self._merged(node, where)
        own: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            if key_node.tag == _MERGE or (key := self._key(key_node, where)) is None:
                continue
            if key in own:
                self._note_duplicate((*where, key), again=_line(key_node))
            else:
                self._lines[*where, key] = _line(key_node)
                own[key] = value
        return merged | own

    def _merged(self, node: yaml.MappingNode, where: KeyPath) -> dict[str, yaml.Node]:
        merged: dict[str, yaml.Node] = {}
        for base in _bases(node):
            self._count(base, where)
            if isinstance(base, yaml.MappingNode):
                with self._within(node, where):
                    merged = self._entries(base, where) | merged
            else:
                self._source.note(where, "merges something that is no mapping; give `<<:` a mapping or a list of them")
        return merged

    def _key(self, node: yaml.Node, where: KeyPath) -> str | None:
        if isinstance(node, yaml.ScalarNode):
            return node.value
        self._source.note(where, "has a list or mapping as a key; give keys that are texts")
        return None

    def _note_duplicate(self, where: KeyPath, again: int) -> None:
        first = self._lines[where]
        self._source.note(where, f"stands on line {first} and again on line {again}; keep one of the two")

    def _count(self, node: yaml.Node, where: KeyPath) -> None:
        self._remaining_nodes -= 1
        if self._remaining_nodes < 0:
            self._refuse(
                node, where, f"brings the file, aliases written out, above {MOST_NODES} values; make it smaller"
            )

    @contextmanager
    def _within(self, collection: yaml.Node, where: KeyPath) -> Generator[None]:
        """Note that the reading is inside this collection, which an alias can make contain itself."""
        if collection in self._around:
            self._refuse(collection, where, "is an alias of what it stands in; remove it")
        if len(self._around) >= DEEPEST_NESTING:
            self._refuse(collection, where, f"is nested deeper than {DEEPEST_NESTING} levels; make it flatter")
        self._around.add(collection)
        yield
        self._around.remove(collection)

    def _refuse(self, node: yaml.Node, where: KeyPath, problem: str) -> NoReturn:
        raise DefinitionError(problem, path=self._source.path, line=_line(node), key=dotted(where))


def _bases(node: yaml.MappingNode) -> Iterator[yaml.Node]:
    for key, value in node.value:
        if key.tag == _MERGE:
            yield from value.value if isinstance(value, yaml.SequenceNode) else (value,)


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _line_of(mark: Any) -> int | None:  # libyaml's marks and Python's have no type in common
    return mark.line + 1 if mark else None


def _told(error: yaml.MarkedYAMLError) -> str:
    context = (
        f"{error.context} that begins on line {_line_of(error.context_mark)}" if error.context_mark else error.context
    )
    return ", ".join(part for part in (context, error.problem) if part)
