"""`si-cli`, the command line: one file per group of commands, each listed in `main.py`.

A command parses its arguments, calls the library and prints. What it calls is imported inside the command, so that
`si-cli --help` stays fast; nothing imports this package.
"""

from soliplex.ingester.cli.main import main

__all__ = ["main"]
