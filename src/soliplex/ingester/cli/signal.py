"""`si-cli signal`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, echo, print_json
from soliplex.ingester.lib.errors import InvalidInputError

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.answers import SentSignal


async def signal(
    key: Annotated[str, typer.Argument(metavar="KEY", help="What the step waits for.")],
    *,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="What the step is given. Default: null.")
    ] = None,
    payload_file: Annotated[
        typer.FileBinaryRead | None,
        typer.Option("--payload-file", metavar="FILE", help="A file that holds it; - is standard input."),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Send a signal to the step that waits for it.

    If no step waits for the key, the signal is kept for the next one that does. Sent twice, it is two signals.
    """
    value = _checked(key, payload, payload_file)
    async with open_target(server, tell) as target:
        sent = await target.signal(key, value)
    if as_json:
        print_json(sent)
    else:
        echo(_in_words(sent))


def _checked(key: str, payload: str | None, file: typer.FileBinaryRead | None) -> Any:
    """The payload as JSON. A wrong payload or key is wrong usage, with and without a server."""
    from soliplex.ingester.lib.storable import parse_json
    from soliplex.ingester.lib.wf.errors import PayloadTooLargeError
    from soliplex.ingester.lib.wf.waiting import LARGEST_PAYLOAD, check_payload, own_key

    if payload is not None and file is not None:
        raise typer.BadParameter("give one of --payload and --payload-file")
    try:
        own_key(key)
        text = (payload or "").encode("utf-8", "surrogateescape") if file is None else file.read(LARGEST_PAYLOAD + 1)
        if len(text) > LARGEST_PAYLOAD:
            raise PayloadTooLargeError(LARGEST_PAYLOAD)
        value = parse_json("payload", text) if text or payload is not None or file is not None else None
        check_payload(value)
    except InvalidInputError as error:
        raise typer.BadParameter(error.problem, param_hint=_hint(error.field, file)) from None
    return value


def _hint(field: str, file: typer.FileBinaryRead | None) -> str:
    return "KEY" if field == "key" else "--payload" if file is None else "--payload-file"


def _in_words(sent: SentSignal) -> str:
    from soliplex.ingester.lib.wf.answers import SignalStanding

    match sent.standing:
        case SignalStanding.TAKEN:
            fate = "a step has taken it"
        case SignalStanding.AWAITED:
            worker = (
                "a worker brings it there" if sent.has_workers else "no worker is running that could bring it there"
            )
            fate = f"a step waits for it, and {worker}"
        case SignalStanding.KEPT:
            fate = "no step waits for it now; the next one that does will have it"
    return f"signal {sent.id} to {sent.key!r} is recorded: {fate}"
