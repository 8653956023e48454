"""`si-cli top`: arguments in; one frame for scripts, or frames until somebody leaves."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, echo, print_json

if TYPE_CHECKING:
    from rich.live import Live

    from soliplex.ingester.installation.overview import Overview
    from soliplex.ingester.installation.protocol import Installation

_HERE = "this installation"
_LEAVING = frozenset({"q", "Q", "\x1b", "\x04"})
"""Keys that leave: q, Escape, and Ctrl-D."""


async def top(
    *,
    server: Server = None,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and stop.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show live what goes on, and what fails.

    It looks again every two seconds, until q or Ctrl-C is pressed. With --once or --json, it looks once, for scripts.
    """
    is_live = not once and not as_json
    if is_live and not (sys.stdout.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter("there is no terminal to show it in; use --once or --json", param_hint="top")
    teller = _Teller()
    async with open_target(server, teller.tell) as target:
        if is_live:
            await _watch(target, server or _HERE, every, teller)
        else:
            _print(await target.overview(), server or _HERE, as_json=as_json)


class _Teller:
    """What has to be said beside the frame: a server that keeps us waiting, a warning of the log."""

    def __init__(self) -> None:
        self.note = ""
        self.is_shown = False

    def tell(self, text: str) -> None:
        self.note = text
        if not self.is_shown:
            echo(text, err=True)


def _print(overview: Overview, where: str, *, as_json: bool) -> None:
    from soliplex.ingester.cli.top.frame import NARROW, frame

    if as_json:
        print_json(overview)
        return
    out = console()
    out.print(frame(overview, where=where), width=out.width if out.is_terminal else NARROW)


async def _watch(target: Installation, where: str, every: float, teller: _Teller) -> None:
    from rich.live import Live

    from soliplex.ingester.cli.stop_signals import stopping_on_signals
    from soliplex.ingester.cli.top.pressed_keys import keys_told
    from soliplex.ingester.lib.config import get_settings
    from soliplex.ingester.lib.logs import logged_beside

    # What is logged goes below the frame, and not across it, also where the log is else JSON.
    settings = get_settings().model_copy(update={"log_format": "console"})
    first, out = await target.overview(), console(stderr=True)
    with logged_beside(settings, teller.tell) as err, stopping_on_signals() as leaving:
        if err is not None:
            out.file = err

        def press(key: str) -> None:
            if key in _LEAVING:
                leaving.set()

        with keys_told(press), Live(console=out, screen=True, auto_refresh=False) as live:
            teller.is_shown = True
            await _show_until(leaving, target, first, live, where, every, teller)
        teller.is_shown = False


async def _show_until(
    leaving: asyncio.Event,
    target: Installation,
    overview: Overview,
    live: Live,
    where: str,
    every: float,
    teller: _Teller,
) -> None:
    from soliplex.ingester.cli.top.frame import frame

    while True:
        live.update(frame(overview, where=where, height=live.console.height, note=teller.note), refresh=True)
        teller.note = ""
        found = asyncio.create_task(_next(target, every))
        left = asyncio.create_task(leaving.wait())
        await asyncio.wait({found, left}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.is_set():
            found.cancel()
            await asyncio.gather(found, return_exceptions=True)
            return
        left.cancel()
        overview = await found


async def _next(target: Installation, seconds: float) -> Overview:
    await asyncio.sleep(seconds)
    return await target.overview()
