"""Documents fetched from where a client says they are."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.fetching import Fetcher, FetchFailedError, InputRefusedError, fetcher
from soliplex.ingester.lib.http_statuses import PASSING
from soliplex.ingester.lib.storage import DocumentTooLargeError
from tests.support.s3 import S3Server, open_s3_server
from tests.support.serving import free_port
from tests.support.tcp import listening
from tests.support.web import Answer, answer, certificate_for, serving


async def fetched(uri: str, limit: int | None = None, **settings: Any) -> bytes:
    fetcher = Fetcher(load_settings(**settings))
    return b"".join([block async for block in fetcher.fetch(uri, limit=limit)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shared"
    root.mkdir()
    (root / "a file.txt").write_bytes(b"hello")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "shared-not").mkdir()
    (tmp_path / "shared-not" / "file.txt").write_bytes(b"secret")
    return root


async def test_a_file_below_a_root_is_read(root: Path) -> None:
    assert await fetched(f"file://{root}/a%20file.txt", input_file_roots=(root,)) == b"hello"
    assert await fetched(f"file://localhost{root}/a%20file.txt", input_file_roots=("/usr", root)) == b"hello"


async def test_without_roots_no_file_is_read(root: Path) -> None:
    with pytest.raises(InputRefusedError):
        await fetched(f"file://{root}/a%20file.txt")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "{root}/../secret.txt",
        "{root}/%2e%2e/secret.txt",
        "{root}/..%2fsecret.txt",
        "{root}-not/file.txt",
        "{root}/link",
        "{root}/folder-link/secret.txt",
        "{root}/pipe",
        "{root}/loop",
        "{root}",
        "{root}/missing.txt",
        "{root}/a%00b",
        "a%20file.txt",
    ],
)
async def test_what_lies_elsewhere_is_refused_in_the_same_words(root: Path, path: str) -> None:
    (root / "link").symlink_to(root.parent / "secret.txt")
    (root / "folder-link").symlink_to(root.parent)
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    with pytest.raises(InvalidInputError, match="is no file below a folder that documents may be read from"):
        await fetched(f"file://{'/' if path[0] == 'a' else ''}{path.format(root=root)}", input_file_roots=(root,))


async def test_a_link_within_a_root_and_a_root_that_is_a_link_are_followed(root: Path) -> None:
    (root / "link").symlink_to(root / "a file.txt")
    (root.parent / "root-link").symlink_to(root)
    assert (
        await fetched(f"file://{root.parent}/root-link/link", input_file_roots=(root.parent / "root-link",)) == b"hello"
    )


async def test_a_file_of_another_machine_is_refused(root: Path) -> None:
    with pytest.raises(InputRefusedError, match="another machine"):
        await fetched(f"file://server{root}/a%20file.txt", input_file_roots=(root,))


async def test_a_file_beyond_the_limit_is_refused(root: Path) -> None:
    with pytest.raises(DocumentTooLargeError):
        await fetched(f"file://{root}/a%20file.txt", limit=4, input_file_roots=(root,))
    assert await fetched(f"file://{root}/a%20file.txt", limit=5, input_file_roots=(root,)) == b"hello"


@pytest.mark.parametrize("uri", ["", "name.txt", "ftp://host/x", "data:text/plain,x", "http://[bad/", "javascript:x"])
async def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(InputRefusedError, match="input_uri: "):
        await fetched(uri)


@pytest.mark.parametrize("uri", ["http://host/\r\nX: y", "file:///a\x00b"])
async def test_control_characters_are_refused(uri: str) -> None:
    with pytest.raises(InputRefusedError, match="control characters"):
        await fetched(uri)


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with open_s3_server() as server:
        yield server


async def test_an_object_of_the_bucket_is_read(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    content = os.urandom(3_000_000)
    s3_server.client.put_object(Bucket=bucket.bucket, Key="folder/ü b#1?.bin", Body=content)
    assert await fetched(f"s3://{bucket.bucket}/folder/ü b#1?.bin", input_s3=bucket) == content


async def test_an_object_that_is_not_there_and_a_bucket_that_is_not_ours_are_refused(s3_server: S3Server) -> None:
    bucket, other = s3_server.new_bucket(), s3_server.new_bucket()
    s3_server.client.put_object(Bucket=other.bucket, Key="x", Body=b"secret")
    with pytest.raises(InputRefusedError, match="no object 'x'"):
        await fetched(f"s3://{bucket.bucket}/x", input_s3=bucket)
    with pytest.raises(InputRefusedError, match="not the one"):
        await fetched(f"s3://{other.bucket}/x", input_s3=bucket)
    with pytest.raises(InputRefusedError, match="names no object"):
        await fetched(f"s3://{bucket.bucket}/", input_s3=bucket)
    with pytest.raises(InputRefusedError, match="not the one"):
        await fetched("s3://any/x")


async def from_web(uri: str, limit: int | None = None, **settings: Any) -> bytes:
    return await fetched(uri, limit, allow_private_addresses=True, **settings)


async def test_a_page_is_fetched() -> None:
    async with serving({"/a?b=1": answer(b"hello", Content_Length="5"), "/go": redirect("/a?b=1")}) as url:
        assert await from_web(f"{url}/a?b=1") == b"hello"
        assert await from_web(f"{url}/go") == b"hello"


def redirect(target: str) -> Answer:
    return answer(status="302 Found", Location=target, Content_Length="0")


async def test_this_machine_is_not_fetched_from() -> None:
    async with serving({"/": answer(b"secret")}) as url:
        with pytest.raises(InputRefusedError, match="not at a public address"):
            await fetched(f"{url}/")


async def hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""


async def test_no_refusal_tells_the_address_of_a_name() -> None:
    """Neither that of a machine inside, nor that of one which does not answer."""
    with pytest.raises(InputRefusedError) as refused:
        await anext(Fetcher(load_settings(), resolver=everything_is_here).fetch("http://intranet.example/", limit=None))
    fetcher = Fetcher(load_settings(allow_private_addresses=True), resolver=everything_is_here)
    with pytest.raises(FetchFailedError) as failed:
        await anext(fetcher.fetch(f"http://intranet.example:{free_port()}/", limit=None))
    async with listening(hang_up) as rude:
        with pytest.raises(FetchFailedError) as broken:
            await anext(fetcher.fetch(f"https://intranet.example:{rude.partition(':')[2]}/", limit=None))
    for error in (refused.value, failed.value, broken.value):
        assert "intranet.example" in str(error)
        assert not re.search(r"\d+\.\d+\.\d+\.\d+", str(error)), error


async def test_a_page_beyond_the_limit_is_refused_announced_or_not() -> None:
    async with serving({"/said": answer(b"x" * 11, Content_Length="11"), "/unsaid": answer(b"x" * 11)}) as url:
        for path in ("/said", "/unsaid"):
            with pytest.raises(DocumentTooLargeError):
                await from_web(url + path, limit=10)
        assert await from_web(f"{url}/unsaid", limit=11) == b"x" * 11


async def test_a_page_cut_short_is_no_page() -> None:
    async with serving({"/": answer(b"half", Content_Length="8")}) as url:
        with pytest.raises(FetchFailedError):
            await from_web(f"{url}/")


async def test_what_the_server_says_decides_whose_mistake_it_is() -> None:
    passing = {f"/{status}": answer(status=f"{status} Not Now") for status in (*PASSING, 500)}
    async with serving({"/gone": answer(status="410 Gone"), **passing}) as url:
        with pytest.raises(InputRefusedError, match="410 Gone"):
            await from_web(f"{url}/gone")
        for path in passing:
            with pytest.raises(FetchFailedError, match="Not Now"):
                await from_web(url + path)


async def test_a_server_that_compresses_anyway_is_understood_within_bounds() -> None:
    answers = {
        "/gzip": answer(gzip.compress(b"x" * 100_000), Content_Encoding="gzip"),
        "/zstd": answer(b"?", Content_Encoding="zstd"),
    }
    async with serving(answers) as url:
        assert await from_web(f"{url}/gzip", limit=100_000) == b"x" * 100_000
        with pytest.raises(DocumentTooLargeError):
            await from_web(f"{url}/gzip", limit=99_999)
        with pytest.raises(FetchFailedError, match="compressed"):
            await from_web(f"{url}/zstd")


async def test_a_server_that_never_ends_is_left() -> None:
    async def dribble(writer: asyncio.StreamWriter) -> None:
        await answer(b"a")(writer)
        await asyncio.Event().wait()

    async with serving({"/": dribble}) as url:
        with pytest.raises(FetchFailedError, match=r"longer than 0\.2 s"):
            await from_web(f"{url}/", input_http_timeout_seconds=0.2)


async def test_over_tls_the_host_must_prove_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = certificate_for("documents.example", tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    fetcher = Fetcher(load_settings(allow_private_addresses=True), resolver=everything_is_here)
    async with serving({"/": answer(b"hello")}, tls=tls) as url:
        port = url.rpartition(":")[2]
        found = [block async for block in fetcher.fetch(f"https://documents.example:{port}/", limit=None)]
        assert b"".join(found) == b"hello"
        with pytest.raises(FetchFailedError, match="certificate"):
            [block async for block in fetcher.fetch(f"https://another.example:{port}/", limit=None)]


async def everything_is_here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def test_secrets_in_an_address_are_not_repeated() -> None:
    async with serving({}) as url:
        uri = url.replace("://", "://me:hush@") + "/x?token=hush#hush"
        with pytest.raises(InputRefusedError) as caught:
            await from_web(uri)
    assert "hush" not in str(caught.value)


async def test_the_settings_say_what_may_be_fetched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(input_file_roots=(root,), upload_size_limit=4)
    monkeypatch.setattr(fetcher, "get_settings", lambda: settings)
    with pytest.raises(DocumentTooLargeError):
        [block async for block in fetcher.fetch(f"file://{root}/a%20file.txt")]
    assert isinstance(settings, Settings)
