"""`si-cli mcp`, as the client of the protocol's own package meets it: over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from soliplex.ingester import Ingester
from soliplex.ingester.lib.config import Settings, get_settings, load_settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.mcp_server.folders import AllowedFolders
from soliplex.ingester.mcp_server.over_http import http_app
from soliplex.ingester.mcp_server.tools import mcp_server
from tests.conformance.test_installations import serving as serving_here
from tests.support.serving import PATIENCE, Server, serving

COMMAND = (sys.executable, "-c", "from soliplex.ingester.cli import main; main()", "mcp")
KEY = "a-key-that-is-long-enough-for-anybody"
READING = {"search", "read_document", "list_sources"}


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"DATA_DIR": str(folder / "data"), "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin", **more}


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "office.md").write_text("# The office\n\n## Opening hours\n\nThe office opens at nine, closes at five.\n")
    return folder


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """What the tool answers, as a program reads it."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return answer.structured_content.get("result", answer.structured_content)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    (said,) = answer.content
    assert said.type == "text"
    return said.text


async def test_an_assistant_ingests_searches_and_reads_over_standard_input_and_output(
    tmp_path: Path, handbook: Path
) -> None:
    said = tmp_path / "said"
    command = f"{shlex.join([*COMMAND, '--allow-ingest', str(handbook)])} | tee {shlex.quote(str(said))}"
    # What is logged and printed during an ingestion must not get between the messages.
    told = environment(tmp_path, LOG_LEVEL="INFO")
    started = StdioServerParameters(command="sh", args=["-c", command], env=told, cwd=tmp_path)
    async with Client(started) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*READING, "ingest"}
        assert await call(client, "list_sources") == []
        refused = await refusal(client, "search", question="anything")
        assert "RAG database 'lancedb' does not exist; nothing has been stored yet: ingest documents first" in refused

        report = await call(client, "ingest", path=str(handbook), source="handbook")
        assert (report["status"], report["uploaded"], report["runs"]["completed"]) == ("ok", 1, 1)
        assert "is not in a folder that may be ingested" in await refusal(client, "ingest", path=str(tmp_path))

        assert await call(client, "list_sources") == [{"source": "handbook", "documents": 1}]
        (passage, *_) = await call(client, "search", question="when does the office open", limit=3)
        assert passage["uri"] == f"{handbook}/office.md"
        assert passage["headings"] == ["The office", "Opening hours"]
        assert "opens at nine" in passage["content"]

        whole = await call(client, "read_document", uri=passage["uri"], source=passage["source"])
        assert "opens at nine" in whole["text"]
        assert whole["next_offset"] is None
        piece = await call(client, "read_document", uri=passage["uri"], source="handbook", offset=2, length=3)
        assert (piece["text"], piece["next_offset"]) == (whole["text"][2:5], 5)
        assert piece["total_characters"] == len(whole["text"])
        assert "does not exist; did you mean" in await refusal(client, "read_document", uri="office.md")
    messages = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
    assert len(messages) >= 10
    assert {message["jsonrpc"] for message in messages} == {"2.0"}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks for the key, with a document in it."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "bread.md").write_text("# Bread\n\nA sourdough is fed every day.\n")
    asking = {"API_KEY": KEY, "API_KEY_ENABLED": "true", "DATA_DIR": str(folder / "data")}
    with serving(folder, environment=asking) as server:
        ingesting = [sys.executable, "-c", COMMAND[2], "ingest", str(folder / "bread.md"), "--server", server.url]
        subprocess.run(ingesting, check=True, env=os.environ | {"API_KEY": KEY}, capture_output=True)
        yield server


