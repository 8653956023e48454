"""Decisions about webhooks: when a host is left alone, when a message is tried again, and how it is signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from soliplex.ingester.lib.config import InvalidSettings, load_settings
from soliplex.ingester.lib.models import WebhookStatus
from soliplex.ingester.lib.webhooks.circuits import Circuits
from soliplex.ingester.lib.webhooks.delivering import Courier
from soliplex.ingester.lib.webhooks.messages import server_of
from soliplex.ingester.lib.webhooks.settling import MOST_TRIES_KEPT, Message, Settled
from soliplex.ingester.lib.webhooks.signing import headers_for, keys_named
from soliplex.ingester.lib.webhooks.trying import Try, Verdict, post

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OLD, NEW = "b2xkLWtleS1vbGQta2V5LW9sZC1rZXk=", "bmV3LWtleS1uZXcta2V5LW5ldy1rZXk="
IN_VAIN = Try(Verdict.AGAIN, host_works=False, error="no answer")


def message(**facts: Any) -> Message:
    given: dict[str, Any] = {"url": "https://example.org", "body": "{}", "secret": None, "try_count": 0, "tries": []}
    given |= {"id": 1, "webhook_id": "msg_1", "stream": "s", "run_id": 1, "expires_at": NOW + timedelta(days=1)}
    return Message(**given | facts)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_listens_at_another_port_is_another_server() -> None:
    addresses = ("https://A.example/x", "https://u:p@a.example/y", "http://a.example:8080/x", "http://[::1]:81/")
    assert [server_of(each) for each in addresses] == ["a.example", "a.example", "a.example:8080", "::1:81"]


def test_a_host_that_failed_often_is_left_alone_and_then_tried_once() -> None:
    clock = Clock()
    circuits = Circuits(failures=3, pause=timedelta(seconds=60), clock=clock)
    assert [circuits.note("h", works=False) for _ in range(3)] == [False, False, True]
    assert circuits.time_to_wait("h") == timedelta(seconds=60)
    assert circuits.time_to_wait("other") == timedelta()
    clock.now = 60
    assert circuits.time_to_wait("h") == timedelta()
    assert circuits.time_to_wait("h") == timedelta(seconds=60), "one tries, the others wait"
    assert not circuits.note("h", works=False)
    assert circuits.time_to_wait("h") == timedelta(seconds=60)
    circuits.note("h", works=True)
    assert circuits.time_to_wait("h") == timedelta()


def test_one_success_between_failures_keeps_a_host_in_use() -> None:
    circuits = Circuits(failures=2, pause=timedelta(seconds=60), clock=Clock())
    for works in (False, True, False):
        circuits.note("h", works=works)
    assert circuits.time_to_wait("h") == timedelta()


def delays(tries: int, **facts: Any) -> list[float]:
    courier = Courier(load_settings(), clock=lambda: NOW)
    return [courier._delay_after(message(try_count=count, **facts), IN_VAIN).total_seconds() for count in range(tries)]


def test_pauses_double_up_to_an_hour_and_are_shortened_by_up_to_a_half() -> None:
    expected = [5 * 2**number for number in range(9)] + [1280 * 2, 3600, 3600]
    for pause, longest in zip(delays(12), expected, strict=True):
        assert longest / 2 <= pause <= longest


def test_within_a_day_a_message_is_tried_dozens_of_times() -> None:
    assert 25 < 10 + (86_400 - sum(delays(10))) / 3600 < 60


def test_the_last_try_is_made_when_the_time_is_over() -> None:
    assert delays(20, expires_at=NOW + timedelta(seconds=1)) == [1.0] * 20
    assert delays(1, expires_at=NOW - timedelta(days=1)) == [0.0]


@pytest.mark.parametrize(
    ("verdict", "expires_in", "status"),
    [
        (Verdict.DELIVERED, -1, WebhookStatus.DELIVERED),
        (Verdict.AGAIN, 1, WebhookStatus.PENDING),
        (Verdict.AGAIN, 0, WebhookStatus.DEAD),
        (Verdict.GIVE_UP, 1, WebhookStatus.DEAD),
    ],
)
def test_what_a_try_means_depends_on_the_time_left(verdict: Verdict, expires_in: int, status: WebhookStatus) -> None:
    courier = Courier(load_settings(), clock=lambda: NOW)
    tried = message(expires_at=NOW + timedelta(seconds=expires_in))
    assert courier._status_after(tried, Try(verdict, host_works=True)) is status


def test_only_the_last_tries_are_kept() -> None:
    packed = Settled(
        message(tries=[{"n": n} for n in range(80)], try_count=80), WebhookStatus.PENDING, {}, NOW
    ).packed()
    assert (len(packed["tries"]), packed["try_count"]) == (MOST_TRIES_KEPT, 81)


def test_any_of_the_keys_verifies_and_no_other() -> None:
    settings = load_settings(webhook_signing_secret=f"{NEW},whsec_{OLD}", webhook_secrets=f'{{"own": "{OLD}"}}')
    now = datetime.now(UTC)
    headers = headers_for("msg_1", b'{"a":1}', keys_named(None, settings), now)
    for key in (NEW, OLD):
        assert Webhook(key).verify(b'{"a":1}', headers) == {"a": 1}
    own = headers_for("msg_1", b"{}", keys_named("own", settings), now)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(b"{}", own)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(b'{"a":2}', headers)
    assert "webhook-signature" not in headers_for("msg_1", b"{}", [], now)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("webhook_signing_secret", "not base64!"),
        ("webhook_signing_secret", f"{NEW},"),
        ("webhook_secrets", "[]"),
        ("webhook_secrets", '{"a": "not base64!"}'),
        ("webhook_allowed_targets", "10.0.0.0/99"),
        ("webhook_allowed_targets", "http://inside.example"),
        ("webhook_longest_delay_seconds", "1"),
    ],
)
def test_wrong_settings_are_told_by_name_and_without_the_secret(setting: str, value: str) -> None:
    given: dict[str, Any] = {setting: value}
    with pytest.raises(InvalidSettings, match=setting.upper()) as caught:
        load_settings(**given)
    assert "secret" not in setting or value not in str(caught.value)


async def test_a_receiver_is_given_as_much_time_as_the_setting_says() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(204, stream=httpx.ByteStream(b""))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), timeout=30) as client:
        tried = await post(client, "https://example.org/x", b"{}", {}, limit=timedelta(minutes=5))
    assert tried.verdict is Verdict.DELIVERED
    assert set(asked[0].extensions["timeout"].values()) == {300.0}
