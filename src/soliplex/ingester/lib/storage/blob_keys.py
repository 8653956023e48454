"""Where things are: from a document's hash and the kind of an artifact to its key, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self

from soliplex.ingester.lib.config import StorageSettings
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ArtifactType

HASH: Final = re.compile(r"sha256-[0-9a-f]{64}")


class Digest(Protocol):
    """A digest of `hashlib`."""

    def hexdigest(self) -> str: ...


def hash_of_digest(sha256: Digest) -> str:
    """The hash under which a document is known, from the digest of its bytes."""
    return f"sha256-{sha256.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Layout:
    """One folder for each kind of artifact, below it one for each step config, below that 256 of equal size."""

    dirs: Mapping[ArtifactType, str]

    @classmethod
    def of(cls, settings: StorageSettings) -> Self:
        return cls(
            {
                ArtifactType.DOC: settings.document_store_dir,
                ArtifactType.PARSED_MD: settings.parsed_markdown_store_dir,
                ArtifactType.PARSED_JSON: settings.parsed_json_store_dir,
                ArtifactType.CHUNKS: settings.chunks_store_dir,
                ArtifactType.EMBEDDINGS: settings.embeddings_store_dir,
                ArtifactType.RAG: "rag",
                ArtifactType.CUSTOM: "custom",
            }
        )

    def document(self, doc_hash: str) -> str:
        return f"{self.dirs[ArtifactType.DOC]}/{_sharded(doc_hash)}"

    def artifact(self, doc_hash: str, kind: ArtifactType, step_config_id: int) -> str:
        if kind is ArtifactType.DOC:
            raise ValueError("a raw document belongs to no step config: use Artifacts.keep and read_document")
        return f"{self.dirs[kind]}/{step_config_id}/{_sharded(doc_hash)}"

    def derived(self) -> Iterator[ArtifactType]:
        """The kinds that steps make."""
        return (kind for kind in self.dirs if kind is not ArtifactType.DOC)

    def kinds(self) -> dict[str, ArtifactType]:
        """Kind by first folder of its keys."""
        return {folder.split("/")[0]: kind for kind, folder in self.dirs.items()}

    @staticmethod
    def checked_hash(doc_hash: str) -> str:
        """The hash, if it is one: it comes from callers and becomes part of a path. NotFoundError for anything else."""
        if not HASH.fullmatch(doc_hash):
            raise NotFoundError("document", doc_hash)
        return doc_hash

    @staticmethod
    def hash_of(key: str) -> str | None:
        """The document a key belongs to; None for a key that is not one of ours."""
        name = key.rpartition("/")[2]
        return name if HASH.fullmatch(name) else None


def _sharded(doc_hash: str) -> str:
    return f"{doc_hash[-2:]}/{Layout.checked_hash(doc_hash)}"
