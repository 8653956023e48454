"""What pages of other sites can make a browser send, and what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from soliplex.ingester.cli.serve import app_without_worker, told_to_processes
from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.storage import StoreUnavailableError
from soliplex.ingester.server import create_app
from soliplex.ingester.server.access import routes_of
from soliplex.ingester.server.errors import answer_for
from soliplex.ingester.server.sites import Served
from tests.support.http import client_of, running_client
from tests.support.serving import serving

A = "/api/v1"
KEY = "correct horse battery staple"
EVIL = "http://evil.example"

FOREIGN: dict[str, dict[str, str]] = {
    "a form": {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
    "a form in an old browser": {"Origin": EVIL},
    "a page of a sister site": {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    "another port, in an old browser": {"Origin": "http://localhost:3000"},
    "a sandboxed frame": {"Origin": "null"},
    "a picture": {"Sec-Fetch-Site": "cross-site"},
    "a picture in an old browser": {"Referer": f"{EVIL}/page.html"},
    "a name that begins alike": {"Origin": "http://localhost.evil.example"},
    "a user that looks alike": {"Origin": "http://localhost@evil.example"},
    "no origin at all": {"Origin": ""},
    "something else": {"Origin": "http://[", "Sec-Fetch-Site": "sideways"},
}
OWN: dict[str, dict[str, str]] = {
    "a program": {},
    "a page of ours": {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
    "a page of ours in an old browser": {"Origin": "http://localhost"},
    "a link of ours in an old browser": {"Referer": "http://localhost/docs?x=1"},
    "TLS that ends before us": {"Origin": "https://localhost"},
    "the address bar": {"Sec-Fetch-Site": "none"},
    "a proxy that changes the host": {"Origin": "https://ingester.example", "Sec-Fetch-Site": "same-origin"},
}


async def stored(client: httpx.AsyncClient, headers: Mapping[str, str] | None = None) -> list[str]:
    answer = await client.get(f"{A}/document/", params={"source": "hr"}, headers=headers)
    return [each["uri"] for each in answer.json()]


@pytest.fixture
async def filled_client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with default settings, which holds one document."""
    async with running_client() as client:
        await upload(client)
        yield client


async def upload(client: httpx.AsyncClient, **headers: str) -> None:
    batch = await client.post(f"{A}/batch/", data={"source": "hr", "name": "all"}, headers=headers)
    fields = {"source_uri": "/a.txt", "source": "hr", "batch_id": batch.json()["batch_id"]}
    answer = await client.post(f"{A}/document/upload", data=fields, files={"file": ("a.txt", b"a")}, headers=headers)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("sender", FOREIGN)
async def test_a_page_of_another_origin_deletes_nothing(filled_client: httpx.AsyncClient, sender: str) -> None:
    form = {"source": "hr", "hashes": "{}", "delete_stale": "true"}
    answer = await filled_client.post(f"{A}/source-status", data=form, headers=FOREIGN[sender])
    assert answer.status_code == 403
    assert "ALLOWED_ORIGINS" in answer.json()["error"]
    assert await stored(filled_client) == ["/a.txt"]


@pytest.mark.parametrize("sender", OWN)
async def test_programs_and_our_own_pages_go_on_as_ever(filled_client: httpx.AsyncClient, sender: str) -> None:
    form = {"source": "hr", "hashes": "{}", "delete_stale": "true"}
    answer = await filled_client.post(f"{A}/source-status", data=form, headers=OWN[sender])
    assert (answer.status_code, answer.json()["deleted_count"]) == (200, 1)
    assert await stored(filled_client) == []


async def test_whatever_changes_something_is_refused_to_pages_of_others() -> None:
    app = create_app(load_settings(), with_worker=False)
    async with client_of(app) as client:  # not started: no request gets as far as the database
        refused = set[tuple[str, str]]()
        for route in routes_of(app):
            if route.changes or route.method == "HEAD":
                answer = await client.request(route.method, route.path.replace("{", "").replace("}", ""), headers=FORM)
                refused |= {(route.method, route.path)} if answer.status_code == 403 else set()
    assert refused == {(each.method, each.path) for each in routes_of(app) if each.changes}
    assert ("GET", f"{A}/lancedb/vacuum") in refused
    assert ("GET", f"{A}/document/validate_storage") in refused


