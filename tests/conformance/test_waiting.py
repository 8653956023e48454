"""Waiting: a step that asks to be called again is no burden to anybody, and no signal for it is lost or doubled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database, RunStatus
from soliplex.ingester.lib.models.workflows import NEVER
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.errors import PayloadTooLargeError
from soliplex.ingester.lib.wf.views import SignalStanding
from soliplex.ingester.lib.wf.waiting import LARGEST_PAYLOAD
from tests.support.engine import (
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    linear,
    parked,
    rows_of,
    scalar,
    workflow,
)

HOUR = timedelta(hours=1)


async def signals() -> list[tuple[str, bool]]:
    return [(key, bool(is_new)) for key, is_new in await rows_of("SELECT key, is_new FROM signal ORDER BY id")]


async def test_a_step_that_asks_for_another_call_gets_its_state_back_and_uses_no_attempt(driver: Driver) -> None:
    await driver.start(linear("a", retries=2))
    step = await driver.claim_one()
    await driver.finish(errored(step))
    step = await driver.claim_one()
    assert step.state is None

    finished = await driver.finish(parked(step, state={"page": 2}))

    assert (finished.parked, finished.ready_types) == ({step.id}, {"a"})
    again = await driver.claim_one()
    assert (again.id, again.state, again.answer) == (step.id, {"page": 2}, None)
    row = await driver.step(step.id)
    assert (row.retry, row.repeats, row.status) == (0, 1, RunStatus.RUNNING)
    await driver.finish(completed(again))
    await assert_consistent()


async def test_a_step_that_asks_for_a_later_call_is_not_claimed_before(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(parked(step, delay=HOUR, state=1))

    assert await driver.claim() == []
    driver.pass_time(HOUR)

    assert (await driver.claim_one()).state == 1


async def test_a_step_that_waits_is_resumed_by_a_signal_with_its_payload(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(parked(step, awaits="approval", state="asked"))
    assert await driver.claim() == []
    row = await driver.step(step.id)
    assert (row.awaits, row.available_at, row.lease_token) == ("approval", NEVER, None)
    assert row.status_message == "waits for the signal 'approval'"

    await driver.signal("approval", {"by": "Ada"})
    assert await driver.claim() == []  # nobody has brought it to the step yet
    await driver.deliver()

    resumed = await driver.claim_one()
    assert (resumed.id, resumed.state, resumed.answer) == (step.id, "asked", {"by": "Ada"})
    assert await signals() == []
    await assert_consistent()


async def test_a_signal_that_comes_first_waits_for_its_step(driver: Driver) -> None:
    await driver.start(linear("a"))
    await driver.signal("early", 1)
    await driver.deliver()
    assert await signals() == [("early", False)]
    step = await driver.claim_one()

    finished = await driver.finish(parked(step, awaits="early"))

    assert finished.ready_types == {"a"}
    assert (await driver.claim_one()).answer == 1
    assert await signals() == []


async def test_a_signal_that_nobody_has_looked_at_is_taken_by_the_step_that_is_parked(driver: Driver) -> None:
    await driver.start(linear("a"))
    await driver.signal("early", 1)
    await driver.finish(parked(await driver.claim_one(), awaits="early"))
    assert (await driver.claim_one()).answer == 1
    await driver.deliver()
    assert await signals() == []


async def test_each_signal_resumes_one_step_in_the_order_of_their_coming(driver: Driver) -> None:
    await driver.start(linear("a"), 3)
    steps = await driver.claim(3)
    await driver.finish(*(parked(step, awaits="ticket") for step in steps))
    for number in (1, 2):
        await driver.signal("ticket", number)
    await driver.deliver()
    assert [(step.id, step.answer) for step in await driver.claim()] == [(steps[0].id, 1), (steps[1].id, 2)]
    assert (await driver.step(steps[2].id)).awaits == "ticket"
    await assert_consistent()


async def test_a_second_signal_stays_for_the_next_wait(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(parked(step, awaits="bell"))
    await driver.signal("bell", 1)
    await driver.signal("bell", 2)
    await driver.deliver()
    first = await driver.claim_one()
    assert first.answer == 1
    await driver.finish(parked(first, awaits="bell"))
    assert (await driver.claim_one()).answer == 2
    assert await signals() == []


async def test_a_wait_that_runs_out_resumes_the_step_without_an_answer(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(parked(step, awaits="late", delay=HOUR, state="asked"))
    assert "until 2030-01-01 01:00:00 UTC" in ((await driver.step(step.id)).status_message or "")
    driver.pass_time(HOUR)

    resumed = await driver.claim_one()

    assert (resumed.state, resumed.answer) == ("asked", None)
    await driver.signal("late")
    await driver.deliver()
    assert await signals() == [("late", False)]
    await assert_consistent()


async def test_an_attempt_that_fails_is_repeated_with_the_same_state_and_answer(driver: Driver) -> None:
    await driver.start(linear("a", retries=2))
    await driver.finish(parked(await driver.claim_one(), awaits="k", state=[1]))
    await driver.signal("k", "yes")
    await driver.deliver()
    await driver.finish(errored(await driver.claim_one()))
    again = await driver.claim_one()
    assert (again.state, again.answer) == ([1], "yes")


async def test_cancelling_reaches_a_step_that_waits_and_a_retry_begins_it_anew(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(parked(step, awaits="k", state="asked"))

    await ops.cancel_run_group(created.group_id, now=driver.now())

    assert (await driver.run(created.run_ids[0])).status == RunStatus.CANCELLED
    await driver.signal("k")
    await driver.deliver()
    assert await signals() == [("k", False)]
    await assert_consistent()
    await ops.retry_run_group(created.group_id, now=driver.now())
    assert (await driver.claim_one()).state is None


async def test_a_hard_retry_reaches_a_step_that_waits(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    await driver.finish(parked(await driver.claim_one(), awaits="k", state="asked"))
    await ops.retry_run_group(created.group_id, hard=True, now=driver.now())
    step = await driver.claim_one()
    row = await driver.step(step.id)
    assert (step.state, step.answer, row.awaits, row.repeats) == (None, None, None, 0)
    await assert_consistent()


async def test_a_failed_sibling_ends_a_step_that_waits(driver: Driver) -> None:
    created = await driver.start(workflow({"a": {"depends_on": []}, "b": {"depends_on": []}}))
    a, b = await driver.claim(2)
    await driver.finish(parked(a, awaits="k"))
    await driver.fail(b)
    assert (await driver.run(created.run_ids[0])).status == RunStatus.FAILED
    assert (await driver.step(a.id)).awaits is None
    await assert_consistent()


async def test_deleting_a_group_deletes_the_steps_of_it_that_wait(driver: Driver) -> None:
    created = await driver.start(linear("a"))
    await driver.finish(parked(await driver.claim_one(), awaits="k"))
    await ops.delete_run_group(created.group_id)
    assert await scalar("SELECT count(*) FROM runstep") == 0
    await driver.signal("k")
    await driver.deliver()
    assert await signals() == [("k", False)]


async def test_a_late_wish_to_wait_changes_nothing(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(completed(step))
    finished = await driver.finish(parked(step, awaits="k"))
    assert finished.lost == {step.id}
    assert (await driver.step(step.id)).status == RunStatus.COMPLETED


async def test_a_task_of_a_map_may_wait(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}}), [ops.NewRun(input=[1, 2])])
    await driver.finish(expanded(await driver.claim_one(), [1, 2]))
    one, two = await driver.claim(2)
    await driver.finish(parked(one, awaits="k"), completed(two, 2))
    await driver.signal("k", "now")
    await driver.deliver()
    await driver.complete(await driver.claim_one(), output=1)
    assert (await driver.run(created.run_ids[0])).output == {"m": [1, 2]}
    await assert_consistent()


async def test_no_signal_is_shelved_while_a_step_is_being_parked_on_its_key(driver: Driver) -> None:
    if not Database.is_postgres():
        pytest.skip("SQLite has one writer: nothing can come between")
    await driver.start(linear("a"))
    step = await driver.claim_one()
    async with Database.engine().connect() as connection:
        # The lock that a parking transaction holds from its look at the signals to its end.
        await connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended('soliplex-signal:k', 0))")
        await driver.signal("k", 7)
        await ops.deliver_signals(now=driver.now())
        assert await signals() == [("k", True)]
        await connection.rollback()
    await driver.finish(parked(step, awaits="k"))
    assert (await driver.claim_one()).answer == 7


async def test_steps_and_signals_that_come_all_at_once_meet_one_to_one(driver: Driver) -> None:
    await driver.start(linear("a"), 60)
    steps = await driver.claim(60)

    async def wait(number: int) -> None:
        await ops.finish_steps([parked(steps[number], awaits=f"key-{number % 20}")], now=driver.now())

    async def send(number: int) -> None:
        await ops.send_signal(f"key-{number % 20}", number, now=driver.now())

    async def deliver() -> None:
        await ops.deliver_signals(now=driver.now())

    deeds = [deed(number) for number in range(60) for deed in (wait, send)]
    await asyncio.gather(*deeds, *(deliver() for _ in range(20)))
    await driver.deliver()

    answers = sorted(step.answer for step in await driver.claim(100))
    assert answers == list(range(60))
    assert await signals() == []
    await assert_consistent()


@pytest.mark.parametrize("key", ["", "  ", "k" * 501, "a\0b"])
async def test_a_key_that_no_signal_can_have_is_refused_by_name(driver: Driver, key: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^key: "):
        await ops.send_signal(key)


async def test_a_payload_that_is_too_large_is_refused_with_the_limit(driver: Driver) -> None:
    with pytest.raises(PayloadTooLargeError, match=f"payload: is larger than {LARGEST_PAYLOAD} bytes of JSON"):
        await ops.send_signal("k", "x" * (10 << 20))
    assert await signals() == []


@pytest.mark.parametrize("payload", [float("nan"), {"a": object()}, "half \ud800"])
async def test_a_payload_that_is_no_json_is_refused_by_name(driver: Driver, payload: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^payload: "):
        await ops.send_signal("k", payload)
    assert await signals() == []


async def test_the_sender_of_a_signal_is_told_how_it_stands(driver: Driver) -> None:
    async def standing(signal_id: int) -> SignalStanding:
        return (await views.standing_of_signal(signal_id, "k")).standing

    await driver.start(linear("a"))
    step = await driver.claim_one()
    early = await driver.signal("k")
    assert await standing(early) is SignalStanding.KEPT
    await driver.finish(parked(step, awaits="k"))
    assert await standing(early) is SignalStanding.TAKEN

    await driver.finish(parked(await driver.claim_one(), awaits="k"))
    first, second = await driver.signal("k"), await driver.signal("k")
    assert [await standing(each) for each in (first, second)] == [SignalStanding.AWAITED, SignalStanding.KEPT]
    await driver.deliver()
    assert [await standing(each) for each in (first, second)] == [SignalStanding.TAKEN, SignalStanding.KEPT]


async def test_the_sender_is_told_whether_anybody_could_bring_the_signal_to_its_step(driver: Driver) -> None:
    sent = await driver.signal("k")
    assert not (await views.standing_of_signal(sent, "k")).has_workers
    await ops.check_in("worker", now=driver.now())
    assert (await views.standing_of_signal(sent, "k")).has_workers
