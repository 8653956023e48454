from __future__ import annotations

import asyncio
import os
import signal

import pytest

from soliplex.ingester.cli import stop_signals
from soliplex.ingester.cli.stop_signals import STOPPED_BY_SIGNAL, stopping_on_signals


async def test_the_first_signal_asks_and_the_second_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now, told, codes = [0.0], list[str](), list[int]()
    monkeypatch.setattr(stop_signals.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stop_signals.os, "_exit", codes.append)
    with stopping_on_signals(first=lambda: told.append("first"), parting="good bye") as event:
        os.kill(os.getpid(), signal.SIGTERM)
        await event.wait()
        os.kill(os.getpid(), signal.SIGINT)  # the same wish: a terminal and a supervisor often send both
        await _handled()
        assert (told, codes) == (["first"], [])
        now[0] = 2.0
        os.kill(os.getpid(), signal.SIGINT)
        await _handled()
        assert (told, codes) == (["first"], [STOPPED_BY_SIGNAL])
        assert capfd.readouterr().err == "good bye\n"


async def test_a_terminal_gets_its_cursor_back_and_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[bytes]()
    monkeypatch.setattr(stop_signals.os, "_exit", lambda _: None)
    monkeypatch.setattr(stop_signals.os, "isatty", lambda _: True)
    monkeypatch.setattr(stop_signals.os, "write", lambda _, text: written.append(text))
    now = [0.0]
    monkeypatch.setattr(stop_signals.time, "monotonic", lambda: now[0])
    with stopping_on_signals() as event:
        os.kill(os.getpid(), signal.SIGINT)
        await event.wait()
        now[0] = 2.0
        os.kill(os.getpid(), signal.SIGINT)
        await _handled()
    assert written == [b"\x1b[?25h\nstopped at once\n"]


async def test_a_second_ctrl_c_ends_at_once_also_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, codes = [0.0], list[int]()
    monkeypatch.setattr(stop_signals.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stop_signals.os, "_exit", codes.append)
    with stopping_on_signals() as event:
        os.kill(os.getpid(), signal.SIGINT)
        await event.wait()
        now[0] = 0.05  # passed on by a program around this one
        os.kill(os.getpid(), signal.SIGINT)
        await _handled()
        assert codes == []
        now[0] = 0.3
        os.kill(os.getpid(), signal.SIGINT)
        await _handled()
        assert codes == [STOPPED_BY_SIGNAL]


async def test_afterwards_signals_mean_what_they_meant_before() -> None:
    with stopping_on_signals() as event:
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not event.is_set()


async def _handled() -> None:
    """Let the loop take up the signals that have arrived."""
    for _ in range(3):
        await asyncio.sleep(0)
