"""`s3://bucket/key`: objects of the one bucket that documents may be read from."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.fetching.errors import InputRefusedError
from soliplex.ingester.lib.fetching.wanted import Wanted
from soliplex.ingester.lib.storage.objects import ObjectBlobs, open_operator, s3_options


async def read_object(wanted: Wanted) -> AsyncGenerator[bytes]:
    """The object, if it is in the bucket INPUT_S3."""
    bucket, asked_for = wanted.settings.input_s3, wanted.parts.netloc
    if bucket.bucket is None or asked_for != bucket.bucket:
        raise InputRefusedError(f"the bucket {asked_for!r} is not the one that documents may be read from")
    # In s3:// a key is written as it is; ? and # are letters like any other.
    name = wanted.uri.partition("://")[2].partition("/")[2]
    if not name or name.endswith("/"):
        raise InputRefusedError(f"s3://{asked_for}/{name} names no object")
    store = ObjectBlobs("s3", open_operator("s3", s3_options(bucket), setting="INPUT_S3"))
    try:
        async with aclosing(store.read_object(name)) as blocks:
            async for block in blocks:
                yield block
    except NotFoundError as exc:
        raise InputRefusedError(f"there is no object {name!r} in the bucket {asked_for!r}") from exc