FORM = FOREIGN["a form"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("sender", ["a picture", "a picture in an old browser", "a form"])
async def test_a_get_that_changes_something_obeys_the_same_checks(method: str, sender: str) -> None:
    async with running_client() as client:
        refused = await client.request(method, f"{A}/lancedb/vacuum?db=none", headers=FOREIGN[sender])
        assert refused.status_code == 403
        for path in ("lancedb/vacuum?db=none", "document/validate_storage?batch_id=404&clean_up=true"):
            for sender_of_ours in OWN.values():
                answer = await client.request(method, f"{A}/{path}", headers=sender_of_ours)
                assert answer.status_code == 404, answer.text


@pytest.mark.parametrize("path", [f"{A}/lancedb/vacuum?db=none", f"{A}/document/validate_storage?batch_id=404"])
async def test_a_browser_that_does_not_say_where_a_get_comes_from_changes_nothing(path: str) -> None:
    """On plain HTTP beyond loopback, a page makes browsers say nothing by `Referrer-Policy: no-referrer`."""
    browser = {
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Host": "10.0.0.7:8000",
    }
    async with running_client() as client:
        refused = await client.get(path, headers=browser)
        assert (refused.status_code, "POST" in refused.json()["error"]) == (403, True)
        assert (await client.get(path, headers=browser | {"Sec-Fetch-Site": "same-origin"})).status_code == 404
        assert (await client.get(path, headers=browser | {"Referer": "http://10.0.0.7:8000/docs"})).status_code == 404
        assert (await client.post(path, headers=browser | {"Origin": "http://10.0.0.7:8000"})).status_code == 404
    async with running_client(api_key_enabled=True, api_key=KEY) as client:
        assert (await client.get(path, headers=browser | {"Authorization": f"Bearer {KEY}"})).status_code == 404
    async with running_client(allowed_origins=("*",)) as client:
        assert (await client.get(path, headers=browser)).status_code == 404


async def test_a_page_of_another_origin_may_still_be_linked_from() -> None:
    """A link to the documentation, or to a list, changes nothing."""
    async with running_client() as client:
        for path in ("/docs", f"{A}/batch/", "/health"):
            answer = await client.get(path, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
            assert answer.status_code == 200


async def test_pages_of_allowed_origins_may_change_things() -> None:
    async with running_client(allowed_origins=("https://UI.example.org/",)) as client:
        from_ui = {"Origin": "https://ui.example.org", "Sec-Fetch-Site": "cross-site"}
        form = {"source": "hr", "name": "all"}
        assert (await client.post(f"{A}/batch/", data=form, headers=from_ui)).status_code == 201
        assert (await client.post(f"{A}/batch/", data=form, headers=FORM)).status_code == 403
    async with running_client(allowed_origins=("*",)) as client:
        assert (await client.post(f"{A}/batch/", data=form, headers=FORM)).status_code == 201


async def test_whoever_shows_the_key_is_no_page_of_another_site() -> None:
    async with running_client(api_key_enabled=True, api_key=KEY) as client:
        headers = {**FORM, "Authorization": f"Bearer {KEY}", "Host": "ingester.example"}
        await upload(client, **headers)


async def test_a_user_whom_a_proxy_names_is_protected_from_pages_of_others() -> None:
    """The proxy knows the user by a cookie, which the browser sends for every page."""
    async with running_client(auth_trust_proxy_headers=True, trusted_hosts=("*",)) as client:
        ada = {"X-Forwarded-User": "ada", "Host": "backend:8000", "X-Forwarded-Host": "ingester.example"}
        form = {"source": "hr", "name": "all"}
        refused = await client.post(f"{A}/batch/", data=form, headers=ada | {"Origin": EVIL})
        assert refused.status_code == 403
        allowed = await client.post(f"{A}/batch/", data=form, headers=ada | {"Origin": "https://ingester.example"})
        assert allowed.status_code == 201


@pytest.mark.parametrize(("behind_proxy", "status"), [(False, 403), (True, 422)])
async def test_a_forwarded_host_counts_only_where_a_proxy_is_believed(behind_proxy: bool, status: int) -> None:
    app = create_app(load_settings(), with_worker=False, served=Served(behind_proxy=behind_proxy))
    async with client_of(app) as client:
        headers = {"X-Forwarded-Host": "ingester.example, inner", "Origin": "https://ingester.example"}
        assert (await client.post(f"{A}/batch/", headers=headers)).status_code == status


LOCAL = ("localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "[::1]", "app.localhost:8000")
ADDRESSES = ("192.168.1.5:8000", "10.0.0.7", "[fe80::1]:8000", "203.0.113.4")
OTHERS = ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "ingester")


@pytest.mark.parametrize("path", [f"{A}/batch/", "/docs", "/openapi.json", "/metrics", "/health", f"{A}/nothing"])
async def test_a_name_that_points_here_suddenly_gets_no_answer(path: str) -> None:
    async with running_client() as client:
        for host in OTHERS:
            answer = await client.get(path, headers={"Host": host})
            assert answer.status_code == 403, host
            assert "TRUSTED_HOSTS" in answer.json()["error"]
        for host in (*LOCAL, *ADDRESSES, ""):
            assert (await client.get(path, headers={"Host": host})).status_code in {200, 404}, host


async def test_a_rebound_name_changes_nothing_either(filled_client: httpx.AsyncClient) -> None:
    rebound = {"Host": "evil.example:8000", "Origin": "http://evil.example:8000", "Sec-Fetch-Site": "same-origin"}
    headers = rebound | {"X-Forwarded-Host": "localhost"}
    form = {"source": "hr", "hashes": "{}", "delete_stale": "true"}
    assert (await filled_client.post(f"{A}/source-status", data=form, headers=headers)).status_code == 403
    assert await stored(filled_client) == ["/a.txt"]


@pytest.mark.parametrize(
    ("settings", "is_answered"),
    [
        ({"api_key_enabled": True, "api_key": KEY}, True),
        ({"auth_trust_proxy_headers": True}, False),
        ({"auth_trust_proxy_headers": True, "api_key_enabled": True, "api_key": KEY}, False),
        ({"trusted_hosts": ("*",)}, True),
        ({"trusted_hosts": ("localhost", "Ingester.example")}, True),
        ({"trusted_hosts": ("localhost",)}, False),
        ({"trusted_hosts": ("localhost",), "api_key_enabled": True, "api_key": KEY}, False),
    ],
)
async def test_other_names_are_answered_if_a_setting_says_so_or_all_need_the_key(
    settings: dict[str, Any], is_answered: bool
) -> None:
    """A page can name a user in a header as well as a proxy can: only the key is what it cannot know."""
    async with client_of(create_app(load_settings(**settings), with_worker=False)) as client:
        headers = {"Host": "ingester.example", "Authorization": f"Bearer {KEY}", "X-Forwarded-User": "ada"}
        answer = await client.get(f"{A}/nothing", headers=headers)
    assert answer.status_code == (404 if is_answered else 403)


async def test_a_server_answers_to_the_name_it_was_told_to_listen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # It would change the log of all tests.
    monkeypatch.setattr("soliplex.ingester.lib.logs.configure_logging", lambda _, *, takes_printed: None)
    with told_to_processes("Box.example", proxy_headers=False):
        app = app_without_worker()
    async with client_of(app) as client:
        for host, status in {"box.example:8000": 404, "localhost": 404, "other.example": 403}.items():
            assert (await client.get(f"{A}/nothing", headers={"Host": host})).status_code == status


def test_a_server_process_as_it_starts_by_itself_refuses_pages_of_others(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-worker") as server, server.client() as client:
        assert client.get(f"{A}/batch/", headers={"Host": "localhost:80"}).status_code == 200
        assert client.get(f"{A}/batch/", headers={"Host": "evil.example"}).status_code == 403
        form = {"source": "hr", "name": "all"}
        assert client.post(f"{A}/batch/", data=form, headers=FORM).status_code == 403
        assert client.post(f"{A}/batch/", data=form).status_code == 201


def test_a_store_that_does_not_work_is_not_described_to_clients(caplog: pytest.LogCaptureFixture) -> None:
    error = StoreUnavailableError("s3", "http://10.0.0.5:9000/bucket: connection refused")
    answer = answer_for(error)
    assert answer.status_code == 503
    assert b"10.0.0.5" not in bytes(answer.body)
    assert "10.0.0.5" in caplog.text
