"""How long a text may be that is read whole."""

from __future__ import annotations

from soliplex.ingester.lib.parsing.errors import too_much_text
from soliplex.ingester.lib.wiring import current_wiring


def see_size_of_text(size: int) -> None:
    """Refuse a text of so many bytes or characters, if that is more than TEXT_SIZE_LIMIT."""
    limit = current_wiring().settings.text_size_limit
    if size > limit:
        raise too_much_text(size, limit)
