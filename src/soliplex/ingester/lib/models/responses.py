"""Shapes of answers that are made of several rows."""

from __future__ import annotations

from pydantic import BaseModel

from soliplex.ingester.lib.models.workflows import RunStep, WorkflowRun


class DocumentInfo(BaseModel):
    """What a list of runs says about the document of each."""

    uri: str | None = None
    source: str | None = None
    file_size: int | None = None
    mime_type: str | None = None


class WorkflowRunWithDetails(BaseModel):
    """A run with its steps and its document, where they were asked for."""

    workflow_run: WorkflowRun
    steps: list[RunStep] | None = None
    document_info: DocumentInfo | None = None


class PaginatedResponse[T](BaseModel):
    """One page of a list."""

    items: list[T]
    total: int
    page: int
    rows_per_page: int
    total_pages: int
