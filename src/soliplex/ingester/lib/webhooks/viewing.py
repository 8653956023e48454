"""What is told about webhooks: lists, the newest first, and one with all its tries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, func, select

from soliplex.ingester.lib.answers import Webhook, WebhookDetails, WebhookTry
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database, WebhookMessage, WebhookStatus, WorkflowRun
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page

SHOWN_OF_BODY: Final = 64 * 1024
"""Characters of a body that are shown."""
_M = WebhookMessage
# A message whose run has ended without it is nobody's any more: it was cancelled, or its run failed for another reason.
_IS_LEFT = sa.and_(col(_M.status) == WebhookStatus.PENDING, col(WorkflowRun.completed_date).is_not(None))
_STATUS = sa.case((_IS_LEFT, WebhookStatus.DEAD.value), else_=sa.cast(col(_M.status), sa.String))
_SHOWN = (
    *("id", "webhook_id", "stream", "sequence", "event_type", "url", "run_id"),
    *("created_at", "expires_at", "settled_at", "try_count"),
)


async def list_webhooks(
    *, status: WebhookStatus | None = None, stream: str | None = None, paging: Paging = FIRST_PAGE
) -> Page[Webhook]:
    """Webhooks, the newest first."""
    own = [_is_in(status)] if status is not None else []
    if stream is not None:
        own.append(col(_M.stream) == stream)
    columns: Any = [getattr(_M, name) for name in (*_SHOWN, "tries")]
    rows = paging.within(_joined(sa.select(*columns, _STATUS)).where(*own).order_by(col(_M.id).desc()))
    page = await read_page(rows, _joined(select(func.count()).select_from(_M)).where(*own), paging)
    return page.with_items([_webhook(row) for row in page.items])


async def get_webhook(message_id: int) -> WebhookDetails:
    """One webhook, with what is sent and every try that is known."""
    body, size = func.substr(col(_M.body), 1, SHOWN_OF_BODY), func.length(col(_M.body))
    columns: Any = [getattr(_M, name) for name in (*_SHOWN, "tries")]
    query = _joined(sa.select(body, size, col(_M.secret), *columns, _STATUS)).where(col(_M.id) == message_id)
    async with Database.session(read_only=True) as session:
        found: Any = (await session.exec(query)).first()
    if found is None:
        raise NotFoundError("webhook", message_id)
    text, length, secret, *row = found
    more: dict[str, Any] = {
        "body": text,
        "body_length": length,
        "secret": secret,
        "tries": [_try(each) for each in row[-2]],
    }
    return WebhookDetails(**_facts(row), **more)


def _joined(query: Any) -> Any:
    return query.join(WorkflowRun, col(WorkflowRun.id) == col(_M.run_id))


def _is_in(status: WebhookStatus) -> Any:
    stored = col(_M.status) == status
    match status:
        case WebhookStatus.PENDING:
            return sa.and_(stored, col(WorkflowRun.completed_date).is_(None))
        case WebhookStatus.DEAD:
            return sa.or_(stored, _IS_LEFT)
        case WebhookStatus.DELIVERED:
            return stored


def _webhook(row: Any) -> Webhook:
    return Webhook(**_facts(row))


def _facts(row: Any) -> dict[str, Any]:
    *facts, tries, status = row
    last_try = _try(tries[-1]) if tries else None
    return {**dict(zip(_SHOWN, facts, strict=True)), "status": WebhookStatus(status), "last_try": last_try}


def _try(record: dict[str, Any]) -> WebhookTry:
    facts: dict[str, Any] = record | {"at": datetime.fromisoformat(record["at"])}
    return WebhookTry(**facts)
