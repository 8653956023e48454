"""Soliplex Ingester: documents in, a searchable knowledge base out, through durable workflows.

Importing this package imports nothing else, so that `si-cli --help` answers at once.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        return _installed_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _installed_version() -> str:
    from importlib import metadata  # noqa: PLC0415 - 20 ms that only --version and the server's title should pay

    try:
        return metadata.version("soliplex-ingester")
    except metadata.PackageNotFoundError:
        return "0+not-installed"
