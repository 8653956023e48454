"""`Settings`: all areas in one immutable object whose parts are known to fit together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Self, override

from pydantic import BaseModel, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from soliplex.ingester.lib.config.areas import (
    DOCKER_SECRETS_DIR,
    DatabaseSettings,
    DocumentSettings,
    GeneralSettings,
    LanguageModelSettings,
    OrchestratorSettings,
    SegmenterSettings,
    ServerSettings,
    StorageSettings,
    TraceSettings,
    WebhookSettings,
    WorkerSettings,
    WorkflowSettings,
)
from soliplex.ingester.lib.config.checks import Contradictions, broken_rules
from soliplex.ingester.lib.config.fields import DELIMITER
from soliplex.ingester.lib.config.sources import SecretFiles

ENV_FILE = Path(".env")

AREAS: dict[str, type[BaseSettings]] = {
    "General": GeneralSettings,
    "Database": DatabaseSettings,
    "Storage": StorageSettings,
    "Documents": DocumentSettings,
    "Workflows": WorkflowSettings,
    "Workers": WorkerSettings,
    "Traces": TraceSettings,
    "Server": ServerSettings,
    "Language model": LanguageModelSettings,
    "Webhooks": WebhookSettings,
    "Segmenter": SegmenterSettings,
    "Orchestrator": OrchestratorSettings,
}


class Settings(
    DatabaseSettings,
    StorageSettings,
    DocumentSettings,
    WorkflowSettings,
    WorkerSettings,
    TraceSettings,
    ServerSettings,
    LanguageModelSettings,
    WebhookSettings,
    SegmenterSettings,
    OrchestratorSettings,
):
    """Every setting. A function that needs one area can ask for that area's class, which this one is."""

    model_config = SettingsConfigDict(
        env_file=ENV_FILE,
        env_nested_delimiter=DELIMITER,
        # A variable passed through empty, as container files do, is one that is not set.
        env_ignore_empty=True,
        # Lists are read by validators, whose refusals are collected; the library's decoding stops at the first.
        enable_decoding=False,
        extra="ignore",
        frozen=True,
    )

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        places = [InitSettingsSource(cls, place()) for place in (init_settings, env_settings, dotenv_settings)]
        return (*places, _secret_files(*(place.init_kwargs for place in places)))

    @classmethod
    def of_places(cls, given: Mapping[str, Mapping[str, Any]]) -> Self:
        """The settings of places that have been read (`given_values`), which `Settings()` would read once more."""
        settings, nothing = cls.__new__(cls), dict[str, Any]()
        BaseModel.__init__(settings, **reduce(_laid_over, reversed([*given.values()]), nothing))
        return settings

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if broken := broken_rules(self):
            raise Contradictions(broken)
        return self


def given_values(env_file: Path | None, overrides: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What each place gives, as nested dictionaries of raw values; the place that wins comes first."""
    environment = EnvSettingsSource(Settings)()
    # Where there is no file, the library still looks for every setting in it.
    is_there = env_file is not None and env_file.expanduser().exists()
    dotenv = DotEnvSettingsSource(Settings, env_file=env_file)() if is_there else {}
    return {
        "argument": overrides,
        "environment": environment,
        ".env": dotenv,
        "secret file": _secret_files(overrides, environment, dotenv)(),
    }


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What stands above wins; of a group that stands in both, setting by setting."""
    inner: dict[str, Any] = {
        name: _laid_over(below[name], value)
        for name, value in above.items()
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
    }
    return {**below, **above, **inner}


def _secret_files(*places: Mapping[str, Any]) -> SecretFiles:
    folder = next((place["secrets_dir"] for place in places if place.get("secrets_dir")), DOCKER_SECRETS_DIR)
    return SecretFiles(Settings, Path(folder).expanduser())
