"""Watching run groups until they have ended, with a worker in this process and a bar for each step."""

from __future__ import annotations

from collections.abc import Sequence

from soliplex.ingester.cli.ingest.display import display_for, undisturbed
from soliplex.ingester.cli.output import console
from soliplex.ingester.cli.stop_signals import STOPPED_BY_SIGNAL, stopping_on_signals
from soliplex.ingester.installation.following import Followed, follow_groups
from soliplex.ingester.installation.protocol import Target


async def watch_groups(target: Target, group_ids: Sequence[int]) -> Followed:
    """Follow the groups until all have ended, or a signal tells us to stop."""
    display = display_for(console(stderr=True))
    with undisturbed(display), stopping_on_signals() as stopping:
        return await follow_groups(target, group_ids, display, stopping)


def exit_code_of(followed: Followed) -> int:
    return STOPPED_BY_SIGNAL if followed.is_stopped else int(not followed.is_success)
