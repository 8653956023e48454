"""Fetching, enriching and routing, by a real worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations import NewDocument, Started
from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
from soliplex.ingester.lib.operations.joining import join_group
from soliplex.ingester.lib.search import Scope, SearchKind, search_documents
from soliplex.ingester.lib.step_options import InvalidStepOptionError
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.workflow.arguments import Earlier
from tests.support.engine import rows_of
from tests.support.faults import eventually
from tests.support.web import Answer, answer, serving

HANDLERS = "soliplex.ingester.lib.workflow"
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
WORKFLOWS = f"""
id: fetch_quickly
item_steps:
  ingest:
    method: {HANDLERS}.ingest_document
    retries: 3
    backoff: 0
    parameters: {{workflow: plain, size_limit: 1000}}
---
id: plain
item_steps:
  look: {{method: soliplex.ingester.example.parse}}
---
id: from_address
item_steps:
  ingest: {{method: {HANDLERS}.ingest_document}}
  validate: {{method: {HANDLERS}.validate_document}}
  look: {{method: {__name__}.look}}
---
id: routed
item_steps:
  route: {{method: {HANDLERS}.route_document}}
  parse_long: {{type: parse, depends_on: route, method: {__name__}.look}}
  parse_short: {{type: parse, depends_on: route, method: {__name__}.look}}
  chunk: {{depends_on: [parse_long, parse_short], method: {__name__}.look_back}}
---
id: back
item_steps:
  turn: {{type: route, method: {HANDLERS}.route_document}}
---
id: named
item_steps:
  enrich: {{method: {HANDLERS}.enrich_document, retries: 3}}
---
id: enriched
item_steps:
  validate: {{method: {HANDLERS}.validate_document}}
  parse: {{method: {HANDLERS}.parse_document}}
  enrich: {{method: {HANDLERS}.enrich_document}}
  chunk: {{method: {HANDLERS}.chunk_document}}
  embed: {{method: {HANDLERS}.embed_document}}
  store: {{method: {HANDLERS}.save_to_rag}}
"""
PARAMS = r"""
id: quick
config:
  parse: {parser: fast}
  parse_long: {parser: fast, pages_per_part: 7}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
  route:
    branches: {long: [parse_long], short: [parse_short]}
    otherwise: {branch: short}
    rules:
      - {when: {uri: "*/loop/*"}, workflow: back}
      - {when: {mime_type: text/html}, workflow: plain}
      - {when: {meta: {shelf: [upper, top]}, min_size: 20}, branch: long}
  turn:
    rules: [{when: {mime_type: "*"}, workflow: routed}]
  enrich:
    constants: {department: kitchen}
    language: true
    rules:
      - {from: path, pattern: '/(?P<folder>[^/]+)/(?P<year>20\d\d)/'}
      - {from: text, field: flour, pattern: '(\w+) flour'}
---
id: by_name
config:
  enrich:
    constants: {department: kitchen}
    rules: [{from: path, pattern: '/(?P<folder>[^/]+)/[^/]+/'}]
---
id: bad_rules
config:
  enrich:
    rules: [{from: uri, field: a, pattern: '('}]
