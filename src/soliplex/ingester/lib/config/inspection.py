"""Reading the settings, and telling everything that is wrong with them at once."""

from __future__ import annotations

import copy
import difflib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from soliplex.ingester.lib.config.checks import Contradictions, Problem, Rule, Unfit
from soliplex.ingester.lib.config.fields import DELIMITER, Leaf, leaves
from soliplex.ingester.lib.config.settings import ENV_FILE, Settings, given_values
from soliplex.ingester.lib.config.sources import paths_in, put
from soliplex.ingester.lib.errors import ConfigurationError

_log = logging.getLogger(__name__)

# How alike a name must be to a setting's to count as its misspelling: API_KEYS and WORKER_TASKS_COUNT do;
# POSTGRES_USER, which another program may want in the same file, does not.
_ALIKE = 0.8

# What pydantic found, by the type of its error: the problem and the fix, filled in from the error.
_PHRASES: dict[str, tuple[str, str]] = {
    "int_parsing": ("{input!r} is not a whole number", "write digits only, such as {example}"),
    "int_from_float": ("{input!r} is not a whole number", "write digits only, such as {example}"),
    "float_parsing": ("{input!r} is not a number", "write digits only, such as {example}"),
    "finite_number": ("{input!r} is not a finite number", "write a number such as {example}"),
    "bool_parsing": ("{input!r} is neither true nor false", "write true or false"),
    "literal_error": ("{input!r} is not one of the choices", "write {expected}"),
    "greater_than": ("{input} is too small", "write a number greater than {gt:g}"),
    "greater_than_equal": ("{input} is too small", "write {ge:g} or more"),
    "byte_size": ("{input!r} is not a size", "write bytes, or a number with a unit such as {example}"),
    "byte_size_unit": ("{input!r} has no known unit", "write bytes, or a number with a unit such as {example}"),
    "string_too_short": ("is empty", "give it a value, or leave it out"),
    "model_type": ("is a group and has no value of its own", "set its parts, such as {name}__BUCKET"),
}
_OTHER = ("cannot be understood ({msg})", "write it as the settings reference shows")

# Raised for defaults that depend on a setting that is itself wrong; that setting is told of already.
_CONSEQUENCE = "default_factory_not_called"


class InvalidSettings(ConfigurationError):  # noqa: N818 - says what is the case, as the engine's errors do
    """One or more settings are wrong; the message has one line for each."""

    def __init__(self, found: Iterable[Problem]) -> None:
        self.problems = tuple(found)
        first = self.problems[0]
        super().__init__(first.setting, first.problem, first.fix)
        self.args = ("\n".join(str(problem) for problem in self.problems),)


@dataclass(frozen=True, slots=True)
class Report:
    """What the settings are and where each came from, or what is wrong with them."""

    settings: Settings | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])


def load_settings(*, env_file: Path | None = ENV_FILE, **overrides: Any) -> Settings:
    """Read and check the settings; raise `InvalidSettings`, which tells of every problem. An override wins over all."""
    report = inspect_settings(env_file=env_file, **overrides)
    if report.settings is None:
        raise InvalidSettings(report.problems)
    return report.settings


def problems(*, env_file: Path | None = ENV_FILE, **overrides: Any) -> list[Problem]:
    """Everything that is wrong with the settings as they would be read now."""
    return list(inspect_settings(env_file=env_file, **overrides).problems)


def log_warnings() -> None:
    """Tell whoever starts a server or a worker what `si-cli validate-settings` would warn of."""
    for warning in inspect_settings().warnings:
        _log.warning("%s", warning)


def inspect_settings(*, env_file: Path | None = ENV_FILE, **overrides: Any) -> Report:
    """Read the settings without raising: either they are good, or every problem is told."""
    if unknown := overrides.keys() - Settings.model_fields.keys():
        raise TypeError(f"no such settings: {', '.join(sorted(unknown))}")
    try:
        given = given_values(env_file, overrides)
    except ConfigurationError as error:
        return Report(None, (Problem(error.setting, error.problem, error.fix),))
    except (OSError, UnicodeDecodeError) as error:
        return Report(None, (Problem(str(env_file), f"cannot be read ({error})", "make it readable UTF-8 text"),))
    settings, found = _read(given)
    if settings is not None:
        found = list(_missing_folders(settings))
    return Report(
        settings=None if found else settings,
        problems=tuple(found),
        warnings=(*_misspellings(given), *_without_effect(given)),
        origins=_origins(given),
    )


