"""Blobs in a bucket: S3, or any other service that OpenDAL speaks to.

An object store shows an object once it is whole; a large one is sent in parts and put together at the end. What a
crash leaves are parts that nobody sees and the bucket's own life-cycle rule removes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.config import S3Settings
from soliplex.ingester.lib.errors import ConfigurationError, NotFoundError
from soliplex.ingester.lib.storage.blobs import BLOCK, Blob, Capabilities, checked
from soliplex.ingester.lib.storage.errors import StoreUnavailableError
from soliplex.ingester.lib.storage.threads import in_thread

if TYPE_CHECKING:
    from opendal import AsyncOperator
    from opendal.file import AsyncFile

PART: Final = 8 << 20
"""S3 takes at most 10,000 parts of an object, none below 5 MiB: this allows 78 GiB."""
REQUESTS_AT_ONCE: Final = 16


def s3_options(bucket: S3Settings, prefix: str = "") -> dict[str, str]:
    """The settings of a bucket, as OpenDAL names them."""
    secret = bucket.access_secret.get_secret_value() if bucket.access_secret else None
    given = {
        "bucket": bucket.bucket,
        "root": f"/{prefix.strip('/')}",
        "endpoint": bucket.endpoint_url,
        "access_key_id": bucket.access_key_id,
        "secret_access_key": secret,
        # Services of one's own name no region, but the signature needs one.
        "region": bucket.region or ("us-east-1" if bucket.endpoint_url else None),
    }
    return {name: value for name, value in given.items() if value}


def open_operator(service: str, options: Mapping[str, str], *, setting: str) -> AsyncOperator:
    """An operator that retries what fails for a while."""
    import opendal  # noqa: PLC0415  heavy, and not needed for a folder
    from opendal.exceptions import ConfigInvalid, Unsupported  # noqa: PLC0415
    from opendal.layers import RetryLayer, TimeoutLayer  # noqa: PLC0415

    try:
        operator = opendal.AsyncOperator(service, **options)
    except Unsupported as exc:
        raise ConfigurationError(setting, f"{service!r} is no service of OpenDAL", "use fs, db or s3") from exc
    except ConfigInvalid as exc:
        raise ConfigurationError(setting, _reason(exc), f"complete the options of {service!r}") from exc
    return operator.layer(TimeoutLayer()).layer(RetryLayer(max_times=4, min_delay=0.1, factor=2.5, jitter=True))


class ObjectBlobs:
    """A service of OpenDAL as a store."""

    def __init__(self, service: str, operator: AsyncOperator) -> None:
        self.capabilities: Final = Capabilities()
        self._service = service
        self._operator = operator

    async def put_file(self, key: str, path: Path) -> None:
        async with self._explained():
            # Left unclosed when something fails: closing would put together what has arrived.
            writer = await self._operator.open(checked(key), "wb", chunk=PART, concurrent=2)
            with path.open("rb") as file:
                while part := await in_thread(file.read, PART):
                    await writer.write(part)
            await writer.close()
        await in_thread(path.unlink)

    async def put(self, key: str, content: bytes) -> None:
        async with self._explained():
            await self._operator.write(checked(key), content)

    def read(self, key: str) -> AsyncGenerator[bytes]:
        return self.read_object(checked(key))

    async def read_object(self, name: str) -> AsyncGenerator[bytes]:
        """An object under any name, also one that we would not give."""
        async with self._explained(name):
            reader = await self._operator.open(name, "rb")
            block = await self._first_block(reader, name)
            while block:
                yield block
                block = await reader.read(BLOCK)

    async def size(self, key: str) -> int | None:
        try:
            async with self._explained(key):
                return await self._size(checked(key))
        except NotFoundError:
            return None

    async def about(self, key: str) -> Blob | None:
        """The blob without its bytes; None where there is none."""
        try:
            async with self._explained(key):
                found = await self._operator.stat(checked(key))
        except NotFoundError:
            return None
        return Blob(key, found.content_length, found.last_modified)

    async def delete(self, keys: Iterable[str]) -> int:
        """Deleting does not say whether there was anything: each is looked at first."""
        wanted = [checked(key) for key in keys]
        turns = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def delete_one(key: str) -> bool:
            async with turns:
                if await self.size(key) is None:
                    return False
                async with self._explained():
                    await self._operator.delete(key)
                return True

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(delete_one(key)) for key in wanted]
        return sum(task.result() for task in tasks)

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        async with self._explained():
            async for entry in await self._operator.list(_folder(prefix), recursive=True):
                if not entry.path.endswith("/"):
                    about = entry.metadata
                    yield Blob(entry.path, about.content_length, about.last_modified)

    async def folders(self, prefix: str) -> Sequence[str]:
        folder = _folder(prefix)
        async with self._explained():
            paths = [entry.path async for entry in await self._operator.list(folder)]
        names = (path.removeprefix(folder.lstrip("/")) for path in paths if path.endswith("/"))
        return sorted({name.rstrip("/") for name in names} - {""})

    async def check(self) -> None:
        async with self._explained():
            await self._operator.check()

    async def close(self) -> None:
        """Connections go with the operator."""

    async def _first_block(self, reader: AsyncFile, name: str) -> bytes:
        # Where a method of an operator raises NotFound, that of a file raises a bare OSError.
        try:
            return await reader.read(BLOCK)
        except OSError as exc:
            if await self._size(name) is None:
                raise NotFoundError("blob", name) from exc
            raise

    async def _size(self, name: str) -> int | None:
        about = await self._operator.stat(name)
        return about.content_length if about.is_file else None

    @asynccontextmanager
    async def _explained(self, key: str | None = None) -> AsyncGenerator[None]:
        from opendal import exceptions  # noqa: PLC0415

        # The exceptions of OpenDAL have no common base but Exception.
        failures: tuple[type[Exception], ...] = tuple(
            kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)
        )
        try:
            yield
        except (*failures, OSError) as exc:
            if key is not None and isinstance(exc, exceptions.NotFound):
                raise NotFoundError("blob", key) from exc
            raise StoreUnavailableError(self._service, _reason(exc)) from exc


def _folder(prefix: str) -> str:
    return f"{checked(prefix)}/" if prefix else "/"


def _reason(exc: Exception) -> str:
    """What OpenDAL says, without the page of context it adds: the first line, and the cause if it names one."""
    first, *rest = str(exc).splitlines() or [type(exc).__name__]
    at = rest.index("Source:") + 1 if "Source:" in rest else len(rest)
    return ": ".join([first.rpartition(" => ")[2], *(line.strip() for line in rest[at : at + 1])])
