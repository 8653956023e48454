from __future__ import annotations

import pytest

from soliplex.ingester.lib.embedding import EmbeddingRefusedError
from soliplex.ingester.lib.operations.failures import HOPELESS
from soliplex.ingester.lib.parsing.errors import ParserMissingError
from soliplex.ingester.lib.rag.opening import EmbeddingMismatchError
from soliplex.ingester.lib.step_options import InvalidStepOptionError


@pytest.mark.parametrize(
    "kind", [EmbeddingRefusedError, EmbeddingMismatchError, InvalidStepOptionError, ParserMissingError]
)
def test_what_a_key_a_parameter_or_a_package_can_put_right_is_worth_another_try(kind: type[Exception]) -> None:
    assert kind.__qualname__ not in HOPELESS
