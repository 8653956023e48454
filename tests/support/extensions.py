"""The extensions of the engine, as in a process that has loaded none yet."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pytest

from soliplex.ingester.lib.wf import extensions
from soliplex.ingester.lib.wf.operations import belonging

SHIPPED: Final = "soliplex.ingester.lib.workflow.extension"


@contextmanager
def extensions_apart() -> Generator[None]:
    """No extension is loaded when the block begins, and what it loads is forgotten when it ends."""
    known = sys.modules.pop(SHIPPED, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extensions, "_loaded", set[str]())
        patch.setattr(extensions, "_own_pools", {})
        patch.setattr(extensions, "_tidying", {})
        patch.setattr(belonging, "_owner", [])
        yield
    # Whoever comes next and has not imported it yet must import it anew.
    sys.modules.pop(SHIPPED, None)
    if known is not None:
        sys.modules[SHIPPED] = known
