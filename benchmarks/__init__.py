"""What the project does, in figures: `python -m benchmarks.NAME`, or all of them by `python -m benchmarks`.

A benchmark is a module here. It measures on the databases it names in DATABASES, shows its LINES, and prints one JSON
object with `--json`. Knows the project from outside: what it uses is what any program may use.
"""

from __future__ import annotations

import os

# Before pydantic: haiku.rag brings a plugin of logfire that every first use of pydantic would import, for two seconds.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")
