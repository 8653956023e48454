"""Counting together: processes that count into files of a folder they share, so that whichever is asked tells of all.

A server or worker starts processes for the handlers of its steps, and these count too; a server may be several.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus-client knows of the folder. It looks when it is imported, and only then."""


@contextmanager
def counted_together() -> Generator[None]:
    """For the time of the block, this process and those it starts count into one folder; one that is given is used."""
    if FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="soliplex-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]
