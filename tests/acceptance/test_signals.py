"""Signals, as people and programs send them: `si-cli signal` and `POST /api/v1/signals/{key}`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from soliplex.ingester.lib.wf.waiting import LARGEST_PAYLOAD
from tests.support.command_line import CommandLine
from tests.support.engine import rows_of

S = "/api/v1/signals"


async def stored() -> list[tuple[str, Any]]:
    rows = await rows_of("SELECT key, CAST(payload AS text) FROM signal ORDER BY id")
    return [(key, None if payload is None else json.loads(payload)) for key, payload in rows]


async def test_a_body_of_json_is_the_payload(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{S}/orders/17", json={"approved": True})
    assert answer.status_code == 201
    assert answer.json() == {"id": 1, "key": "orders/17", "standing": "kept", "has_workers": False}
    assert (await client.post(f"{S}/orders%2F18")).status_code == 201
    assert (await client.post(f"{S}/x", content=b"[1, null]")).status_code == 201
    assert await stored() == [("orders/17", {"approved": True}), ("orders/18", None), ("x", [1, None])]


@pytest.mark.parametrize(
    ("key", "body", "status", "error"),
    [
        ("", b"1", 400, "key: must not be empty"),
        (":subflow:1:0", b"1", 400, "key: is ':subflow:1:0'; begin it with something else than a colon"),
        ("%00", b"1", 400, "key: must not hold NUL"),
        ("k" * 501, b"1", 400, "key: must be at most 500 bytes long"),
        ("k", b"approved=yes", 400, "payload: must be valid JSON (Expecting value: line 1 column 1 (char 0))"),
        ("k", b"NaN", 400, "payload: must be valid JSON (NaN is not JSON)"),
        ("k", b'"\xff"', 400, "payload: must be valid JSON ("),
        ("k", b"[" * 200_000, 400, "payload: is nested too deeply"),
        ("k", b'"\\u0000"', 400, "payload: must not hold NUL"),
        ("k", b" " * (LARGEST_PAYLOAD + 1), 413, f"payload: is larger than {LARGEST_PAYLOAD} bytes of JSON"),
        ("k", b" " * (10 << 20), 413, f"payload: is larger than {LARGEST_PAYLOAD} bytes of JSON"),
    ],
    ids=["empty", "colon", "NUL", "long", "form", "NaN", "bytes", "deep", "NUL in text", "large", "larger"],
)
async def test_what_cannot_be_a_signal_is_refused_by_field(
    client: httpx.AsyncClient, key: str, body: bytes, status: int, error: str
) -> None:
    answer = await client.post(f"{S}/{key}", content=body)
    assert (answer.status_code, answer.json()["error"][: len(error)]) == (status, error)
    assert answer.json()["detail"]["field"] == error.partition(":")[0]
    assert await stored() == []


def test_a_signal_is_sent_and_its_standing_told(commands: CommandLine, tmp_path: Path) -> None:
    said = commands("si-cli", "signal", "order-17", "--payload", '{"approved": true}')
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "signal 1 to 'order-17' is recorded: no step waits for it now; the next one that does will have it\n"
    )
    file = tmp_path / "payload.json"
    file.write_text('["from a file"]')
    assert commands.json("si-cli", "signal", "k", "--payload-file", str(file))["standing"] == "kept"
    assert commands("si-cli", "signal", "k").code == 0
    assert commands.given(stored()) == [("order-17", {"approved": True}), ("k", ["from a file"]), ("k", None)]


def test_a_payload_may_come_from_standard_input(commands: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"17"), isatty=lambda: False))
    assert commands("si-cli", "signal", "k", "--payload-file", "-").code == 0
    assert commands.given(stored()) == [("k", 17)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((":mine",), "KEY: is ':mine'"),
        (("",), "KEY: must not be empty"),
        (("k", "--payload", "{"), "--payload: must be valid JSON"),
        (("k", "--payload", ""), "--payload: must be valid JSON"),
        (("k", "--payload-file", "large.json"), f"--payload-file: is larger than {LARGEST_PAYLOAD} bytes of JSON"),
        (("k", "--payload-file", "nowhere.json"), "No such file"),
        (("k", "--payload", "1", "--payload-file", "large.json"), "give one of --payload and --payload-file"),
    ],
)
def test_what_cannot_be_a_signal_is_wrong_usage(
    commands: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("large.json").write_text(json.dumps("x" * (10 << 20)))
    answer = commands("si-cli", "signal", *arguments)
    assert answer.code == 2, answer
    assert error in answer.err
    assert commands.given(stored()) == []


def test_attempts_of_a_run_are_shown_by_their_run(commands: CommandLine) -> None:
    answer = commands("si-cli", "status", "--attempts")
    assert (answer.code, "--attempts needs the id of a run" in answer.err) == (2, True)
    answer = commands("si-cli", "status", "7", "--attempts")
    assert (answer.code, answer.err) == (1, "error: workflow run 7 does not exist\n")
