"""A docling-serve on loopback: the protocol is real, the parsing is that of the fast parser."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import uvicorn
from fastapi import FastAPI, File, Form, HTTPException, UploadFile

from soliplex.ingester.lib.mime import detect_mime_type
from soliplex.ingester.lib.parsing.fast import FastParser
from soliplex.ingester.lib.parsing.options import ParseOptions
from soliplex.ingester.lib.wf.errors import PermanentError


class FakeDoclingServe:
    """Answers as the real one does. `fail_with` makes all answers that status; `forget` loses tasks that were taken."""

    def __init__(self, port: int = 0) -> None:
        self.fail_with: int | None = None
        self.forgets = False
        self.fails_tasks = False
        self.never_finishes = False
        self.hold: asyncio.Event | None = None
        self.submitted: list[dict[str, Any]] = []
        self.received: list[bytes] = []
        self._results: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        config = uvicorn.Config(self._app(), port=port, log_level="error", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host, port = self._server.servers[0].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}/v1"

    async def __aenter__(self) -> Self:
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup()
        self._running = asyncio.create_task(self._server.main_loop())
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        if self.hold is not None:
            self.hold.set()
        assert self._running is not None
        await self._running
        await self._server.shutdown()

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/convert/file/async")
        async def submit(  # pyright: ignore[reportUnusedFunction]
            files: Annotated[list[UploadFile], File()],
            to_formats: Annotated[list[str], Form()],
            do_ocr: Annotated[bool, Form()] = True,
            page_range: Annotated[list[int] | None, Form()] = None,
        ) -> dict[str, Any]:
            self._fail_if_told()
            task = f"task-{next(self._numbers)}"
            self.submitted.append({"name": files[0].filename, "to_formats": to_formats, "do_ocr": do_ocr})
            self.received.append(await files[0].read())
            self._results[task] = await _converted(self.received[-1], files[0].filename or "", page_range)
            return {"task_id": task, "task_status": "pending", "task_position": 1}

        @app.get("/v1/status/poll/{task}")
        async def poll(task: str, wait: float = 0) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
            self._fail_if_told()
            if self.hold is not None:
                await self.hold.wait()
            if self.never_finishes:
                await asyncio.sleep(0)
                return {"task_id": task, "task_status": "started"}
            if self.forgets or task not in self._results:
                raise HTTPException(404, "Task not found.")
            return {"task_id": task, "task_status": "failure" if self.fails_tasks else "success"}

        @app.get("/v1/result/{task}")
        async def result(task: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
            self._fail_if_told()
            if self.fails_tasks:
                raise HTTPException(404, "Task result not found. Please wait for a completion status.")
            return self._results[task]

        return app

    def _fail_if_told(self) -> None:
        if self.fail_with is not None:
            raise HTTPException(self.fail_with, "told to fail")


async def _converted(content: bytes, name: str, page_range: list[int] | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document"
        path.write_bytes(content)
        options = ParseOptions(page_range=None if page_range is None else (page_range[0], page_range[1]))
        mime_type = detect_mime_type(path, name)
        try:
            parsed = await FastParser().parse(path, mime_type=mime_type, options=options)
        except PermanentError as exc:
            errors = [{"component_type": "user_input", "module_name": "", "error_message": str(exc)}]
            return {"document": {"filename": name}, "status": "failure", "errors": errors}
    document = {"filename": name, "md_content": parsed.markdown, "json_content": parsed.document}
    return {"document": document, "status": "success", "errors": [], "processing_time": 0.1}
