"""`si-cli search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, line, print_json
from soliplex.ingester.lib.errors import InvalidInputError

if TYPE_CHECKING:
    from soliplex.ingester.lib.search import Hit, SearchKind


async def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Words, or a question.")],
    *,
    db: Annotated[str | None, typer.Option("--db", help="RAG database. Default: that of the default set.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="vector, text or hybrid.")] = "hybrid",
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="Most results.")] = 5,
    source: Annotated[str | None, typer.Option("--source", help="Only documents of this source.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Only documents of this batch.")] = None,
    uri_prefix: Annotated[str | None, typer.Option("--uri-prefix", help="Only URIs that begin so.")] = None,
    meta: Annotated[list[str] | None, typer.Option("--meta", metavar="NAME=VALUE", help="Only with this.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Search what was ingested by meaning, words or both.

    Exit code 1 if nothing was found.
    """
    from soliplex.ingester.cli.ingest.target import Question

    question = Question(
        text=" ".join(text),
        kind=_kind(kind),
        limit=limit,
        db=db,
        source=source,
        batch_id=batch,
        uri_prefix=uri_prefix,
        meta=_facts(meta or []),
    )
    async with open_target(server, tell) as target:
        found = await target.search(question)
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not found:
        raise typer.Exit(1)


def _kind(name: str) -> SearchKind:
    from soliplex.ingester.lib.search import SearchKind

    try:
        return SearchKind(name)
    except ValueError:
        raise InvalidInputError("--kind", f"{name!r} is none of {', '.join(SearchKind)}") from None


def _facts(given: list[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise InvalidInputError("--meta", f"{each!r} is not of the form NAME=VALUE")
        facts[name] = value
    return facts


def _print(found: list[Hit]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    if not found:
        out.print("Nothing was found.")
    for number, hit in enumerate(found, start=1):
        out.print(Text.assemble(line(f"{number}. {hit.title or hit.uri or ''}", "bold"), line(_place(hit), "cyan")))
        out.print(Padding(line(hit.uri or "", "dim"), (0, 0, 0, 3)))
        out.print(Padding(line(hit.snippet), (0, 0, 1, 3)))


def _place(hit: Hit) -> str:
    """Where in the document it stands."""
    path = [heading for heading in hit.headings if heading != hit.title]
    pages = ", ".join(map(str, hit.page_numbers))
    parts = [" > ".join(path), f"page {pages}" if pages else "", f"{hit.score:.2f}"]
    return "   " + "  ·  ".join(part for part in parts if part)
