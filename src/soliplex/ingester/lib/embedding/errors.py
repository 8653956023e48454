"""The errors of embedding; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from datetime import timedelta

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.wf.errors import PermanentError


class EmbeddingError(IngesterError):
    """Base of the embedding layer's errors."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"{provider}: {problem}")
        self.provider = provider
        self.problem = problem


class EmbedderUnavailableError(EmbeddingError):
    """The provider cannot embed now; trying again may help."""

    def __init__(self, provider: str, problem: str, retry_after: timedelta | None = None) -> None:
        super().__init__(provider, problem)
        self.retry_after = retry_after
        """How long the provider asks to be left alone, if it said so."""


class EmbeddingRefusedError(EmbeddingError, PermanentError):
    """The provider will not embed this, however often it is asked; names what to change."""
