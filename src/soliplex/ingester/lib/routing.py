"""Where a document goes: the first rule whose conditions all hold decides.

route:
  rules:
    - when: {mime_type: image/*}
      workflow: scans                 # another workflow; the rest of this one is skipped
    - when: {mime_type: application/pdf, min_pages: 300}
      branch: long                    # steps of this workflow
  branches: {long: [parse_in_parts], short: [parse_whole]}
  otherwise: {branch: short}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, JsonValue, model_validator

from soliplex.ingester.lib.step_options import StepOptions


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a document where it is routed."""

    mime_type: str
    size: int
    uri: str = ""
    source: str = ""
    pages: int | None = None
    language: str | None = None
    meta: Mapping[str, Any] | None = None


class Conditions(BaseModel):
    """All that are given must hold. Texts may hold `*` and `?`; of several, one must fit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mime_type: Patterns | None = None
    uri: Patterns | None = None
    source: Patterns | None = None
    language: Patterns | None = None
    min_size: ByteSize | None = None
    max_size: ByteSize | None = None
    min_pages: int | None = Field(default=None, ge=0)
    max_pages: int | None = Field(default=None, ge=0)
    meta: dict[str, JsonValue] | None = None
    """Fields of the metadata and what they must be; a list says what they may be."""

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"has no condition; give one of {', '.join(type(self).model_fields)}, or use `otherwise`")
        return self

    @property
    def asks_for_pages(self) -> bool:
        return self.min_pages is not None or self.max_pages is not None

    def hold_for(self, traits: Traits) -> bool:
        return (
            _fits(traits.mime_type.partition(";")[0].strip().lower(), self.mime_type)
            and _fits(traits.uri, self.uri)
            and _fits(traits.source, self.source)
            and _fits(traits.language, self.language)
            and _lies_between(traits.size, self.min_size, self.max_size)
            and _lies_between(traits.pages, self.min_pages, self.max_pages)
            and all(_is(traits.meta or {}, name, wanted) for name, wanted in (self.meta or {}).items())
        )


def _fits(value: str | None, patterns: Iterable[str] | None) -> bool:
    return patterns is None or (value is not None and any(fnmatchcase(value, each) for each in patterns))


def _lies_between(value: int | None, least: int | None, most: int | None) -> bool:
    if least is None and most is None:
        return True
    return value is not None and (least is None or value >= least) and (most is None or value <= most)


def _is(meta: Mapping[str, Any], name: str, wanted: JsonValue) -> bool:
    value = meta.get(name)
    return any(_same(value, each) for each in (wanted if isinstance(wanted, list) else [wanted]))


def _same(value: Any, wanted: JsonValue) -> bool:
    return fnmatchcase(value, wanted) if isinstance(value, str) and isinstance(wanted, str) else value == wanted


class Destination(BaseModel):
    """Another workflow, with parameters of its own if it needs them, or a branch of this one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workflow: str | None = None
    params: str | None = None
    branch: str | None = None

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.workflow is None) == (self.branch is None):
            raise ValueError("names no destination, or two; give either a workflow or a branch")
        if self.params is not None and self.workflow is None:
            raise ValueError("has params, which only go with a workflow")
        return self


class RouteRule(Destination):
    """Conditions, and where documents go for which they hold."""

    when: Conditions


class RouteOptions(StepOptions):
    """How the route step decides. A document for which no rule holds, without `otherwise`, goes on here."""

    step: ClassVar[str] = "route"

    rules: tuple[RouteRule, ...] = ()
    branches: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """The steps that belong to each branch. Those of other branches than the one taken are skipped."""
    otherwise: Destination | None = None

    @model_validator(mode="after")
    def _knows_its_branches(self) -> Self:
        named = [each.branch for each in (*self.rules, self.otherwise) if each is not None and each.branch is not None]
        for branch in named:
            if branch not in self.branches:
                known = ", ".join(self.branches) or "none is"
                raise ValueError(f"the branch {branch!r} is not defined in `branches`; known: {known}")
        if self.branches and self.otherwise is None:
            raise ValueError("has branches, but does not say which is taken where no rule holds; give `otherwise`")
        return self

    @property
    def asks_for_pages(self) -> bool:
        return any(rule.when.asks_for_pages for rule in self.rules)

    @property
    def asks_for_language(self) -> bool:
        return any(rule.when.language is not None for rule in self.rules)

    def choose(self, traits: Traits) -> Choice:
        """Where the document goes: by the first rule that holds, or as `otherwise` says; then the number is None."""
        for number, rule in enumerate(self.rules):
            if rule.when.hold_for(traits):
                return Choice(rule, number)
        return Choice(self.otherwise, None)

    def steps_not_in(self, branch: str) -> list[str]:
        """The steps of the other branches, in the order they are written in."""
        taken = self.branches[branch]
        others = (step for name, steps in self.branches.items() if name != branch for step in steps)
        return [step for step in dict.fromkeys(others) if step not in taken]


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a document goes, and the number of the rule that says so."""

    destination: Destination | None
    rule: int | None
