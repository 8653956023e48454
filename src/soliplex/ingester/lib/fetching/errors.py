"""The errors of fetching; the whole tree is drawn in `lib/errors.py`."""

from __future__ import annotations

from typing import Final

from soliplex.ingester.lib.errors import IngesterError, InvalidInputError
from soliplex.ingester.lib.fetching.wanted import without_secrets

FIELD: Final = "input_uri"


class InputRefusedError(InvalidInputError):
    """The address may not be fetched, or nothing is there."""

    def __init__(self, problem: str, field: str = FIELD) -> None:
        super().__init__(field, problem)


class FetchFailedError(IngesterError):
    """The place exists and may be asked, but did not give the document; trying again may help."""

    def __init__(self, uri: str, problem: str) -> None:
        super().__init__(f"{without_secrets(uri)} could not be fetched: {problem}")
        self.problem = problem
