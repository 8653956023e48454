"""What kind of document some bytes are, told from the bytes themselves.

Owns the order in which evidence counts: a signature, a look inside a container, what text looks like; then, for
plain text only, the name; last what the sender says. Knows no storage and no documents. It reads a file only where its
beginning does not suffice, and never more than a bounded part of it.
"""

from __future__ import annotations

from soliplex.ingester.lib.mime.detection import UNKNOWN, detect_mime_type, needs_file

__all__ = ["UNKNOWN", "detect_mime_type", "needs_file"]
