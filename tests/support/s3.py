"""An S3 server on loopback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from soliplex.ingester.lib.config import S3Settings


@dataclass(frozen=True)
class S3Server:
    """Its address, and buckets on demand."""

    url: str
    client: Any

    def new_bucket(self) -> S3Settings:
        name = f"bucket-{uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        return S3Settings.model_validate(
            {
                "bucket": name,
                "endpoint_url": self.url,
                "access_key_id": "test",
                "access_secret": "secret",
                "region": "us-east-1",
            }
        )


@contextmanager
def open_s3_server() -> Generator[S3Server]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="secret"
    )
    try:
        yield S3Server(url, client)
    finally:
        client.close()
        server.stop()
