"""What converters of notations raise."""

from __future__ import annotations


class NotationError(ValueError):
    """The text is not in the notation that it was taken for."""
