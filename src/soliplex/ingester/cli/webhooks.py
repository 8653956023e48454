"""`si-cli webhooks`: messages to receivers outside."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.groups import rows_of, tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import (
    AsJson,
    Limit,
    as_cell,
    counted,
    echo,
    echo_lines,
    fields_of,
    print_json,
    print_rows,
)
from soliplex.ingester.lib.enums import WebhookStatus

if TYPE_CHECKING:
    from soliplex.ingester.lib.answers import Webhook, WebhookDetails

_WEBHOOKS = {
    "webhook": "id",
    "stream": "stream",
    "number": "sequence",
    "event": "event_type",
    "status": "status",
    "tries": "try_count",
    "last answer": "outcome",
    "created": "created_at",
    "settled": "settled_at",
    "to": "url",
}
_TRIES = {"at": "at", "seconds": "seconds", "status": "status", "answer": "answer", "error": "error"}
_FACTS = {
    "id for the receiver": "webhook_id",
    "stream": "stream",
    "number in it": "sequence",
    "event": "event_type",
    "to": "url",
    "status": "status",
    "run": "run_id",
    "key": "secret",
    "created": "created_at",
    "given up after": "expires_at",
    "settled": "settled_at",
}
Id = Annotated[int, typer.Argument(metavar="WEBHOOK", min=1, help="Id of a webhook, as `list` shows it.")]


async def list_(
    *,
    status: Annotated[
        WebhookStatus | None, typer.Option("--status", case_sensitive=False, help="Only these; dead: dead letters.")
    ] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="Only those of this stream.")] = None,
    server: Server = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List webhooks, the newest first, each with what came of its last try."""
    async with open_target(server, tell) as target:
        found, total = await target.webhooks(status=status, stream=stream, limit=rows_of(limit))
    rows = found if as_json else [{**fields_of(each), "outcome": _outcome(each)} for each in found]
    print_rows(rows, _WEBHOOKS, as_json=as_json, nothing="no webhooks", total=total)


async def show(message_id: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Show a webhook: what is sent, and what came of each try."""
    async with open_target(server, tell) as target:
        found = await target.webhook(message_id)
    if as_json:
        print_json(found)
    else:
        _print(found)


async def redeliver(
    message_id: Annotated[
        int | None, typer.Argument(metavar="[WEBHOOK]", min=1, help="Id of a webhook, whatever became of it.")
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Dead letters since then, such as 2026-11-18T06:00Z.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Try a webhook again, or all dead letters, or those that were given up since a time."""
    if sum((message_id is not None, all_, since is not None)) != 1:
        raise typer.BadParameter("give the id of a webhook, --all, or --since TIME")
    moment = None if since is None else _moment(since)
    async with open_target(server, tell) as target:
        done = await (target.redeliver_dead(moment) if message_id is None else target.redeliver(message_id))
    if as_json:
        print_json(done)
    else:
        echo(f"{counted(done.webhooks, 'webhook')} will be tried again, as soon as a worker runs")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-11-18T06:00Z", param_hint="--since") from exc
    return moment.astimezone()  # without a zone, it is the local time


def _outcome(webhook: Webhook) -> str:
    last = webhook.last_try
    return "" if last is None else last.error or str(last.status)


def _print(found: WebhookDetails) -> None:
    facts = fields_of(found)
    for name, field in _FACTS.items():
        if (value := facts[field]) is not None:
            echo(f"{name}: {as_cell(value)}")
    print_rows(found.tries, _TRIES, as_json=False, nothing="not tried yet")
    rest = found.body_length - len(found.body)
    echo_lines(f"{found.body}… and {rest:,} characters more" if rest else found.body)
