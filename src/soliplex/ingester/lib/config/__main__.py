"""`python -m soliplex.ingester.lib.config` writes the settings reference to standard output."""

import sys

from soliplex.ingester.lib.config.reference import reference_page

sys.stdout.write(reference_page())
