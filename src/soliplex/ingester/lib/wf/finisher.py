"""The finisher: one task per worker that records results.

While one transaction is under way, results gather; the next takes them all. So a busy worker commits hundreds of steps
at once, and an idle one commits each step as soon as it is done. While other steps are being executed and few results
have come, a result waits a few milliseconds for others: a commit costs as much for one result as for ten.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from typing import Final

from soliplex.ingester.lib.wf.duties import Duty
from soliplex.ingester.lib.wf.execution import LONGEST_MESSAGE, storable_text
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE, Doubts, SteadyLink, is_about_the_data
from soliplex.ingester.lib.wf.metrics import Metrics
from soliplex.ingester.lib.wf.operations.finish import Finished, Following, finish_steps
from soliplex.ingester.lib.wf.probes import Probe
from soliplex.ingester.lib.wf.work import Errored, Released, Result

_log = logging.getLogger(__name__)

LARGEST_GROUP: Final = 1_000
COMPANY: Final = 8
"""So many results are committed at once, without waiting for more."""
LONGEST_WAIT: Final = 0.004
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
ENOUGH: Final = 5
"""After so many failures in a row that are not the database's, the results themselves are at fault."""
LAST_WORDS: Final = "the step failed, and its error could not be stored"


class Finisher:
    """Takes results, and sees that every one of them is recorded or found to have lost its lease."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        probe: Probe | None,
        clock: Callable[[], datetime],
        on_finished: Callable[[Finished], None],
        following: Callable[[], Following | None],
        expects_more: Callable[[], bool],
        doubts: Doubts,
    ) -> None:
        self._metrics = metrics
        self._probe = probe
        self._clock = clock
        self._on_finished = on_finished
        self._following = following
        self._expects_more = expects_more
        self._doubts = doubts
        self._link = SteadyLink()
        self._waiting: list[Result] = []
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, results: Sequence[Result]) -> None:
        self._waiting += results
        self._idle.clear()
        self._arrived.set()

    @property
    def backlog(self) -> int:
        return len(self._waiting)

    async def drain(self) -> None:
        """Wait until everything submitted so far is recorded."""
        await self._idle.wait()

    def duty(self) -> Duty:
        return Duty(name="finisher", round=self.record_once, at_end=self._link.close)

    async def record_once(self) -> None:
        """Wait for results, and record them."""
        await self._arrived.wait()
        if len(self._waiting) < COMPANY and self._expects_more():
            await asyncio.sleep(LONGEST_WAIT)
        group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
        if not self._waiting:
            self._arrived.clear()
        try:
            await self._record(group)
        except BaseException:
            self.submit(group)  # results that were recorded already have no lease any more, and change nothing
            raise
        if not self._waiting:
            self._idle.set()

    async def _record(self, group: list[Result]) -> None:
        pause = FIRST_PAUSE
        for number in count(1):
            following = None
            try:
                following = self._following()
                await self._reach("before_finish")
                finished = await finish_steps(group, following=following, link=self._link, now=self._clock())
                await self._reach("after_finish")
            except Exception as exc:  # noqa: BLE001  whatever it is: a worker that records no more only seems to work
                if following is not None:
                    self._doubts.add(following.lease)
                is_a_mistake = not isinstance(exc, TROUBLES_OF_THE_DATABASE)
                if is_about_the_data(exc) or (is_a_mistake and number >= ENOUGH):
                    await self._record_apart(group, exc)
                    return
                # If the commit went through and only its answer was lost, the leases will not match: nothing is done
                # twice.
                _log.warning("%d results cannot be recorded yet: %s", len(group), exc, exc_info=is_a_mistake)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._tell(finished, following)
                return

    def _tell(self, finished: Finished, following: Following | None) -> None:
        """Tell everybody who waits for the results.

        An error in telling is only logged, since the results are recorded.
        """
        try:
            self._on_finished(finished)
        except Exception:  # noqa: BLE001  it must not look as if nothing had been recorded
            _log.exception("results are recorded, but not everybody could be told")
            if following is not None:
                self._doubts.add(following.lease)  # the steps that were claimed along may have reached no pool
        try:
            count_finished(self._metrics, finished)
        except Exception:  # noqa: BLE001  as above
            _log.exception("results are recorded, but could not be counted")

    async def _record_apart(self, group: list[Result], exc: BaseException) -> None:
        """Record results of which the database refuses one.

        They are halved until that one stands alone, so that all others are recorded.
        """
        if len(group) > 1:
            middle = len(group) // 2
            await self._record(group[:middle])
            await self._record(group[middle:])
            return
        result = group[0]
        message = storable_text(f"the result could not be stored: {exc}")[:LONGEST_MESSAGE]
        _log.error("step %d: %s", result.step_id, message)
        if isinstance(result, Released) or (isinstance(result, Errored) and result.message == LAST_WORDS):
            return  # there is no simpler result; the step stays ours until we end
        if isinstance(result, Errored):
            message = LAST_WORDS  # not even the error can be stored as it is: it is told in our words
        replacement = Errored(
            step_id=result.step_id, run_id=result.run_id, lease=result.lease, message=message, permanent=True
        )
        await self._record([replacement])

    async def _reach(self, point: str) -> None:
        if self._probe is not None:
            await self._probe.reach(point)


def count_finished(metrics: Metrics, finished: Finished) -> None:
    """Count what a transaction has recorded."""
    for name, ids in (
        ("step_completed", finished.completed),
        ("step_error", finished.errored),
        ("step_failed", finished.failed),
        ("step_released", finished.released),
    ):
        if ids:
            metrics.incr(name, len(ids))
    if finished.lost:
        metrics.incr("lease_lost", len(finished.lost), phase="finish")
    for status, count_of_runs in Counter(finished.ended_runs.values()).items():
        metrics.incr("run_ended", count_of_runs, status=status)
    for seconds in finished.ended_groups.values():
        metrics.observe("group_duration", seconds)
