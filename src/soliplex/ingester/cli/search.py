"""`si-cli search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from soliplex.ingester.cli.groups import tell
from soliplex.ingester.cli.ingest.choice import Server, open_target
from soliplex.ingester.cli.output import AsJson, console, line, print_json
from soliplex.ingester.lib.answers import MOST_HITS

if TYPE_CHECKING:
    from soliplex.ingester.lib.answers import Hit, SearchKind

OTHERS_SHOWN: Final = 3


async def search(
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Words, or a question.")],
    *,
    db: Annotated[str | None, typer.Option("--db", help="RAG database. Default: that of the default set.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="vector, text or hybrid.")] = "hybrid",
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_HITS, help="Most results.")] = 5,
    source: Annotated[str | None, typer.Option("--source", help="Only documents of this source.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Only documents of this batch.")] = None,
    uri_prefix: Annotated[str | None, typer.Option("--uri-prefix", help="Only URIs that begin so.")] = None,
    min_score: Annotated[
        float | None,
        typer.Option("--min-score", help="Only with at least this score: -1 to 1; for text (BM25), 0 and more."),
    ] = None,
    meta: Annotated[list[str] | None, typer.Option("--meta", metavar="NAME=VALUE", help="Only with this.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Search what was ingested by meaning, words or both.

    Exit code 1 if nothing was found, 2 if an option is wrong.
    """
    from soliplex.ingester.installation.values import Question

    chosen = _kind(kind)
    question = Question(
        text=" ".join(text),
        kind=chosen,
        limit=limit,
        db=db,
        source=source,
        batch_id=batch,
        uri_prefix=uri_prefix,
        min_score=_min_score(chosen, min_score),
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
    from soliplex.ingester.lib.answers import SearchKind

    try:
        return SearchKind(name)
    except ValueError:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SearchKind)}", param_hint="--kind") from None


def _min_score(kind: SearchKind, given: float | None) -> float | None:
    from soliplex.ingester.lib.answers import problem_of_min_score

    if given is not None and (problem := problem_of_min_score(kind, given)):
        raise typer.BadParameter(problem, param_hint="--min-score")
    return given


def _facts(given: list[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{each!r} is not of the form NAME=VALUE", param_hint="--meta")
        facts[name] = value
    return facts


def _print(found: list[Hit]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    if not found:
        out.print("Nothing was found.")
    for number, hit in enumerate(found, start=1):
        heading = line(f"{number}. {hit.title or hit.uri or ''}", "bold")
        out.print(Text.assemble(heading, line(_place(hit), "cyan")), soft_wrap=True)
        for uri in _uris(hit):
            out.print(line(f"   {uri}", "dim"), soft_wrap=True)
        out.print(Padding(line(hit.snippet), (0, 0, 0, 3), expand=False))
        out.print()


def _uris(hit: Hit) -> list[str]:
    """Where its document lives: first the place that was asked for, then some of the others, with their sources."""
    others = [place for place in hit.places if (place.uri, place.source) != (hit.uri, hit.source)]
    shown = [f"also {place.uri or ''}  ({place.source or 'no source'})" for place in others[:OTHERS_SHOWN]]
    left = len(others) - len(shown)
    return [hit.uri or "", *shown, *([f"and {left:,} more"] if left else [])]


def _place(hit: Hit) -> str:
    """The headings and pages of the hit, and its score."""
    path = [heading for heading in hit.headings if heading != hit.title]
    pages = ", ".join(map(str, hit.page_numbers))
    parts = [" > ".join(path), f"page {pages}" if pages else "", f"{hit.score:.2f}"]
    return "   " + "  ·  ".join(part for part in parts if part)
