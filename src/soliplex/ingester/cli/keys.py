"""`si-cli key` and `si-cli audit`: who may use a server, and who did what."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.groups import rows_of, tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, Limit, echo, fields_of, print_json, print_rows
from soliplex.ingester.lib.enums import Scope

_KEYS = {
    "name": "name",
    "begins": "beginning",
    "scopes": "scopes",
    "created": "created_at",
    "by": "created_by",
    "expires": "expires_at",
    "last used": "last_used_at",
    "revoked": "revoked_at",
}
_ENTRIES = {"at": "at", "who": "actor", "via": "via", "what": "action", "of": "details", "outcome": "outcome"}
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called.")]


async def create(
    name: Name,
    *,
    scope: Annotated[
        list[Scope],
        typer.Option("--scope", "-s", help="What it may do; may be given several times.", case_sensitive=False),
    ],
    expires_in: Annotated[
        float | None, typer.Option("--expires-in", metavar="DAYS", min=0.001, max=36_500, help="Default: never.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a named API key, and print it: it is shown this once, and kept as a hash.

    `operate` includes `read`, and `admin` includes all scopes.
    """
    async with open_target(server, tell) as target:
        made = await target.create_key(name, scope, expires_in_days=expires_in)
    if as_json:
        print_json(made)
        return
    echo(made.key)
    echo(f"Keep it now: it cannot be shown again. It may: {', '.join(made.scopes)}.", err=True)


async def list_(
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Those too that were revoked.")] = False,
    server: Server = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List named API keys, the newest first."""
    async with open_target(server, tell) as target:
        found, total = await target.keys(revoked=revoked, limit=rows_of(limit))
    rows = found if as_json else [{**fields_of(each), "scopes": ", ".join(each.scopes)} for each in found]
    print_rows(rows, _KEYS, as_json=as_json, nothing="no named keys", total=total)


async def revoke(name: Name, *, server: Server = None, as_json: AsJson = False) -> None:
    """Revoke a named API key: it opens nothing from now on, and its browsers are logged out."""
    async with open_target(server, tell) as target:
        revoked = await target.revoke_key(name)
    if as_json:
        print_json(revoked)
    else:
        echo(f"the key {revoked.name} is revoked")


async def audit(
    *,
    actor: Annotated[str | None, typer.Option("--actor", help="Only what this key or user did.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Only this kind of act, as it is listed.")] = None,
    server: Server = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show who stopped, repeated or deleted what.

    The newest first. Entries are kept for good.
    """
    async with open_target(server, tell) as target:
        found, total = await target.audit(actor=actor, action=action, limit=rows_of(limit))
    rows = found if as_json else [{**fields_of(each), "details": _words(each.details)} for each in found]
    print_rows(rows, _ENTRIES, as_json=as_json, nothing="nothing was stopped, repeated or deleted", total=total)


def _words(details: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in details.items())
