"""The handlers that workflow files name. They are thin: the work is done by the modules they call.

    arguments    what they may ask for: the document, where it lives, the configurations of the steps before
    artifacts    reading what earlier steps made, and not making again what is there
    stages       validate, parse, chunk, embed, store
    events       handlers of lifecycle events

A step whose artifact exists for the same document and the same cumulative configuration does nothing, and says so.
"""

from __future__ import annotations

from soliplex.ingester.lib.workflow import arguments
from soliplex.ingester.lib.workflow.events import log_event

__all__ = ["arguments", "log_event"]
