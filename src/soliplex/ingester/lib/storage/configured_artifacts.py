"""Artifacts as the settings want them."""

from __future__ import annotations

import json

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.storage.artifacts import Artifacts
from soliplex.ingester.lib.storage.blob_keys import Layout
from soliplex.ingester.lib.storage.blobs import BlobStore
from soliplex.ingester.lib.storage.database_blobs import DatabaseBlobs
from soliplex.ingester.lib.storage.fs import INCOMING, FolderBlobs
from soliplex.ingester.lib.storage.objects import ObjectBlobs, open_operator, s3_options
from soliplex.ingester.lib.storage.spool import Spool
from soliplex.ingester.lib.wiring import current_wiring


def get_artifacts() -> Artifacts:
    """The artifacts of the current wiring."""
    return current_wiring().made(open_artifacts)


def open_artifacts(settings: Settings) -> Artifacts:
    """Artifacts where these settings say. Nothing is created or connected to before it is needed."""
    layout = Layout.of(settings)
    is_folder = settings.file_store_target == "fs"
    folder = (settings.file_store_dir if is_folder else settings.data_dir) / INCOMING
    spool = Spool(folder, reserve=settings.file_store_reserve, head=settings.mimetype_magic_lookahead)
    return Artifacts(_store(settings, layout), spool, layout, compress=settings.file_store_compression == "zstd")


def _store(settings: Settings, layout: Layout) -> BlobStore:
    target, prefix = settings.file_store_target, settings.file_store_dir.as_posix()
    match target:
        case "fs":
            return FolderBlobs(settings.file_store_dir)
        case "db":
            return DatabaseBlobs(layout.kinds())
        case "s3":
            options = s3_options(settings.artifact_s3, prefix)
            return ObjectBlobs(target, open_operator(target, options, setting="ARTIFACT_S3"))
        case _:
            given = settings.file_store_options
            options = {"root": prefix} | (json.loads(given.get_secret_value()) if given else {})
            return ObjectBlobs(target, open_operator(target, options, setting="FILE_STORE_OPTIONS"))