"""
BREAD = b"# Bread\n\nSourdough needs rye flour, water and five days of patience.\n"


async def look(doc_hash: str) -> dict[str, str]:
    return {"looked_at": doc_hash}


async def look_back(earlier: dict[str, Earlier]) -> dict[str, Any]:
    return {"parsed_with": earlier["parse"].params}


@pytest.fixture(autouse=True)
def registry(tmp_path: Path) -> Iterator[None]:
    for folder, texts in {"workflows": WORKFLOWS, "params": PARAMS}.items():
        (tmp_path / folder).mkdir()
        for number, text in enumerate(texts.split("---\n")):
            (tmp_path / folder / f"{number}.yaml").write_text(text)
    use_registry(Registry(tmp_path / "workflows", tmp_path / "params"))
    yield
    use_registry(None)


@pytest.fixture
async def batch_id(database: type[Database]) -> int:
    return await documents.create_batch("shelf", "first")


async def put(batch_id: int, uri: str, content: bytes, **meta: Any) -> str:
    async def blocks() -> AsyncIterator[bytes]:
        yield content

    new = NewDocument(uri=uri, source="shelf", batch_id=batch_id, meta=meta)
    return (await documents.upload_document(blocks(), new)).doc_hash


type Steps = dict[tuple[str, str], tuple[str, dict[str, Any] | str]]


async def steps_of(started: Started) -> Steps:
    """Once the group has ended: status and output, or else message, by document or address and step."""

    async def is_over() -> bool:
        rows = await rows_of("SELECT completed_date FROM rungroup WHERE id = :id", id=started.run_group.id)
        return rows[0][0] is not None

    await eventually(is_over, "the group has ended", within=300)
    rows = await rows_of(
        """SELECT r.doc_id, CAST(r.input AS text), r.workflow_definition_id, s.workflow_step_name, s.status,
                  CAST(s.output AS text), s.status_message
             FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id WHERE r.run_group_id = :id ORDER BY s.id""",
        id=started.run_group.id,
    )
    return {
        (doc or json.loads(given)["uri"], f"{workflow}.{step}"): (status, json.loads(output) if output else message)
        for doc, given, workflow, step, status, output, message in rows
    }


def tried_again(*answers: Answer) -> Answer:
    """One answer after the other."""
    left = list(answers)

    async def write(writer: asyncio.StreamWriter) -> None:
        await left.pop(0)(writer)

    return write


async def test_documents_are_fetched_by_address_and_processed(
    worker: Worker, batch_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOW_PRIVATE_ADDRESSES", "true")
    monkeypatch.setenv("INPUT_FILE_ROOTS", str(tmp_path / "shared"))
    get_settings.cache_clear()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "bread.md").write_bytes(BREAD)
    busy = answer(status="503 Service Unavailable", Content_Length="0")
    answers = {
        "/bread.md": answer(BREAD),
        "/flaky.md": tried_again(busy, busy, answer(b"# At last\n")),
        "/large.md": answer(b"x" * 2000),
    }
    async with serving(answers) as url:
        local = (tmp_path / "shared" / "bread.md").as_uri()
        names = ("bread.md", "flaky.md", "large.md", "gone.md")
        uris = [*(f"{url}/{name}" for name in names), local, "file:///etc/passwd"]
        fetches = [Fetch(uri=uri, source="web", meta={"shelf": "top"}) for uri in uris]
        steps = await steps_of(await start_fetches(batch_id, fetches, workflow_id="fetch_quickly", param_id="quick"))
    ingested = {uri: steps[uri, "fetch_quickly.ingest"] for uri in uris}
    assert [status for status, _ in ingested.values()] == [
        *("COMPLETED", "COMPLETED", "FAILED", "FAILED", "COMPLETED", "FAILED"),
    ]
    assert "larger than 1000 bytes" in str(ingested[f"{url}/large.md"][1])
    assert f"{url}/gone.md cannot be fetched: the server answered 404" in str(ingested[f"{url}/gone.md"][1])
    assert "no file below a folder" in str(ingested["file:///etc/passwd"][1])
    bread = ingested[local][1]
    assert isinstance(bread, dict)
    doc_hash = bread["document"]
    # The same content at two places is one document, and is processed once.
    assert [key for key in steps if key[1] == "plain.look"].count((doc_hash, "plain.look")) == 1
    assert len([key for key in steps if key[1] == "plain.look"]) == 2
    known = await documents.document_info(doc_hash)
    assert {place.uri for place in known.uris} == {f"{url}/bread.md", local}
    assert known.document.doc_meta["shelf"] == "top"


async def test_a_step_that_is_repeated_starts_no_second_run(database: type[Database], batch_id: int) -> None:
    doc_hash = await put(batch_id, "/bread.md", BREAD)
    started = await start_fetches(
        batch_id, [Fetch(uri="https://a.org/b", source="web")], workflow_id="fetch_quickly", param_id="quick"
    )
    group_id = started.run_group.id
    assert group_id is not None
    runs = await asyncio.gather(
        *(join_group(group_id, doc_hash, workflow_id="plain", param_id="quick", batch_id=batch_id) for _ in range(5))
    )
    assert len(set(runs)) == 1
    assert await rows_of("SELECT total_runs, remaining_runs FROM rungroup WHERE id = :id", id=group_id) == [(2, 2)]


@ON_SQLITE
async def test_a_workflow_may_begin_with_an_address(
    worker: Worker, batch_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INPUT_FILE_ROOTS", str(tmp_path))
    get_settings.cache_clear()
    (tmp_path / "bread.md").write_bytes(BREAD)
    uri = (tmp_path / "bread.md").as_uri()
    fetch = Fetch(uri=uri, source="shelf")
    steps = await steps_of(await start_fetches(batch_id, [fetch], workflow_id="from_address", param_id="quick"))
    _, ingested = steps[uri, "from_address.ingest"]
    assert isinstance(ingested, dict)
    reason = f"skipped: the document goes on in run {ingested['continued_in']}"
    for step in ("validate", "look"):
        assert steps[uri, f"from_address.{step}"] == ("COMPLETED", reason)
    doc_hash = ingested["document"]
    assert steps[doc_hash, "from_address.ingest"][1] == {"skipped": True, "reason": "the document is stored already"}
    assert steps[doc_hash, "from_address.look"] == ("COMPLETED", {"looked_at": doc_hash})


@pytest.mark.parametrize(
    ("fetch", "words"),
    [
        (Fetch(uri="ftp://a.org/b", source="web"), "uri: ftp scheme is not known; use file://"),
        (Fetch(uri="/etc/passwd", source="web"), "uri: no scheme is not known"),
        (Fetch(uri="https://a.org/b", source=""), "source: must not be empty"),
    ],
)
def test_an_address_that_can_never_be_fetched_is_refused_at_once(fetch: Fetch, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        fetch.as_input()


@ON_SQLITE
async def test_a_workflow_that_fetches_nothing_is_refused(database: type[Database], batch_id: int) -> None:
    with pytest.raises(InvalidInputError, match="'plain' does not begin with an ingest step"):
        await start_fetches(
            batch_id, [Fetch(uri="https://a.org/b", source="web")], workflow_id="plain", param_id="quick"
        )


async def test_documents_are_routed_by_rules(worker: Worker, batch_id: int) -> None:
    bread = await put(batch_id, "/bread.md", BREAD)
    bees = await put(batch_id, "/bees.md", b"# A year with one hive and its bees\n", shelf="top")
    page = await put(batch_id, "/page.html", b"<!doctype html><html><body>Hello</body></html>")
    loop = await put(batch_id, "/loop/a.md", b"# Round and round\n")
    steps = await steps_of(await documents.start_workflows(batch_id, workflow_id="routed", param_id="quick"))

    def reason(doc_hash: str, step: str) -> Any:
        status, output = steps[doc_hash, f"routed.{step}"]
        assert status == "COMPLETED", steps
        return output if isinstance(output, str) else None

    assert steps[bread, "routed.route"][1] == {"branch": "short", "skips": ["parse_long"]}
    assert steps[bees, "routed.route"][1] == {"rule": 2, "branch": "long", "skips": ["parse_short"]}
    assert reason(bread, "parse_long") == "skipped: step 'route' chose the branch 'short'"
    assert reason(bread, "parse_short") is None
    assert reason(bees, "parse_short") == "skipped: step 'route' chose the branch 'long'"
    # What follows both branches finds what the one that was taken has made.
    assert steps[bread, "routed.chunk"][1] == {"parsed_with": {"parser": "fast"}}
    assert steps[bees, "routed.chunk"][1] == {"parsed_with": {"parser": "fast", "pages_per_part": 7}}
    # Another workflow: its run is in the same group, and here nothing is left to do.
    assert steps[page, "plain.look"] == ("COMPLETED", {"pages": 1})
    assert "goes on in run" in reason(page, "chunk")
    assert steps[loop, "back.turn"] == (
        "FAILED",
        "route.rules: the document would go in a circle: routed → back → routed; change the rules",
    )


async def test_rules_add_to_the_metadata_of_documents(worker: Worker, batch_id: int) -> None:
    bread = await put(batch_id, "/recipes/2024/bread.md", BREAD, folder="mine", shelf="top")
    steps = await steps_of(await documents.start_workflows(batch_id, workflow_id="named", param_id="by_name"))
    assert steps[bread, "named.enrich"] == ("COMPLETED", {"found": {"department": "kitchen", "folder": "recipes"}})
    meta = (await documents.document_info(bread)).document.doc_meta
    assert meta == {"department": "kitchen", "folder": "recipes", "shelf": "top"}


@ON_SQLITE
async def test_nothing_is_started_with_bad_rules(worker: Worker, batch_id: int) -> None:
    await put(batch_id, "/bread.md", BREAD)
    with pytest.raises(InvalidStepOptionError, match=r"enrich.rules.0: the pattern '\(' is no regular expression"):
        await documents.start_workflows(batch_id, workflow_id="named", param_id="bad_rules")


@pytest.mark.slow
@ON_SQLITE
async def test_rules_find_metadata_that_searches_can_ask_for(worker: Worker, batch_id: int) -> None:
    bread = await put(batch_id, "/recipes/2024/bread.md", BREAD, folder="mine")
    await put(batch_id, "/recipes/2025/cake.md", b"# Cake\n\nThe cake needs wheat flour and patience.\n")
    steps = await steps_of(await documents.start_workflows(batch_id, workflow_id="enriched", param_id="quick"))
    found = {"department": "kitchen", "folder": "recipes", "year": "2024", "flour": "rye", "language": "en"}
    assert steps[bread, "enriched.enrich"] == ("COMPLETED", {"found": found})
    assert (await documents.document_info(bread)).document.doc_meta.items() >= found.items()
    for scope in ({"year": "2024"}, {"flour": "rye"}, {"department": "kitchen", "year": "2024"}):
        hits = await search_documents(
            "patience", database="library", kind=SearchKind.TEXT, scope=Scope(metadata=dict(scope))
        )
        assert [hit.doc_hash for hit in hits] == [bread], scope
