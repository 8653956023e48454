"""Documents that a client names by their address instead of sending them: `input_uri`, `si-cli fetch`.

One file for each kind of place, which says in its first line how addresses look there, and a line for each scheme in
`registry.py`. Owns what may be fetched and how. Knows no batches, workflows or routes.

What a client may not have, it is told it may not have, in one kind of error, whatever the reason: an answer that told
apart "not there" and "not yours" below a forbidden folder would let strangers list this machine's files.
"""

from __future__ import annotations

from soliplex.ingester.lib.fetching.errors import FetchFailedError, InputRefusedError
from soliplex.ingester.lib.fetching.fetcher import Fetcher, fetch, see_scheme
from soliplex.ingester.lib.fetching.registry import SCHEMES, schemes_in_words
from soliplex.ingester.lib.fetching.wanted import Wanted, without_secrets

__all__ = [
    "SCHEMES",
    "FetchFailedError",
    "Fetcher",
    "InputRefusedError",
    "Wanted",
    "fetch",
    "schemes_in_words",
    "see_scheme",
    "without_secrets",
]
