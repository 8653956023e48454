"""Webhooks, as people and programs look at them and send them again: `si-cli webhooks` and `/api/v1/webhooks`."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.models import WebhookStatus
from soliplex.ingester.lib.webhooks import Enqueued, NewMessage, send_webhook
from soliplex.ingester.lib.webhooks.settling import Settled, rest_of, settle
from soliplex.ingester.lib.wf.operations import cancel_run
from tests.support.command_line import CommandLine
from tests.support.engine import START, rows_of

W = "/api/v1/webhooks"
TRIED: dict[str, Any] = {"at": "2026-11-18T12:00:00+00:00", "seconds": 0.25, "status": 410, "answer": "no more"}


async def enqueued(stream: str = "job-1") -> Enqueued:
    url = "https://example.org/hooks"
    message = NewMessage(stream=stream, url=url, event_type="job.completed", body={"status": "COMPLETED"})
    return await send_webhook(message, load_settings())


async def given_up(stream: str = "job-1") -> Enqueued:
    """A dead letter, as a worker leaves it; its run has ended."""
    sent = await enqueued(stream)
    [rest] = await rest_of([sent.run_id], expires_at=START)
    assert rest.next is not None
    await settle([Settled(rest.next, WebhookStatus.DEAD, TRIED, START)])
    await cancel_run(sent.run_id)
    return sent


async def statuses() -> list[str]:
    return [row[0] for row in await rows_of("SELECT status FROM webhookmessage ORDER BY id")]


async def test_webhooks_are_listed_and_shown_over_http(client: httpx.AsyncClient) -> None:
    dead, pending = await given_up(), await enqueued("job-2")
    assert [each["id"] for each in (await client.get(W)).json()] == [pending.id, dead.id]
    page = (await client.get(W, params={"status": "dead", "page": 1})).json()
    assert (page["total"], page["items"][0]["last_try"]["status"]) == (1, 410)
    assert [each["id"] for each in (await client.get(W, params={"stream": "job-2"})).json()] == [pending.id]
    shown = (await client.get(f"{W}/{dead.id}")).json()
    assert (shown["status"], shown["body"], shown["webhook_id"]) == ("DEAD", '{"status":"COMPLETED"}', dead.webhook_id)
    assert [(each["status"], each["answer"]) for each in shown["tries"]] == [(410, "no more")]


async def test_webhooks_are_redelivered_over_http(client: httpx.AsyncClient) -> None:
    first, _, _ = [await given_up(f"job-{number}") for number in (1, 2, 3)]
    assert (await client.post(f"{W}/{first.id}/redeliver")).json() == {"webhooks": 1}
    assert await statuses() == ["PENDING", "DEAD", "DEAD"]
    late = {"since": "2031-01-01T00:00:00Z"}
    assert (await client.post(f"{W}/redeliver", params=late)).json() == {"webhooks": 0}
    assert (await client.post(f"{W}/redeliver")).json() == {"webhooks": 2}
    assert await statuses() == ["PENDING"] * 3
    again = await client.post(f"{W}/{first.id}/redeliver")
    assert (again.status_code, again.json()["error"]) == (
        409,
        f"webhook {first.id} is still being tried: wait until it is delivered or given up",
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/4711", 404),
        ("POST", "/4711/redeliver", 404),
        ("GET", "/0", 422),
        ("GET", "?status=lost", 422),
        ("POST", "/redeliver?since=yesterday", 422),
        ("POST", "/redeliver?since=2026-11-18T06:00", 422),
        ("POST", "/redeliver?since=0.5", 422),
        ("POST", "/redeliver?since=0001-01-01T00:00:00%2B14:00", 422),
        ("GET", "/redeliver", 405),
        ("GET", "/some", 404),
    ],
)
async def test_wrong_requests_are_answered_with_4xx(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, f"{W}{path}")
    assert answer.status_code in {status, 400}, answer.text
    assert answer.json()["error"]


def test_webhooks_are_listed_shown_and_redelivered_by_commands(commands: CommandLine) -> None:
    assert commands("si-cli", "webhooks", "list").out == "no webhooks\n"
    dead = commands.given(given_up())
    commands.given(given_up("job-2"))
    listed = commands.json("si-cli", "webhooks", "list", "--status", "dead", "--stream", "job-1")
    assert [(each["id"], each["last_try"]["answer"]) for each in listed] == [(dead.id, "no more")]
    assert "job.completed" in commands("si-cli", "webhooks", "list").words
    shown = commands("si-cli", "webhooks", "show", str(dead.id))
    assert (shown.code, dead.webhook_id in shown.out, "no more" in shown.out) == (0, True, True)
    assert '{"status":"COMPLETED"}' in shown.out
    assert commands.json("si-cli", "webhooks", "show", str(dead.id))["tries"][0]["status"] == 410
    said = commands("si-cli", "webhooks", "redeliver", str(dead.id))
    assert (said.code, said.out) == (0, "1 webhook will be tried again, as soon as a worker runs\n")
    assert commands.json("si-cli", "webhooks", "redeliver", "--since", "2031-01-01T00:00Z") == {"webhooks": 0}
    assert commands.json("si-cli", "webhooks", "redeliver", "--all") == {"webhooks": 1}
    assert commands.given(statuses()) == ["PENDING", "PENDING"]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("redeliver",), 2, "give the id of a webhook, --all, or --since TIME"),
        (("redeliver", "1", "--all"), 2, "give the id of a webhook, --all, or --since TIME"),
        (("redeliver", "--since", "yesterday"), 2, "'yesterday' is not a time such as"),
        (("redeliver", "0"), 2, "0"),
        (("redeliver", "4711"), 1, "webhook 4711 does not exist"),
        (("show", "4711"), 1, "webhook 4711 does not exist"),
        (("list", "--status", "lost"), 2, "lost"),
    ],
)
def test_wrong_commands_say_what_is_wrong(
    commands: CommandLine, arguments: tuple[str, ...], code: int, error: str
) -> None:
    answer = commands("si-cli", "webhooks", *arguments)
    assert (answer.code, error in answer.err) == (code, True), answer
