"""A small HTTP server on loopback whose answers a test chooses."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.tcp import listening

type Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", *, status: str = "200 OK", **headers: str) -> Answer:
    """A whole answer; a header's name is written with _ for -."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return write


@asynccontextmanager
async def serving(answers: Mapping[str, Answer], *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """The address of a server that gives these answers, by path."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ", 2)[1].decode()
        await answers.get(path, answer(status="404 Not Found", Content_Length="0"))(writer)

    async with listening(handle, tls=tls) as place:
        yield f"{'https' if tls else 'http'}://{place}"


def certificate_for(name: str, folder: Path) -> Path:
    """A file with a key and a certificate for this host that it signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
