"""A look into files before they are ingested: what kind they are, and how many pages they have."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, Self, cast

from soliplex.ingester.installation.forecast import PDF, ForecastFile
from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.mime import detect_mime_type
from soliplex.ingester.lib.wf.isolation import ProcessPool

_COUNT: Final = "soliplex.ingester.lib.parsing.long_documents.count_pages"
LONGEST: Final = 10.0
"""Seconds that one file may take; its pages then follow from its size."""
PROCESSES: Final = 2
MEMORY_MIB: Final = 1024

_log = logging.getLogger(__name__)


class Survey:
    """Looks into files. PDFs are opened in processes of their own: strangers' files can crash what reads them."""

    def __init__(self) -> None:
        self._processes = ProcessPool(processes=PROCESSES, memory_limit_mib=MEMORY_MIB, grace=0.2)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._processes.stop()

    async def look_into(self, file: LocalFile) -> ForecastFile:
        """What is to be known of the file; OSError if it cannot be read."""
        mime_type = await asyncio.to_thread(detect_mime_type, file.bytes_at, file.path.name)
        pages = await self._count(file) if mime_type == PDF else None
        return ForecastFile(mime_type, file.size, pages)

    async def _count(self, file: LocalFile) -> int | None:
        arguments = {"path": file.bytes_at, "mime_type": PDF}
        try:
            return cast("int | None", await self._processes.run(_COUNT, arguments, timeout=LONGEST))
        except IngesterError as error:
            # It may be damaged, locked or a bomb. Ingesting it will say so; here its size has to do.
            _log.debug("the pages of %s cannot be counted: %s", file.path, error)
            return None
