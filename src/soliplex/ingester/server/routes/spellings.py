"""Routes that clients know under two spellings: `run-groups` and `run_groups`. The documentation shows the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter


def route(router: APIRouter, method: str, path: str, **options: Any) -> Callable[[Any], Any]:
    """Register an operation under its path, and under the path with underscores where that is another."""
    other = path.replace("-", "_")
    undocumented: dict[str, Any] = {**options, "include_in_schema": False}

    def register[F: Callable[..., Any]](function: F) -> F:
        router.add_api_route(path, function, methods=[method], **options)
        if other != path:
            router.add_api_route(other, function, methods=[method], **undocumented)
        return function

    return register
