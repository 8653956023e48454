"""Where the bytes of documents live, and what is made of them.

Owns keys, stores, the spool of incoming documents, and compression. Knows no batches, URIs, workflows or HTTP.

    Artifacts        what the rest of the code uses: documents by hash, artifacts by (hash, kind, step config)
      Spool          bytes on their way in: hashed and counted while they are written
      Layout         hash and kind -> key
      envelope       optional compression, recognised by the blob itself
      BlobStore      bytes by key: a folder (`fs`), the database (`db`), S3 and other services by OpenDAL, memory

A document's bytes are durable before anything speaks of them. What a crash leaves behind is a spool, or a blob without
a row: `find_strays` finds both.
"""

from __future__ import annotations

from soliplex.ingester.lib.storage.artifacts import Artifacts, Integrity
from soliplex.ingester.lib.storage.blob_keys import Layout
from soliplex.ingester.lib.storage.blobs import Blob, BlobStore
from soliplex.ingester.lib.storage.configured_artifacts import get_artifacts, open_artifacts
from soliplex.ingester.lib.storage.errors import (
    DamagedBlobError,
    DocumentTooLargeError,
    InvalidKeyError,
    NoRoomError,
    StorageError,
    StoreUnavailableError,
)
from soliplex.ingester.lib.storage.spool import Received
from soliplex.ingester.lib.storage.strays import Stray, StrayKind, find_strays, remove_strays

__all__ = [
    "Artifacts",
    "Blob",
    "BlobStore",
    "DamagedBlobError",
    "DocumentTooLargeError",
    "Integrity",
    "InvalidKeyError",
    "Layout",
    "NoRoomError",
    "Received",
    "StorageError",
    "StoreUnavailableError",
    "Stray",
    "StrayKind",
    "find_strays",
    "get_artifacts",
    "open_artifacts",
    "remove_strays",
]
