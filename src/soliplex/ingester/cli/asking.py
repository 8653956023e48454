"""Asking before something is deleted. Where nobody can answer, the caller names the option that does."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer

from soliplex.ingester.lib.visible import visible


def can_be_asked() -> bool:
    """Whether somebody sits before the terminal."""
    return sys.stdin.isatty()


def is_confirmed(question: str) -> bool:
    """Ask a person; pressing return alone means no."""
    with _ended_by_ctrl_c():
        return typer.confirm(visible(question), err=True)


@contextmanager
def _ended_by_ctrl_c() -> Generator[None]:
    """While somebody is asked, Ctrl-C ends the command: an event loop would only note it, and go on waiting."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
