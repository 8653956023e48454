"""`si-diag document`."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.groups import page_of
from soliplex.ingester.cli.output import AsJson, Limit, fields_of, print_facts, print_json, print_rows
from soliplex.ingester.lib.errors import NotFoundError

Hash = Annotated[str, typer.Argument(metavar="HASH", help="The document's hash, as in sha256-2cf24…")]

_URIS = {"uri": "uri", "source": "source", "version": "version", "batch": "batch_id", "document": "doc_hash"}
_HISTORY = {
    "when": "process_date",
    "action": "action",
    "version": "version",
    "uri id": "doc_uri_id",
    "batch": "batch_id",
    "facts": "histmeta",
}


async def list_documents(
    *,
    source: Annotated[str | None, typer.Option(help="Those of a source.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Those of a batch.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List the documents of a source or of a batch."""
    from soliplex.ingester.lib import operations

    if (source is None) == (batch is None):
        raise typer.BadParameter("give one of --source and --batch")
    async with open_database():
        if batch is not None:
            page = await operations.documents_of_batch(batch, paging=page_of(limit))
        else:
            page = await operations.documents_of_source(source or "", paging=page_of(limit))
            if not page.total:
                raise NotFoundError("source", source)
    print_rows(page.items, _URIS, as_json=as_json, nothing="no documents", total=page.total)


async def find_documents(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A part of the URI, in whatever case.")],
    *,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Find documents by a part of their URI. Exit code 1 if there are none."""
    from soliplex.ingester.lib import operations

    async with open_database():
        page = await operations.find_documents(text, paging=page_of(limit))
    print_rows(page.items, _URIS, as_json=as_json, nothing=f"no URI contains {text!r}", total=page.total)
    if not page.total:
        raise typer.Exit(1)


async def document_info(doc_hash: Hash, *, as_json: AsJson = False) -> None:
    """Show a document and the places it lives at."""
    from soliplex.ingester.lib import operations

    async with open_database():
        found = await operations.document_info(doc_hash)
    if as_json:
        print_json({"document": found.document, "uris": found.uris})
        return
    print_facts(fields_of(found.document), as_json=False)
    print_rows(found.uris, _URIS, as_json=False, nothing="it lives nowhere: an orphan")


async def document_history(doc_hash: Hash, *, as_json: AsJson = False) -> None:
    """Show what happened to a document."""
    from soliplex.ingester.lib import operations

    async with open_database():
        history = await operations.document_history(doc_hash)
    print_rows(history, _HISTORY, as_json=as_json, nothing="no history")
