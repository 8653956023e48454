"""How much longer it takes, as the clock and the stages say."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from rich.console import Console

from soliplex.ingester.cli.ingest.display import LineDisplay, LiveDisplay
from soliplex.ingester.cli.ingest.time_left import in_words
from soliplex.ingester.installation.stages import Stage
from soliplex.ingester.lib.wf.remaining import Remaining, Share


def share(at: float, done: float, total: float, name: str = "parse") -> Share:
    return Share(name, done, total, int(done), at)


def test_nothing_is_said_before_there_is_something_to_go_by() -> None:
    remaining = Remaining()
    assert remaining.seconds(0) is None
    for now, done in ((0, 0), (30, 0), (31, 1), (33, 9), (40, 2)):
        remaining.note([share(now, done, 1000)], now)
        assert remaining.seconds(now) is None, (now, done)


def test_the_time_of_loading_is_no_measure() -> None:
    remaining = Remaining()
    for now, done in ((0, 0), (60, 1), (70, 11)):
        remaining.note([share(now, done, 100)], now)
    assert remaining.seconds(70) == pytest.approx(89)


def test_the_stage_that_is_ready_last_decides() -> None:
    remaining = Remaining()
    for now in (0, 10):
        stages = [
            share(now, 1 + 9 * now, 100, "validate"),
            share(now, 1 + now, 100, "parse"),
            share(now, 0, 100, "store"),
        ]
        remaining.note(stages, now)
    assert remaining.seconds(10) == pytest.approx(89)


def test_nothing_is_said_while_a_stage_is_at_its_first_documents() -> None:
    remaining = Remaining()
    for now in (0, 10):
        parse = Share("parse", 0, 100, 0, now, is_starting=True)
        remaining.note([share(now, 1 + 9 * now, 100, "validate"), parse], now)
    assert remaining.seconds(10) is None
    remaining.note([share(10, 91, 100, "validate"), share(10, 1, 100)], 10)
    assert remaining.seconds(10) is not None


def test_a_stage_that_has_ended_says_nothing_more() -> None:
    remaining = Remaining()
    for now, done in ((0, 1), (10, 50), (20, 100)):
        remaining.note([share(now, done, 100)], now)
    assert remaining.seconds(20) is None


def test_what_is_left_goes_down_like_a_clock_though_documents_come_in_bursts() -> None:
    remaining, told = Remaining(), list[float]()
    for now in range(200):
        done = 1 + now // 20 * 20  # twenty at once, every twenty seconds
        remaining.note([share(now, done, 400)], now)
        left = remaining.seconds(now)
        if left is not None and now > 60:
            told.append(left)
    steps = [before - after for before, after in pairwise(told)]
    assert max(map(abs, steps)) < 15, "raw estimates jump by more than a minute"
    assert told[-1] == pytest.approx(400 - 199, rel=0.2)


def test_between_two_looks_the_clock_goes_on() -> None:
    remaining = Remaining()
    for now, done in ((0, 1), (10, 11)):
        remaining.note([share(now, done, 100)], now)
    assert remaining.seconds(30) == pytest.approx(69)
    assert remaining.seconds(1000) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "a few seconds left"),
        (42, "about 40 s left"),
        (59, "about 1 min left"),
        (61, "about 1 min left"),
        (154, "about 2 min 30 s left"),
        (1000, "about 17 min left"),
        (3590, "about 1 h left"),
        (3700, "about 1 h left"),
        (9000, "about 2 h 30 min left"),
    ],
)
def test_a_time_is_told_as_exactly_as_it_is_known(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_terminal_shows_one_time_for_all_steps() -> None:
    out, now = io.StringIO(), [0.0]
    console = Console(file=out, force_terminal=True, width=80)
    with LiveDisplay(console, clock=lambda: now[0]) as display:
        for second in range(21):
            now[0] = second
            for name, pace in (("validate", 4), ("parse", 1), ("embed", 1)):
                display.show(Stage(name=name, total=81, done=1 + pace * second, is_step=True))
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue().rpartition("validate")[2])
    assert last.count("left") == 1
    assert "about 1 min left" in last


def test_lines_tell_the_time_of_all_steps_as_such() -> None:
    out, now = io.StringIO(), [0.0]
    with LineDisplay(Console(file=out), clock=lambda: now[0]) as display:
        for second in range(12):
            now[0] = second
            display.show(Stage(name="parse", total=101, done=1 + second, is_step=True))
    assert out.getvalue() == "parse: 11/101, about 1 min 30 s left in all\n"
