"""Metadata by rules: what a document's address, kind, title or text says about it, found by regular expressions.

    enrich:
      constants: {department: finance}
      language: true
      rules:
        - from: uri
          pattern: '/(?P<customer>[^/]+)/(?P<year>20\\d\\d)/'
        - from: text
          field: invoice
          pattern: 'Invoice no\\.? (\\d+)'

A pattern can take for ever on an unlucky text, and hold up everybody meanwhile: `apply_rules` belongs in a process that
can be killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from soliplex.ingester.lib.step_options import StepOptions

Origin = Literal["uri", "path", "name", "source", "mime_type", "title", "text"]
FieldName = Annotated[str, Field(min_length=1, max_length=100)]

LONGEST_VALUE: Final = 1_000
MOST_VALUES: Final = 100


class Rule(BaseModel):
    """A pattern, where to look for it, and what to call what it finds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    origin: Origin = Field(alias="from")
    pattern: str = Field(min_length=1)
    field: FieldName | None = None
    """Where the value goes. Without it, each named group of the pattern is a field."""
    value: str | int | float | bool | None = None
    """What the field gets; a text may refer to groups, as in `\\1`. Default: the first group, or all that was found."""
    kind: Literal["text", "integer", "number"] = Field(default="text", alias="as")
    every: bool = False
    """A list of all that is found, instead of what is found first."""
    ignore_case: bool = False

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        try:
            compiled = self.compiled()
        except re.error as exc:
            raise ValueError(f"the pattern {self.pattern!r} is no regular expression: {exc}") from exc
        if self.field is None and not compiled.groupindex:
            raise ValueError("give it a field, or name the groups of its pattern: (?P<year>\\d{4})")
        if self.field is None and self.value is not None:
            raise ValueError("has a value, but no field to put it into; give it one")
        if isinstance(self.value, str):
            _see_template(compiled, self.value)
        return self

    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0))


def _see_template(pattern: re.Pattern[str], template: str) -> None:
    try:
        pattern.sub(template, "")  # reads the template even where the pattern finds nothing
    except (re.error, IndexError) as exc:
        raise ValueError(f"the value {template!r} does not fit the pattern: {exc}") from exc


class EnrichOptions(StepOptions):
    """What the enrich step adds to a document's metadata. What is found by a later rule holds."""

    step: ClassVar[str] = "enrich"

    constants: dict[FieldName, JsonValue] = Field(default_factory=dict[str, JsonValue])
    rules: tuple[Rule, ...] = ()
    language: bool | FieldName = False
    """Tell the language: true puts it into `language`, a text into the field of that name."""
    keep_existing: bool = False
    """Leave alone what the document's metadata says already."""
    text_limit: int = Field(default=200_000, ge=1)
    """Characters at the beginning of the text that rules and the language look at."""

    @property
    def reads_text(self) -> bool:
        return bool(self.language) or any(rule.origin == "text" for rule in self.rules)

    @property
    def language_field(self) -> str | None:
        return "language" if self.language is True else self.language or None


def facts_of(uri: str, source: str | None, mime_type: str, meta: Mapping[str, Any]) -> dict[str, str]:
    """What rules can look at, besides the text."""
    path = unquote(urlsplit(uri).path if "://" in uri else uri)
    told = {
        "uri": uri,
        "path": path,
        "name": path.rstrip("/").rpartition("/")[2],
        "source": source,
        "mime_type": mime_type,
        "title": meta.get("title"),
    }
    return {name: str(value) for name, value in told.items() if value}


def apply_rules(options: EnrichOptions, facts: Mapping[str, str], text: str | None) -> dict[str, Any]:
    """The metadata that constants, rules and the language give."""
    looked_at = {**facts, **({} if text is None else {"text": text[: options.text_limit]})}
    found: dict[str, Any] = dict(options.constants)
    for rule in options.rules:
        found |= _found_by(rule, looked_at.get(rule.origin, ""))
    if options.language_field and text is not None:
        from soliplex.ingester.lib.language import language_of  # noqa: PLC0415  only where it is asked for

        language = language_of(looked_at["text"])
        found |= {options.language_field: language} if language else {}
    return found


def _found_by(rule: Rule, text: str) -> dict[str, Any]:
    matches = rule.compiled().finditer(text)
    if not rule.every:
        return next((dict(_values(rule, match)) for match in matches), {})
    gathered: dict[str, dict[Any, None]] = {}
    for match in matches:
        for name, value in _values(rule, match):
            values = gathered.setdefault(name, {})
            if len(values) < MOST_VALUES:
                values[value] = None
    return {name: list(values) for name, values in gathered.items()}


def _values(rule: Rule, match: re.Match[str]) -> Iterator[tuple[str, Any]]:
    given = match.groupdict().items() if rule.field is None else [(rule.field, _value(rule, match))]
    for name, value in given:
        converted = _converted(value, rule.kind)
        if converted is not None:
            yield name, converted


def _value(rule: Rule, match: re.Match[str]) -> Any:
    if isinstance(rule.value, str):
        return match.expand(rule.value)
    if rule.value is not None:
        return rule.value
    return match[1] if match.re.groups else match[0]


def _converted(value: Any, kind: str) -> Any:
    """The value as the rule wants it; None for what is empty, or is no number where one is wanted."""
    if not isinstance(value, str):
        return value
    tidy = " ".join(value.replace("\x00", " ").split())[:LONGEST_VALUE]
    try:
        match kind:
            case "integer":
                return int(tidy)
            case "number":
                return float(tidy)
            case _:
                return tidy or None
    except ValueError:
        return None
