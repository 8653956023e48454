"""LANCEDB_DIR: where RAG databases live, and how it is reached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

from soliplex.ingester.lib.config import S3Settings, Settings
from soliplex.ingester.lib.wiring import current_wiring


@dataclass(frozen=True, slots=True)
class RagFolder:
    """What the settings say of RAG databases."""

    address: str
    """The address of a bucket with its prefix, or the whole path of a folder."""
    bucket: S3Settings
    lock_ttl: timedelta

    @classmethod
    def of(cls, settings: Settings) -> Self:
        given = settings.lancedb_dir
        address = given.rstrip("/") if "://" in given else str(Path(given).absolute())
        return cls(address, settings.artifact_s3, timedelta(seconds=settings.resource_lock_ttl_seconds))

    @property
    def storage_options(self) -> dict[str, str]:
        """How LanceDB reaches the bucket. What is not set comes from the machine, such as its credentials."""
        bucket = self.bucket
        secret = bucket.access_secret.get_secret_value() if bucket.access_secret else None
        given = {
            "aws_endpoint": bucket.endpoint_url,
            "aws_access_key_id": bucket.access_key_id,
            "aws_secret_access_key": secret,
            "aws_region": bucket.region or ("us-east-1" if bucket.endpoint_url else None),
            "allow_http": "true" if (bucket.endpoint_url or "").startswith("http://") else None,
        }
        return {name: value for name, value in given.items() if value}


def rag_folder() -> RagFolder:
    """The RAG folder of the current wiring."""
    return current_wiring().made(RagFolder.of)
