"""`python -m soliplex.ingester.cli` is `si-cli`."""

from soliplex.ingester.cli.main import main

main()
