"""How the databases run the statements of webhooks: by index, however many messages there have been."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.models import Database, WebhookMessage, WebhookStatus
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import NewMessage, send_webhook
from soliplex.ingester.lib.webhooks.sql import SQL
from tests.support.engine import START, Driver

RUN: dict[str, Any] = {"runs": [1]}
STATEMENTS: dict[str, dict[str, Any]] = {
    "run_of_pending": {"stream": "job-1"},
    "message_by_webhook_id": {"webhook_id": "msg_1"},
    "next_messages": RUN,
    "dead_of_runs": RUN,
    "settle_messages": {"results": Json([{"id": 5, "status": "DEAD", "try_count": 1, "tries": []}]), "now": START},
    "revive_dead": {**RUN, "expires_at": START},
    "message_to_redeliver": {"id": 17},
    "dead_letters_of_run": {"run_id": 1, "since": START},
    "others_pending": {"run_id": 1, "ids": [17]},
    "put_back": {"run_id": 1, "ids": [17], "expires_at": START},
}


async def fill() -> None:
    """One busy run whose messages are delivered, but for a few."""
    settings = load_settings()
    message = NewMessage(stream="job-0", url="https://example.org", event_type="t", body={})
    sent = await send_webhook(message, settings, now=START)
    rows = [
        WebhookMessage(
            webhook_id=f"msg_{number}",
            stream=f"job-{number % 50}",
            sequence=number + 10,
            run_id=sent.run_id,
            url=message.url,
            event_type="t",
            body="{}",
            status=WebhookStatus.PENDING if number % 1000 == 0 else WebhookStatus.DELIVERED,
            settled_at=None if number % 1000 == 0 else START,
            expires_at=START + timedelta(days=1),
        )
        for number in range(6_000)
    ]
    async with Database.session() as session:
        session.add_all(rows)
    if Database.is_postgres():
        async with Database.engine().connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("ANALYZE webhookmessage")


def explained(name: str) -> Script[str]:
    call = getattr(SQL, name)(**STATEMENTS[name])
    statement = call.statement
    prefix = "EXPLAIN" if Database.is_postgres() else "EXPLAIN QUERY PLAN"
    changed = type(statement)(
        statement.name,
        f"{prefix} {statement.sqlite}",
        f"{prefix} {statement.postgres}",
        statement.postgres_order,
    )
    rows = yield call._replace(statement=changed)
    return "\n".join(str(row[0] if Database.is_postgres() else row["detail"]) for row in rows)


async def test_no_statement_reads_all_messages(driver: Driver) -> None:
    await fill()
    for name in STATEMENTS:
        plan = await Database.transact(explained(name))
        assert "Seq Scan on webhookmessage" not in plan, f"{name}\n{plan}"
        assert "SCAN webhookmessage" not in plan, f"{name}\n{plan}"
        assert "SCAN m\n" not in f"{plan}\n", f"{name}\n{plan}"
