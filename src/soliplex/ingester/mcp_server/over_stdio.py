"""The tools over standard input and output, for the client that started this process."""

from __future__ import annotations

import asyncio

from mcp.server import MCPServer


async def serve_stdio(server: MCPServer, stopping: asyncio.Event) -> None:
    """Serve until the other side closes or the event says to stop. What libraries print goes to standard error."""
    serving = asyncio.create_task(server.run_stdio_async())
    told = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not serving.done():
        serving.cancel()
        await asyncio.wait((serving,))
    if not serving.cancelled():
        await serving
