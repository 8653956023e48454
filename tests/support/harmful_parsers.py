"""A parser that does to its process what hostile documents do to real ones, if the document says so.

STALL   goes into C and does not come back, holding the interpreter; with EVERYWHERE also in the parser `fast`
CRASH   dies of a signal, as C++ does on a wild pointer
FILL    takes all memory there is
"""

from __future__ import annotations

import ctypes
import re
import signal
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.parsing import ParseOptions
from soliplex.ingester.lib.parsing.parsed_files import About, ParsedFiles, parse_to_files

METHOD: Final = f"{__name__}.parse"
MIB: Final = 1 << 20


def parse(
    parser: str, path: Path, mime_type: str, options: ParseOptions, into: ParsedFiles, *, in_hand: int = 0
) -> About:
    """As the parser `fast` does it, which any other falls back to, and which is spared."""
    content = path.read_bytes()
    if parser != "fast" or b"STALL EVERYWHERE" in content:
        _harm(content, options)
    if b"NO WAY" in content:
        raise AssertionError("the document must not get here")
    return parse_to_files("fast", path, mime_type, options, into, in_hand=in_hand)


def _harm(content: bytes, options: ParseOptions) -> None:
    if b"STALL" in content:
        re.match(r"(a+)+$", "a" * 60 + "b")
    if b"FILL" in content:
        _hold = [bytearray(16 * MIB) for _ in range(1000)]
    crashing = re.search(rb"CRASH ON PAGE (\d+)", content)
    if crashing and options.page_range and options.page_range[0] <= int(crashing[1]) <= options.page_range[1]:
        ctypes.string_at(1)
    if crashing is None and b"CRASH" in content and (b"EVERYWHERE" in content or options.pdf_backend is None):
        signal.raise_signal(signal.SIGABRT)
