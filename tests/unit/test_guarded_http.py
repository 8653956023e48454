"""Whom the guarded client talks to."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from soliplex.ingester.lib.guarded_http import (
    Exempt,
    ForbiddenAddressError,
    GuardedTransport,
    guarded_client,
    is_public,
    resolve,
)

PUBLIC = "93.184.215.14"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)
def test_an_address_within_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_an_address_of_the_net_is_public(address: str) -> None:
    assert is_public(address)


class Names:
    """A resolver that answers from a list, and notes what it was asked."""

    def __init__(self, **addresses: list[str]) -> None:
        self._addresses = addresses
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        try:
            return self._addresses[host.replace(".", "_")]
        except KeyError:
            raise OSError("name or service not known") from None


class Net:
    """The net behind the gate: notes every request, and answers by path."""

    def __init__(self, names: Names, *, allow_private: bool = False, **redirects: str) -> None:
        self.requests: list[httpx.Request] = []
        self._redirects = redirects
        gate = GuardedTransport(httpx.MockTransport(self._answer), allow_private=allow_private, resolver=names)
        self.client = httpx.AsyncClient(transport=gate, follow_redirects=True, max_redirects=5)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if target := self._redirects.get(request.url.path.strip("/")):
            return httpx.Response(302, headers={"Location": target})
        return httpx.Response(200, text="hello")


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    names = Names(example_com=[PUBLIC, "8.8.8.8"])
    net = Net(names)
    await net.client.get("https://example.com/a?b=1")
    (request,) = net.requests
    assert str(request.url) == f"https://{PUBLIC}/a?b=1"
    assert request.headers["host"] == "example.com"
    assert request.extensions["sni_hostname"] == "example.com"
    assert names.asked == [("example.com", 443)]


async def test_a_server_that_does_not_answer_at_one_of_its_addresses_is_asked_at_the_next() -> None:
    asked = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.host} {request.read().decode()}")
        if request.url.host != PUBLIC:
            raise httpx.ConnectError("no route", request=request)
        return httpx.Response(200)

    names = Names(both_com=["2606:4700::1111", "8.8.8.8", PUBLIC], far_com=["8.8.8.8", "8.8.4.4"])
    gate = GuardedTransport(httpx.MockTransport(answer), allow_private=False, resolver=names)
    async with httpx.AsyncClient(transport=gate) as client:
        assert (await client.post("https://both.com/", content=b"body")).is_success
        with pytest.raises(httpx.ConnectError):
            await client.post("https://far.com/", content=b"")
    assert asked == ["2606:4700::1111 body", "8.8.8.8 body", f"{PUBLIC} body", "8.8.8.8 ", "8.8.4.4 "]


async def test_a_name_with_one_private_address_is_refused() -> None:
    net = Net(Names(trick_com=[PUBLIC, "10.0.0.1"]))
    with pytest.raises(ForbiddenAddressError, match=r"trick\.com is not at a public address.*ALLOW_PRIVATE_ADDRESSES"):
        await net.client.get("http://trick.com/")
    assert net.requests == []


async def test_which_private_address_a_name_has_is_told_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Else whoever may name addresses could ask which machines there are inside, and where."""
    net = Net(Names(intranet_example=["10.1.2.3"]))
    with pytest.raises(ForbiddenAddressError) as refused:
        await net.client.get("http://intranet.example/")
    assert "10.1.2.3" not in str(refused.value)
    assert "10.1.2.3" in caplog.text


async def test_a_redirect_passes_through_the_same_gate() -> None:
    net = Net(Names(good_com=[PUBLIC], evil_com=["169.254.169.254"]), go="http://evil.com/latest/meta-data")
    with pytest.raises(ForbiddenAddressError):
        await net.client.get("http://good.com/go")
    assert [request.url.path for request in net.requests] == ["/go"]


async def test_a_relative_redirect_stays_with_the_name() -> None:
    names = Names(good_com=[PUBLIC])
    net = Net(names, go="/there")
    response = await net.client.get("http://good.com:8080/go")
    assert response.text == "hello"
    assert str(response.url) == "http://good.com:8080/there"
    assert names.asked == [("good.com", 8080)] * 2


async def test_a_redirect_to_another_scheme_is_refused() -> None:
    net = Net(Names(good_com=[PUBLIC]), go="file:///etc/passwd")
    with pytest.raises(httpx.UnsupportedProtocol):
        await net.client.get("http://good.com/go")


async def test_an_endless_redirect_ends() -> None:
    net = Net(Names(good_com=[PUBLIC]), go="/go")
    with pytest.raises(httpx.TooManyRedirects):
        await net.client.get("http://good.com/go")
    assert len(net.requests) == 6


async def test_private_addresses_can_be_allowed() -> None:
    net = Net(Names(intranet_local=["10.0.0.1"]), allow_private=True)
    assert (await net.client.get("http://intranet.local/")).text == "hello"


async def test_an_unknown_name_is_a_failed_connection() -> None:
    net = Net(Names())
    with pytest.raises(httpx.ConnectError, match=r"nowhere\.example"):
        await net.client.get("http://nowhere.example/")


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "localhost"])
async def test_every_spelling_of_this_machine_is_refused(host: str) -> None:
    async with guarded_client(allow_private=False) as client:
        with pytest.raises((ForbiddenAddressError, httpx.ConnectError, httpx.InvalidURL)):
            await client.get(f"http://{host}:9/")


async def test_names_are_resolved_as_the_system_does() -> None:
    assert await resolve("127.0.0.1", 80) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "address", "is_covered"),
    [
        ("hooks.inside.example", "10.9.9.9", True),
        ("HOOKS.inside.example", "10.9.9.9", True),
        ("inside.example", "10.9.9.9", False),
        ("other.example", "10.1.2.3", True),
        ("other.example", "::ffff:10.1.2.3", True),
        ("other.example", "10.2.0.1", False),
        ("other.example", "fd00::7", True),
        ("other.example", "127.0.0.1", False),
    ],
)
def test_hosts_and_networks_can_be_exempt(host: str, address: str, *, is_covered: bool) -> None:
    exempt = Exempt.read(["*.inside.example", "10.1.0.0/16", "fd00::/8"], fix="ask")
    assert exempt.covers(host, address) is is_covered


async def test_what_is_exempt_is_reached_and_others_are_told_what_to_do() -> None:
    names = Names(hooks_example=["10.1.2.3"], other_example=["10.1.2.4"])
    exempt = Exempt.read(["hooks.example"], fix="name it in the settings")
    found: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append(str(request.url))
        return httpx.Response(200)

    gate = GuardedTransport(httpx.MockTransport(answer), allow_private=False, exempt=exempt, resolver=names)
    async with httpx.AsyncClient(transport=gate) as client:
        await client.post("https://hooks.example/x")
        with pytest.raises(ForbiddenAddressError, match="name it in the settings"):
            await client.post("https://other.example/x")
    assert found == ["https://10.1.2.3/x"]