@contextmanager
def listening(folder: Path, *options: str, **settings: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """The address of `si-cli mcp --http` in a process of its own."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder, **settings),
    )
    try:
        assert process.stderr is not None
        line = next((line for line in process.stderr if "Speaking MCP at " in line), "")
        assert line, process.wait(PATIENCE)
        yield line.partition("Speaking MCP at ")[2].partition(";")[0], process
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def connected(url: str, key: str | None = None) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=300) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def post(url: str, **headers: str) -> int:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"Accept": "application/json, text/event-stream"}
    return httpx.post(url, json=asked, headers=accepted | headers, timeout=300).status_code


async def test_an_assistant_asks_a_server_over_http_with_the_key(tmp_path: Path, remote: Server) -> None:
    with listening(tmp_path, "--server", remote.url, API_KEY=KEY) as (url, process):
        async with connected(url, KEY) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READING
            assert await call(client, "list_sources") == [{"source": "files", "documents": 1}]
            (passage,) = await call(client, "search", question="how is a sourdough fed", kind="text", limit=1)
            assert passage["headings"] == ["Bread"]
            assert "Unknown tool" in await refusal(client, "ingest", path="/etc")
        assert [post(url), post(url, Authorization="Bearer wrong")] == [401, 401]
        assert post(url, Large="x" * (100 << 10)) == 431
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8100"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({}, 200),
    ],
    ids=["rebinding", "origin", "cross-site", "program"],
)
async def test_pages_of_other_sites_reach_nothing(headers: dict[str, str], status: int) -> None:
    async with Ingester() as ingester:
        app: Any = http_app(mcp_server(ingester, AllowedFolders([])), get_settings(), "127.0.0.1")
        async with serving_here(app) as url:
            async with connected(f"{url}/mcp") as client:
                assert await call(client, "list_sources") == []
            answered = await asyncio.to_thread(_initialized, f"{url}/mcp", headers)
    assert answered == status


def _initialized(url: str, headers: dict[str, str]) -> int:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a page", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    accepted = {"Accept": "application/json, text/event-stream"}
    return httpx.post(url, json=asked, headers=accepted | headers, timeout=300).status_code


def key_settings() -> Settings:
    return load_settings(api_key=KEY)


async def test_the_key_is_asked_for_wherever_one_is_set() -> None:
    assert not key_settings().api_key_enabled
    async with Ingester() as ingester:
        app: Any = http_app(mcp_server(ingester, AllowedFolders([])), key_settings(), "127.0.0.1")
        async with serving_here(app) as url:
            assert await asyncio.to_thread(post, f"{url}/mcp") == 401
            async with connected(f"{url}/mcp", KEY) as client:
                assert await call(client, "list_sources") == []


async def test_a_message_that_does_not_come_on_is_not_waited_for() -> None:
    async with Ingester() as ingester:
        impatient = load_settings(request_body_timeout_seconds=0.1)
        app: Any = http_app(mcp_server(ingester, AllowedFolders([])), impatient, "127.0.0.1")
        async with serving_here(app) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
            kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream"
            writer.write(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{kinds}\r\nContent-Length: 9\r\n\r\n{{".encode())
            assert (await reader.readline()).split()[1] == b"408"
            writer.close()


def test_folders_are_kept_to_whatever_the_path_looks_like(tmp_path: Path) -> None:
    inside, outside = tmp_path / "docs", tmp_path / "secret"
    (inside / "sub" / "deep").mkdir(parents=True)
    outside.mkdir()
    (inside / "way-out").symlink_to(outside)
    (inside / "way-down").symlink_to(inside / "sub" / "deep")
    (inside / "circle").symlink_to(inside / "circle")
    (tmp_path / "docs-of-others").mkdir()
    folders = AllowedFolders([inside])
    for path in (inside, inside / "sub", inside / "sub" / ".." / "sub", inside / "way-down"):
        assert folders.checked(str(path)) == Path(os.path.normpath(path))
    forbidden = [tmp_path, outside, inside / ".." / "secret", inside / "way-out", tmp_path / "docs-of-others"]
    # As the system follows the link this stays inside, as it is spelled it does not.
    forbidden += [inside / "way-down" / ".." / ".." / ".." / "secret", Path("/etc/passwd")]
    for path in forbidden:
        with pytest.raises(InvalidInputError, match="is not in a folder that may be ingested from"):
            folders.checked(str(path))
    for path in (inside / "nowhere", inside / "circle", inside / "a\x00b"):
        with pytest.raises(InvalidInputError, match="does not exist"):
            folders.checked(str(path))
    with pytest.raises(InvalidInputError, match="is not in a folder"):
        AllowedFolders([]).checked(str(inside))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "8100"], "'8100' is not of the form HOST:PORT"),
        (["--http", "localhost:99999"], "is not of the form HOST:PORT"),
        (["--http", "no.such.host.invalid:8100"], "is no address of this machine"),
        (["--allow-ingest", "/nowhere"], "Directory '/nowhere' does not exist"),
        (["--server", "localhost"], "must begin with http://"),
    ],
    ids=["no-host", "port", "host", "folder", "server"],
)
def test_a_wrong_option_is_told(options: list[str], said: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [*COMMAND, *options], check=False, capture_output=True, text=True, env=environment(tmp_path), timeout=PATIENCE
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert said in " ".join(found.stderr.split())


def test_a_port_that_is_taken_and_a_package_that_is_missing_are_told(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = subprocess.run(
            [*COMMAND, "--http", address], check=False, capture_output=True, text=True, env=environment(tmp_path)
        )
    assert (found.returncode, found.stdout) == (1, "")
    assert f"error: {address} cannot be listened on" in found.stderr

    without = "import sys; sys.modules['mcp'] = None; from soliplex.ingester.cli import main; main()"
    missing = [sys.executable, "-c", without, "mcp"]
    found = subprocess.run(missing, check=False, capture_output=True, text=True, env=environment(tmp_path))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        'error: mcp: the package is not installed, and `si-cli mcp` needs it; install "soliplex-ingester[mcp]"\n'
    )
