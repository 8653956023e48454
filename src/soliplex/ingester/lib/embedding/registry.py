"""The providers by name, and which is meant where a parameter set leaves that open."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.embedding import local, ollama, openai, wordllama
from soliplex.ingester.lib.embedding.embedders import Embedder
from soliplex.ingester.lib.embedding.options import EmbedOptions
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.wf.errors import suggestion
from soliplex.ingester.lib.wiring import get_settings

type Opening = Callable[[EmbedOptions, Settings], AbstractAsyncContextManager[Embedder]]

PROVIDERS: Final[dict[str, Opening]] = {
    local.NAME: local.open_local,
    wordllama.NAME: wordllama.open_wordllama,
    ollama.NAME: ollama.open_ollama,
    openai.NAME: openai.open_openai,
}

# The provider of a model by the beginning of its name, where no provider is given.
_PROVIDER_OF_MODEL: Final = (
    (re.compile(r"^(sentence-transformers/)?all-minilm-l6-v2$", re.IGNORECASE), local.NAME),
    (re.compile(r"^(wordllama|l2_supercat)$", re.IGNORECASE), wordllama.NAME),
    (re.compile(r"^text-embedding-", re.IGNORECASE), openai.NAME),
)


def open_embedder(options: EmbedOptions, settings: Settings | None = None) -> AbstractAsyncContextManager[Embedder]:
    """The embedder that the options name, for the time of the block."""
    return PROVIDERS[provider_of(options)](options, settings or get_settings())


def provider_of(options: EmbedOptions) -> str:
    """The provider that is named, or else the one known for the model; without a model, the local one."""
    name = options.provider or _provider_of_model(options.model)
    if name not in PROVIDERS:
        raise InvalidStepOptionError("embed.provider", f"{name!r} is none; {suggestion(name, PROVIDERS)}")
    return name


def _provider_of_model(model: str | None) -> str:
    if model is None:
        return local.NAME
    for pattern, provider in _PROVIDER_OF_MODEL:
        if pattern.match(model):
            return provider
    raise InvalidStepOptionError("embed.provider", f"who runs the model {model!r}? name one of {', '.join(PROVIDERS)}")
