"""Webhooks: signed messages for receivers outside that arrive, however often it takes, in the order of their stream.

Owns the rows of messages, their delivery and their signatures. Knows no documents, no jobs, no HTTP server.

    send_webhook, enqueue ──▶ webhookmessage, and a run of the workflow `webhook` for the stream
                                   │ claimed by any worker, host by host (resource key webhook:HOST)
                                   ▼
    deliver: the next message of the run ──▶ POST ──▶ settle: delivered, or again later, or dead
                 ▲                                        │ the next message of the run, if there is one
                 └────────────────────────────────────────┘

**One run delivers, message by message.** Whoever enqueues holds the stream. If a message of it is pending, the new one
joins that message's run; if none is, a new run is started. Whoever settles a message holds the stream, too, and in the
same transaction looks for the next of its run. So a run that sees no next message will never be given one, and two runs
never deliver the messages of a stream at the same time.

**What a crash leaves.** A process that is killed before a try was recorded leaves the message pending: it is tried
again, under the same `webhook-id`, by which receivers know what they have had. The next message goes out only after
that. A step that is parked for its back-off is a row; so is everything else.

**A dead letter** is a message that was given up: its run ends FAILED, after it has delivered what came later. Retrying
that run, or redelivering the message, which does that, tries it again.
"""

from __future__ import annotations

from soliplex.ingester.lib.webhooks.enqueueing import (
    WEBHOOK_STEPS,
    Enqueued,
    Sending,
    enqueue,
    forget_stream,
    prepare_sending,
    send_webhook,
)
from soliplex.ingester.lib.webhooks.messages import LARGEST_BODY, NewMessage
from soliplex.ingester.lib.webhooks.redelivering import redeliver, redeliver_dead
from soliplex.ingester.lib.webhooks.targets import check_target
from soliplex.ingester.lib.webhooks.viewing import get_webhook, list_webhooks

__all__ = [
    "LARGEST_BODY",
    "WEBHOOK_STEPS",
    "Enqueued",
    "NewMessage",
    "Sending",
    "check_target",
    "enqueue",
    "forget_stream",
    "get_webhook",
    "list_webhooks",
    "prepare_sending",
    "redeliver",
    "redeliver_dead",
    "send_webhook",
]
