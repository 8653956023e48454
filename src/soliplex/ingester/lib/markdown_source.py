"""Markdown as people write it for sites: what is said about a page, and what only its source shows.

    ---                        front matter: YAML, TOML between lines of +++, JSON, or lines of `Key: value`
    title: Install
    ---
    # Install {#install}       an anchor
    <!-- check before 2.0 -->  a comment

None of this is text of the page. Code keeps all of it, since there it is what the page is about.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

LONGEST_MATTER: Final = 64 << 10
"""Characters of front matter. Two lines of dashes further apart are lines between paragraphs."""
_LONGEST_CODE: Final = 1000
"""Characters of code within a line that are looked at for its end."""

_DASHES: Final = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLUSES: Final = re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY_VALUE: Final = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_CONTINUED: Final = re.compile(r"[ \t]|#|-|$|[\]}]")
"""How a line begins that says no key of its own: it goes on with the one before it, or is a comment."""

_FENCE: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")
_OPENING: Final = re.compile(
    r"\\.|`+|<!--|\{/\*|\[\]\{#[\w:.-]{1,200}\}|<a\s+(?:id|name)=[\"'][^\"'<>]{0,200}[\"']\s*(?:/>|>\s*</a>)"
)
_CLOSINGS: Final = {"<!--": "-->", "{/*": "*/}"}
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]")
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_ANCHOR: Final = re.compile(r"[ \t]*\{:?[ \t]*[#.][^{}\n]{0,300}\}(?=[ \t]*#*[ \t]*$)")
_ATTRIBUTES: Final = re.compile(r"[ \t]*\{:[^{}\n]{0,300}\}[ \t]*$")
_INDENTED: Final = re.compile(r"(?: {4}|\t)")


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a page, and what its front matter says about it."""

    text: str
    matter: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keys in small letters."""
    problem: str | None = None
    """Why the front matter is not in order; then its keys are read line by line."""

    @property
    def title(self) -> str | None:
        return _line(self.matter.get("title"))

    def facts(self) -> dict[str, Any]:
        """Title, description, date and tags, as far as they are given."""
        said = {name: _line(self.matter.get(name)) for name in ("title", "description", "date")}
        found: dict[str, Any] = {name: value for name, value in said.items() if value}
        if tags := _tags(self.matter):
            found["tags"] = tags
        if self.problem:
            found["front_matter_error"] = self.problem
        return found


def read_source(markdown: str) -> Source:
    """Take the front matter off the text; line breaks are those of Unix."""
    for read in (_yaml, _toml, _json, _keys):
        found = read(markdown[: LONGEST_MATTER + 8])
        if found is not None:
            end, matter, problem = found
            return Source(markdown[end:], {str(key).lower(): value for key, value in matter.items()}, problem)
    return Source(markdown)


def page_text(markdown: str) -> str:
    """The text of the page: no front matter, no anchors, no comments."""
    return "\n".join(_shown(read_source(markdown).text))


type _Found = tuple[int, Mapping[Any, Any], str | None]
"""Where the text begins, what stands before it, and what is wrong with that."""


def _yaml(markdown: str) -> _Found | None:
    if (found := _DASHES.match(markdown)) is None:
        return None
    try:
        said = yaml.load(found[1], _loader())  # noqa: S506  a loader that makes nothing but plain values
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        said = _by_lines(found[1])
        return None if said is None else (found.end(), said, f"{type(exc).__name__}: it is read line by line")
    if said is None:
        return found.end(), {}, None
    # Without keys, these are two lines across the page with text between.
    return (found.end(), cast("dict[Any, Any]", said), None) if isinstance(said, dict) else None


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _toml(markdown: str) -> _Found | None:
    if (found := _PLUSES.match(markdown)) is None:
        return None
    try:
        said = tomllib.loads(found[1])
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as exc:
        lines = dict(re.findall(r"^([\w-]+)[ \t]*=[ \t]*[\"'](.*)[\"'][ \t]*$", found[1], re.MULTILINE))
        return (found.end(), lines, f"{type(exc).__name__}: it is read line by line") if lines else None
    return found.end(), said, None


def _json(markdown: str) -> _Found | None:
    if not re.match(r'\{\s*"', markdown):
        return None
    try:
        said, end = json.JSONDecoder().raw_decode(markdown)
    except (ValueError, RecursionError):
        return None
    rest = markdown[end:]
    # JSON with text after it, on a line of its own. Without, the page is JSON and nothing else.
    return (end, said, None) if isinstance(said, dict) and re.match(r"[ \t]*\n\s*\S", rest) else None


def _keys(markdown: str) -> _Found | None:
    """Lines of `Key: value` up to an empty line, one of them the title: as MultiMarkdown and MkDocs have it."""
    head, empty, _ = markdown.partition("\n\n")
    said = _by_lines(head)
    return (len(head) + len(empty), said, None) if said and any(key.lower() == "title" for key in said) else None


def _by_lines(text: str) -> dict[str, str] | None:
    """Keys with what stands behind them on their line; None where a line belongs to no key."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        if found := _KEY_VALUE.match(line):
            said[found[1]] = (found[2] or "").strip().strip("\"'")
        elif not said or not _CONTINUED.match(line):
            return None
    return said or None


