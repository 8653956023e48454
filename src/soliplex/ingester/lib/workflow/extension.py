"""What the engine is given for its work on documents. ENGINE_EXTENSIONS names this module."""

from __future__ import annotations

from soliplex.ingester.lib.operations.batches.keeping import BatchKeeper
from soliplex.ingester.lib.step_types import STEP_TYPES
from soliplex.ingester.lib.webhooks import WEBHOOK_STEPS
from soliplex.ingester.lib.wf.extensions import decides, own_pool
from soliplex.ingester.lib.wf.operations.belonging import set_owner
from soliplex.ingester.lib.workflow import arguments
from soliplex.ingester.lib.workflow.skipping import DECIDING, reason_to_skip

__all__ = ["arguments"]

set_owner(BatchKeeper())
for step_type in STEP_TYPES:
    if step_type.slots is not None:
        own_pool(str(step_type.name), step_type.slots)
own_pool(WEBHOOK_STEPS, lambda settings: settings.webhook_hosts_at_once)
for deciding in DECIDING:
    decides(str(deciding), reason_to_skip)
