"""`/lancedb`: the databases that are searched, what is in them, and their upkeep."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from soliplex.ingester.lib import rag
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import ResourceLock, ResourceLockKind
from soliplex.ingester.lib.rag import inventory
from soliplex.ingester.lib.rag.folder import rag_folder
from soliplex.ingester.lib.rag.inventory import RagDatabase, RagDocument, RagTable
from soliplex.ingester.server.errors import error_answers
from soliplex.ingester.server.parameters import LARGEST_INTEGER, Text

router = APIRouter(prefix="/lancedb", tags=["lancedb"])

Name = Annotated[Text, Query(description="Name of a database below LANCEDB_DIR.", examples=["my_database"])]


class Databases(BaseModel):
    """The databases there are."""

    status: Literal["ok"] = "ok"
    lancedb_dir: str
    database_count: int
    databases: list[RagDatabase]


class Info(BaseModel):
    """What a database holds, and what wrote it."""

    status: Literal["ok"] = "ok"
    path: str
    versions: dict[str, str]
    embeddings: dict[str, Any]
    documents: RagTable
    chunks: RagTable
    vector_index: dict[str, Any]
    tables: list[str]


class Vacuumed(BaseModel):
    """That a database was compacted."""

    status: Literal["ok"] = "ok"
    message: str
    db: str
    path: str


class NotVacuumed(BaseModel):
    """Why a database was not compacted, and who holds it."""

    status: Literal["not_found", "locked"]
    error: str
    holder: ResourceLock | None = None


REFUSALS: Final[dict[int | str, dict[str, Any]]] = {404: {"model": NotVacuumed}, 409: {"model": NotVacuumed}}


class Documents(BaseModel):
    """Some of the documents of a database."""

    status: Literal["ok"] = "ok"
    path: str
    document_count: int
    documents: list[RagDocument]


@router.get("/list", summary="RAG databases, by name")
async def list_databases() -> Databases:
    found = await inventory.list_databases()
    return Databases(lancedb_dir=rag_folder().address, database_count=len(found), databases=found)


@router.get("/info", summary="What a RAG database holds", responses=error_answers(404))
async def get_info(db: Name) -> Info:
    found = await inventory.database_info(db)
    return Info.model_validate(found, from_attributes=True)


@router.get("/documents", summary="Documents of a RAG database, without their text", responses=error_answers(400, 404))
async def list_documents(
    db: Name,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=LARGEST_INTEGER)] = 0,
    where: Annotated[
        Text | None, Query(alias="filter", examples=["title LIKE '%report%' AND created_at >= '2026-01-01'"])
    ] = None,
) -> Documents:
    """`filter` joins conditions on id, uri, title, metadata, created_at and updated_at with AND. It is no SQL."""
    found = await inventory.list_documents(db, limit=limit, offset=offset, where=where)
    return Documents.model_validate(found, from_attributes=True)


@router.get("/vacuum", summary="Compact a RAG database", response_model=Vacuumed, responses=REFUSALS)
@router.post("/vacuum", summary="Compact a RAG database", response_model=Vacuumed, responses=REFUSALS)
async def vacuum(db: Name) -> Any:
    """Compact a database and drop its old versions, unless another writes to it at this moment."""
    try:
        path = await inventory.existing_path(db)
        async with rag.hold_rag_lock(path, holder_kind=ResourceLockKind.WEB, max_wait=0) as lock:
            await rag.vacuum(path, fence=lock)
    except NotFoundError as error:
        return _refusal(HTTPStatus.NOT_FOUND, NotVacuumed(status="not_found", error=str(error)))
    except rag.RagLockedError as error:
        return _refusal(HTTPStatus.CONFLICT, NotVacuumed(status="locked", error=str(error), holder=error.lock))
    return Vacuumed(message=f"{db} was vacuumed", db=db, path=path)


def _refusal(status: HTTPStatus, answer: NotVacuumed) -> JSONResponse:
    return JSONResponse(answer.model_dump(mode="json"), status_code=status)
