"""Keys that are pressed while something is shown, each as soon as it is pressed."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def keys_told(tell: Callable[[str], None]) -> Generator[None]:
    """For the time of the block, `tell` is told of each key, where a person sits before the terminal.

    Ctrl-C stays a signal. What the terminal was like before, it is again afterwards.
    """
    if not sys.stdin.isatty():
        yield
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        pressed = os.read(descriptor, 64)
        if not pressed:  # the terminal is gone
            loop.remove_reader(descriptor)
        for key in pressed.decode(errors="replace"):
            tell(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