def _line(value: object) -> str | None:
    if value is None or isinstance(value, (Mapping, list)):
        return None
    isoformat: Callable[[], str] | None = getattr(value, "isoformat", None)
    return " ".join((isoformat() if isoformat else str(value)).split())[:2000] or None


def _tags(matter: Mapping[str, Any]) -> list[str]:
    given = matter.get("tags")
    if given is None and isinstance(grouped := matter.get("taxonomies"), Mapping):
        given = cast("Mapping[str, Any]", grouped).get("tags")
    if isinstance(given, str):
        given = given.split("," if "," in given else None)
    if not isinstance(given, list):
        return []
    return [tag for each in cast("list[object]", given)[:100] if (tag := _line(each))]


def _shown(text: str) -> Iterator[str]:
    """The lines of the text as a reader of the page sees them."""
    lines, reader = text.split("\n"), _Comments(text)
    fence = ""
    for number, line in enumerate(lines):
        start = reader.start_of_line(line)
        if fence:
            yield line
            fence = "" if _ends(fence, line) else fence
        elif not reader.is_open and (found := _FENCE.match(line)):
            fence = found[1]
            yield line
        elif not reader.is_open and _INDENTED.match(line):
            yield line  # may be code
        else:
            was_open = reader.is_open
            shown = reader.without_comments(line, start)
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if shown == line or shown.strip():
                yield from _without_anchor(shown, is_heading=_is_heading(shown, following))
            elif was_open and not reader.is_open:
                yield ""  # what stood before a long comment, and what stands after it, are two paragraphs


def _ends(fence: str, line: str) -> bool:
    mark = line.strip(" \t>")
    return mark.startswith(fence) and not mark.strip(fence[0])


def _is_heading(line: str, following: str) -> bool:
    return bool(_HEADING.match(line) or (line.strip() and _UNDERLINE.match(following)))


def _without_anchor(line: str, *, is_heading: bool) -> Iterator[str]:
    if is_heading:
        yield _ANCHOR.sub("", line)
    elif not _ATTRIBUTES.match(line):
        yield line


class _Comments:
    """Takes comments out, line by line. One without an end is text: else all that follows it would be lost."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._closing = ""
        self._without_end = set[str]()

    @property
    def is_open(self) -> bool:
        return bool(self._closing)

    def start_of_line(self, line: str) -> int:
        start = self._at
        self._at += len(line) + 1
        return start

    def without_comments(self, line: str, start: int) -> str:
        """What the line shows; `start` is its place in the text."""
        shown, at = "", 0
        while at < len(line):
            if self._closing:
                end = line.find(self._closing, at)
                if end < 0:
                    return shown
                at, self._closing = end + len(self._closing), ""
                continue
            found = _OPENING.search(line, at)
            if found is None:
                return shown + line[at:]
            shown += line[at : found.start()]
            kept, at = self._after(line, found, start)
            shown += kept
        return shown

    def _after(self, line: str, found: re.Match[str], start: int) -> tuple[str, int]:
        """What is kept of what begins here, and where the line goes on."""
        mark, at = found[0], found.end()
        if mark[0] == "\\":
            return mark, at
        if mark[0] == "`":
            end = line.find(mark, at, at + _LONGEST_CODE)
            end = at if end < 0 else end + len(mark)
            return line[found.start() : end], end
        if mark not in _CLOSINGS:
            return "", at
        closing = _CLOSINGS[mark]
        if closing in self._without_end or self._text.find(closing, start + at) < 0:
            self._without_end.add(closing)
            return mark, at
        self._closing = closing
        return "", at