type _Given = Mapping[str, Mapping[str, Any]]


def _read(given: _Given) -> tuple[Settings | None, list[Problem]]:
    settings, errors, broken = _attempt(given)
    if not errors:
        return settings, [rule.problem for rule in broken]
    found = [_describe(error) for error in errors if error["type"] != _CONSEQUENCE]
    # pydantic applies the rules only once every field is good. So put defaults for the bad ones and look again, without
    # the rules that would judge those defaults.
    bad = {_leaf_of(error).path for error in errors}
    names = {problem.setting for problem in found}
    _, _, broken = _attempt(_with_defaults(given, bad))
    return None, found + [rule.problem for rule in broken if not rule.settings & names]


def _attempt(given: _Given) -> tuple[Settings | None, list[ErrorDetails], tuple[Rule, ...]]:
    try:
        return Settings.of_places(given), [], ()
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        broken = [error["ctx"]["error"] for error in errors if not error["loc"] and "ctx" in error]
        rules = [rule for item in broken if isinstance(item, Contradictions) for rule in item.broken]
        return None, [error for error in errors if error["loc"]], tuple(rules)


def _with_defaults(given: _Given, bad: Iterable[tuple[str, ...]]) -> _Given:
    defaults = Settings.model_construct()
    replaced = copy.deepcopy(dict(given["argument"]))
    for path in bad:
        put(replaced, path, Leaf(path, Settings.model_fields[path[0]]).value_in(defaults))
    return {**given, "argument": replaced}


def _leaf_of(error: ErrorDetails) -> Leaf:
    """The leaf an error is about: an item of a list is told of as the list, a group as itself."""
    location = error["loc"]
    for leaf in leaves(Settings):
        if location[: len(leaf.path)] == leaf.path:
            return leaf
    name = str(location[0])
    return Leaf((name,), Settings.model_fields[name])


def _describe(error: ErrorDetails) -> Problem:
    leaf = _leaf_of(error)
    context = error.get("ctx", {})
    reason = context.get("error")
    if isinstance(reason, Unfit):
        return Problem(leaf.name, reason.problem, reason.fix)
    values = {**context, "input": error["input"], "msg": error["msg"], "name": leaf.name, "example": leaf.default}
    problem, fix = _PHRASES.get(error["type"], _OTHER)
    return Problem(leaf.name, problem.format_map(values), fix.format_map(values))


def _missing_folders(settings: Settings) -> Iterator[Problem]:
    for name, folder, fix in (
        ("WORKFLOW_DIR", settings.workflow_dir, "correct it, or make the folder with `si-cli init-config`"),
        ("PARAM_DIR", settings.param_dir, "correct it, or make the folder with `si-cli init-config`"),
        ("SECRETS_DIR", settings.secrets_dir, "correct it, or leave it out"),
        *(("INPUT_FILE_ROOTS", root, "correct it, or make the folder") for root in settings.input_file_roots),
    ):
        if folder is not None and not folder.is_dir():
            yield Problem(name, f"{folder.as_posix()!r} is not a folder", fix)


def _misspellings(given: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Names that set nothing and look as if they should: any in `.env`, and in the environment those of our groups."""
    known = {leaf.name: leaf for leaf in leaves(Settings)}
    groups = tuple({f"{leaf.path[0]}{DELIMITER}".upper() for leaf in known.values() if len(leaf.path) > 1})
    from_environment = [name.upper() for name in os.environ if name.upper().startswith(groups)]
    from_dotenv = [DELIMITER.join(path).upper() for path in paths_in(given[".env"])]
    for name in dict.fromkeys(from_environment + from_dotenv):
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        if name not in known and nearest:
            yield Problem(name, "is not a setting", f"did you mean {nearest[0]}?")


def _without_effect(given: _Given) -> Iterator[Problem]:
    """Settings that somebody has made, and that no code reads."""
    made = {path for values in given.values() for path in paths_in(values)}
    for leaf in leaves(Settings):
        if leaf.unused and leaf.path in made:
            yield Problem(leaf.name, "has no effect", f"leave it out. {leaf.unused}")


def _origins(given: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    places = {place: set(paths_in(values)) for place, values in given.items()}
    return {
        leaf.name: next((place for place, paths in places.items() if leaf.path in paths), "default")
        for leaf in leaves(Settings)
    }
