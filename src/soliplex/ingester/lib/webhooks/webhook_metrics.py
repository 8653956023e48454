"""What becomes of webhooks, for Prometheus. Not by host: there may be any number of hosts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import Counter

COUNTERS: Final = {
    "webhook_delivered": "Webhooks that a receiver has taken.",
    "webhook_failed_tries": "Tries to deliver a webhook that were in vain.",
    "webhook_dead_letters": "Webhooks that were given up.",
    "webhook_circuits_opened": "Times that a host was left alone because it failed again and again.",
}


def count(name: str) -> None:
    _counters()[name].inc()


@cache
def _counters() -> dict[str, Counter]:
    from prometheus_client import Counter  # noqa: PLC0415  only where it is used

    return {name: Counter(f"soliplex_{name}", text) for name, text in COUNTERS.items()}
