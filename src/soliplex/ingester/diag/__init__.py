"""`si-diag`, which looks into an installation: its batches, documents, runs, locks and databases.

One file per group of commands, listed in `main.py`. Nothing imports this package.
"""

from soliplex.ingester.diag.main import main

__all__ = ["main"]
