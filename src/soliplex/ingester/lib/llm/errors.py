"""The errors of language models; the whole tree is drawn in `lib/errors.py`.

None of them repeats what a model or a server said in its own words: servers quote the prompt, or a part of the key.
"""

from __future__ import annotations

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.wf.errors import PermanentError


class ChatError(IngesterError):
    """Base of the errors of language models."""

    def __init__(self, use: str, problem: str) -> None:
        super().__init__(f"language model, {use}: {problem}")
        self.use = use
        self.problem = problem


class ChatUnavailableError(ChatError):
    """The model does not answer now; trying again may help."""


class UnusableAnswerError(ChatError):
    """The model answered twice with what does not fit; asked once more, it may answer otherwise."""


class ChatRefusedError(ChatError, PermanentError):
    """The model will not answer this, however often it is asked; names what to change."""
