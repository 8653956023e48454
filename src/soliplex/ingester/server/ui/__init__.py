"""The web UI: the files that `scripts/ui.sh` builds from `ui/`, below `/ui/`.

    built_files.py  what was built, found again when it is built anew
    routes.py       `/ui/`, and each file below it

The pages are the same on every server and for everybody, so they are open; all they show they read from the REST API
and the feed of changes, with the session of who uses them. Their addresses are relative to where they are shown: they
work below any root path, and nothing is written into them.
"""

from __future__ import annotations

from soliplex.ingester.server.ui.built_files import is_built
from soliplex.ingester.server.ui.routes import HOME, POLICY, router

__all__ = ["HOME", "POLICY", "is_built", "router"]
