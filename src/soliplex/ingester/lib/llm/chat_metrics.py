"""What the calls of language models cost, in tokens and money, for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import Counter

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a million tokens sent and of a million tokens answered, in whatever currency the operator pays."""

    sent: float = 0.0
    answered: float = 0.0


def count_tokens(use: str, *, sent: int, answered: int, prices: Prices) -> None:
    """Note what one call has used."""
    tokens = _counters()["tokens"]
    tokens.labels(use=use, direction="sent").inc(sent)
    tokens.labels(use=use, direction="answered").inc(answered)
    _counters()["cost"].labels(use=use).inc((sent * prices.sent + answered * prices.answered) / _MILLION)


def count_question(use: str, outcome: str) -> None:
    """Note how a question ended: answered, repaired, unusable, unavailable or refused."""
    _counters()["questions"].labels(use=use, outcome=outcome).inc()


@cache
def _counters() -> dict[str, Counter]:
    from prometheus_client import Counter  # noqa: PLC0415  only where it is used

    return {
        "questions": Counter("soliplex_llm_questions", "Questions to the language model.", ("use", "outcome")),
        "tokens": Counter("soliplex_llm_tokens", "Tokens sent to the model, and answered.", ("use", "direction")),
        "cost": Counter("soliplex_llm_cost", "What the tokens cost, by the prices of the settings.", ("use",)),
    }
