"""`python -m soliplex.ingester.diag` is `si-diag`."""

from soliplex.ingester.diag.main import main

main()
