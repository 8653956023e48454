"""Large documents and a real server: its memory stays as it was, whatever their size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.serving import Server, serving

MIB = 1 << 20
SIZE = 192 * MIB
BLOCK = bytes(range(256)) * 4096


def memory_of(server: Server) -> int:
    """Resident bytes of the server's process."""
    status = Path(f"/proc/{server.pid}/status").read_text("utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def part(name: str, value: str) -> bytes:
    return f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def test_memory_does_not_grow_with_the_document(tmp_path: Path) -> None:
    seen: list[int] = []
    with serving(tmp_path, "--no-worker", afresh=True) as server, server.client() as client:
        batch_id = client.post("/api/v1/batch/", data={"source": "files", "name": "large"}).json()["batch_id"]
        fields = {"source_uri": "/small.txt", "source": "files", "batch_id": str(batch_id)}
        client.post("/api/v1/document/upload", data=fields, files={"file": ("a.txt", b"small")}).raise_for_status()

        def body() -> Iterator[bytes]:
            yield part("source_uri", "/large.bin")
            yield b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n'
            for _ in range(SIZE // MIB):
                yield BLOCK
                seen.append(memory_of(server))
            yield b"\r\n" + part("source", "files") + part("batch_id", str(batch_id)) + b"--xyz--\r\n"

        before = memory_of(server)
        headers = {"content-type": "multipart/form-data; boundary=xyz"}
        answer = client.post("/api/v1/document/upload", content=body(), headers=headers)
        assert answer.status_code == 201, answer.text
    digest = hashlib.sha256()
    for _ in range(SIZE // MIB):
        digest.update(BLOCK)
    assert answer.json()["document_hash"] == f"sha256-{digest.hexdigest()}"
    assert max(seen) - before < 40 * MIB, (before, max(seen))


def test_memory_does_not_grow_with_an_artifact_that_is_downloaded(tmp_path: Path) -> None:
    doc_hash = "sha256-" + "ab" * 32
    with serving(tmp_path, "--no-worker", afresh=True) as server, server.client() as client:
        place = tmp_path / "data" / "file_store" / "chunks" / "1" / "ab" / doc_hash
        place.parent.mkdir(parents=True)
        with place.open("wb") as file:
            for _ in range(SIZE // MIB):
                file.write(BLOCK)
        address = f"/api/v1/document/{doc_hash}/artifacts/chunks"
        assert client.get(address, params={"step_config_id": 2}).status_code == 404
        before, received, seen = memory_of(server), 0, [0]
        with client.stream("GET", address, params={"step_config_id": 1}) as answer:
            assert (answer.status_code, answer.headers["X-Step-Config-Id"]) == (200, "1")
            for block in answer.iter_bytes(MIB):
                received += len(block)
                seen.append(memory_of(server))
    assert received == SIZE
    assert max(seen) - before < 40 * MIB, (before, max(seen))
