"""`python -m tests.chaos`: trouble for some minutes, on one database or on both, and what is true afterwards."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.chaos.clients import Book, Client
from tests.chaos.installation import PATIENCE, ROOT, Installation, have_mounts_of_its_own, installation
from tests.chaos.monkey import Monkey
from tests.chaos.outcome import Outcome, check, settle
from tests.support import command_main
from tests.support.faults import Nursery, eventually
from tests.support.stores_agree import Kind

PROCESSES: Final = ("server", "server with worker", "worker", "worker")
NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
SHOWN: Final = 40


class BrokenPromiseError(Exception):
    """Something is lost, doubled, or not as it should be."""


def main() -> None:
    """Run, print what was done and what was found, and end with 1 if anything was wrong."""
    options = _options()
    have_mounts_of_its_own()
    nursery = Nursery("--commands")
    command_main.prepare()  # the comparison needs the same modules: imported now, beside the nursery, they cost no time
    logging.getLogger().setLevel(logging.WARNING)  # one of these modules lets httpx tell of every request
    try:
        is_well = [asyncio.run(_run(kind, nursery, options)) for kind in options.databases]
    finally:
        nursery.close()
    sys.exit(0 if all(is_well) else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long things go wrong, on each database")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of the dice; default: any")
    parser.add_argument("--database", choices=[*NAMES, "both"], default="both")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "chaos", help="where to keep what went wrong")
    options = parser.parse_args()
    options.databases = list(NAMES) if options.database == "both" else [options.database]
    return options


async def _run(kind: str, nursery: Nursery, options: argparse.Namespace) -> bool:
    _say(f"\n{options.minutes:g} minutes of trouble on {NAMES[kind]}, seed {options.seed}")
    kept: Path = options.keep / f"{kind}-{options.seed}"
    shutil.rmtree(kept, ignore_errors=True)
    try:
        async with installation(kind, nursery, kept) as made:
            await _hurt_and_look(made, options, NAMES[kind])
    except BrokenPromiseError as exc:
        _say(f"{exc}\nkept: {kept}")
        return False
    return True


async def _hurt_and_look(made: Installation, options: argparse.Namespace, name: str) -> None:
    if not made.disk.can_be_full:
        _say("no full disks: mounting is not permitted here")
    dice = random.Random(options.seed)
    book, monkey = Book(), Monkey(made, dice)
    clients = [
        (Client(number, made, book, random.Random(f"{options.seed} {number}")), data_dir)
        for number, data_dir in enumerate(_data_dirs(made))
    ]
    began = time.monotonic()
    await made.open(*PROCESSES)
    _say(f"{time.monotonic() - began:4.0f} s: all processes work")
    try:
        await _for(options.minutes * 60, made, clients, monkey)
    finally:
        (made.folder / "events").write_text("\n".join(monkey.events))
    _say(f"{time.monotonic() - began:4.0f} s: the trouble is over")
    _say(_table({**book.done, **monkey.done}))
    _say(_table(made.ends, "processes that ended, by exit code"))
    _say(_table(dict(book.refused.most_common(12)), "requests that were refused or not answered"))
    outcome = await settle(made, book)
    _say(f"{time.monotonic() - began:4.0f} s: everything has been done")
    await check(book, outcome, dice)
    _say(f"{time.monotonic() - began:4.0f} s: everything has been compared")
    _report(made, outcome, f"over {options.minutes:g} minutes on {name}, seed {options.seed}")


type _DataDir = Callable[[], str]


async def _for(seconds: float, made: Installation, clients: Iterable[tuple[Client, _DataDir]], monkey: Monkey) -> None:
    """Let clients work and, once the first documents are stored, things go wrong for so long."""
    over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for client, data_dir in clients:
            tasks.create_task(client.work(data_dir, over))
        chunks = made.lancedb / "library" / "chunks.lance"
        await eventually(chunks.exists, "the first documents are stored", within=PATIENCE, workers=made.processes())
        asyncio.get_running_loop().call_later(seconds, over.set)
        tasks.create_task(monkey.work(over))


def _data_dirs(made: Installation) -> Iterable[_DataDir]:
    """Where each client stores: three contend for one RAG database, one has its own, one makes new ones."""
    made.define("library")
    made.define("archive")
    numbers = itertools.count()
    return [lambda: "library"] * 3 + [lambda: "archive", lambda: made.define(f"new{next(numbers)}")]


def _report(made: Installation, outcome: Outcome, when: str) -> None:
    if outcome.failures:
        _say(_table(outcome.failures, "failures that were retried in the end"))
    if outcome.late:
        _say(f"{outcome.late} documents were started in the end, since nobody had done so after they came through")
    for said in made.odd_ends[:5]:
        _say(said)
    _say(_comparisons(outcome))
    counts = outcome.counts()
    verdict = ", ".join(f"{counts[kind]} {kind}" for kind in Kind)
    findings = outcome.findings()
    if findings:
        shown = "\n".join(map(str, findings[:SHOWN]))
        raise BrokenPromiseError(f"{shown}\n{len(findings)} findings in all\n{verdict} {when}")
    _say(f"{verdict} {when}")


def _comparisons(outcome: Outcome) -> str:
    rows = [
        [each.where, str(each.expected), str(each.found), *(str(each.counts()[kind]) for kind in Kind)]
        for each in outcome.comparisons
        if each.expected or each.findings
    ]
    return _lines([["", "expected", "found", *Kind], *rows])


def _table(counts: dict[str, int], title: str = "") -> str:
    if not counts:
        return f"{title}: none"
    lines = _lines([[str(count), name] for name, count in sorted(counts.items())])
    return f"{title}:\n{lines}" if title else lines


def _lines(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)


def _say(words: str) -> None:
    print(words, flush=True)  # noqa: T201  it is a program for people


if __name__ == "__main__":
    main()
