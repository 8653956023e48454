"""The files of the web UI over HTTP: which are there, who may have them, and what a browser is told about them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from soliplex.ingester.server.ui import built_files
from tests.support.http import running_client

PAGE = '<!doctype html><script type="module" src="./assets/index-abc.js"></script>' + " " * 500
SCRIPT = "console.log(1);" * 100


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a build leaves, in place of the build of this checkout."""
    monkeypatch.setattr(built_files, "DIST", tmp_path / "dist")
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "assets" / "index-abc.js").write_text(SCRIPT)
    (tmp_path / "dist" / "index.html").write_text(PAGE)
    (tmp_path / "secret.txt").write_text("not part of the UI")
    return tmp_path / "dist"


async def test_the_page_is_open_and_may_run_only_what_this_server_sends(dist: Path) -> None:
    async with running_client(api_key_enabled=True, api_key="secret") as client:
        answer = await client.get("/ui/")
        assert (answer.status_code, answer.text) == (200, PAGE)
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert re.search(r"default-src 'none'; script-src 'self'; style-src 'self';", policy)
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_file_that_is_named_after_its_content_is_kept_for_ever_and_the_page_is_asked_for_again(
    dist: Path,
) -> None:
    async with running_client() as client:
        script = await client.get("/ui/assets/index-abc.js", headers={"Accept-Encoding": "gzip"})
        assert "immutable" in script.headers["cache-control"]
        assert script.headers["content-type"].startswith("text/javascript")
        assert (script.headers["content-encoding"], script.text) == ("gzip", SCRIPT)
        assert int(script.headers["content-length"]) == len(gzip.compress(SCRIPT.encode(), mtime=0))

        page = await client.get("/ui/")
        assert page.headers["cache-control"] == "no-cache"
        again = await client.get("/ui/", headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["nothing.js", "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "assets", "assets/", "/etc/passwd"]
)
async def test_nothing_but_what_was_built_is_there(dist: Path, name: str) -> None:
    async with running_client() as client:
        answer = await client.get(f"/ui/{name}")
        assert answer.status_code == 404
        assert "not part of the UI" not in answer.text


async def test_a_new_build_is_served_by_a_server_that_runs(dist: Path) -> None:
    async with running_client() as client:
        assert (await client.get("/ui/")).text == PAGE
        (dist / "assets" / "index-abc.js").unlink()
        (dist / "index.html").write_text("new")
        assert (await client.get("/ui/")).text == "new"
        assert (await client.get("/ui/assets/index-abc.js")).status_code == 404


async def test_without_a_build_the_server_works_and_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built_files, "DIST", tmp_path / "nothing")
    async with running_client() as client:
        answer = await client.get("/ui/")
        assert answer.status_code == 503
        assert "make setup" in answer.text
        assert (await client.get("/health")).status_code == 200
