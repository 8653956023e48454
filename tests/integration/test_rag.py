"""Writing to a RAG database and searching it, by haiku.rag itself."""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.lib.rag import fencing, writing
from soliplex.ingester.lib.rag.creation import complete
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.lance_words import RagTroubleError
from soliplex.ingester.lib.rag.metadata import Placement, placed
from soliplex.ingester.lib.rag.opening import (
    EmbeddingIdentity,
    EmbeddingMismatchError,
    connect,
    open_rag,
    read_settings,
)
from soliplex.ingester.lib.rag.readers import readers_kept
from soliplex.ingester.lib.rag.searching import Chunk, Scope, SearchKind, fused, search
from soliplex.ingester.lib.rag.stored_chunks import find_chunk
from soliplex.ingester.lib.rag.writing import (
    NewRagDocument,
    Others,
    RagChunk,
    delete_documents,
    place_documents,
    rag_id,
    write_documents,
)

ROOT = Path(__file__).resolve().parents[2]
DIM = 64
IDENTITY = EmbeddingIdentity("sentence-transformers", "words", DIM)


def vector(text: str) -> list[float]:
    """Texts with the same words lie near one another."""
    values = [0.0] * DIM
    for word in text.lower().split():
        values[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIM] += 1
    length = math.sqrt(sum(value * value for value in values)) or 1
    return [value / length for value in values]


async def embed(identity: EmbeddingIdentity, question: str) -> list[float]:
    assert identity == IDENTITY
    return vector(question)


def document(name: str, *texts: str, source: str = "shelf", batch_id: int = 1, **meta: Any) -> NewRagDocument:
    from docling_core.types.doc.document import DoclingDocument
    from docling_core.types.doc.labels import DocItemLabel

    parsed = DoclingDocument(name=name)
    items = [parsed.add_text(label=DocItemLabel.TEXT, text=text) for text in texts]
    chunks = [
        RagChunk(
            id=f"{name}-{number}",
            content=text,
            order=number,
            embedding=vector(text),
            metadata={
                "doc_item_refs": [item.self_ref],
                "headings": [name.title()],
                "labels": ["text"],
                "page_numbers": [number + 1],
            },
        )
        for number, (text, item) in enumerate(zip(texts, items, strict=True))
    ]
    return NewRagDocument(
        doc_hash=f"sha256-{name}",
        uri=f"/{source}/{name}.md",
        title=name.title(),
        document=parsed.export_to_dict(),
        chunks=chunks,
        metadata={"source": source, "batch_id": batch_id, **meta},
    )


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "library"


async def uris(db: Path | str, question: str, **options: Any) -> list[str | None]:
    return [hit.uri for hit in await search(db, question, embed, **options)]


async def counts(db: Path) -> tuple[int, int, int]:
    async with open_rag(db, None, read_only=True) as rag:
        tables: Sequence[Any] = (rag.store.documents_table, rag.store.chunks_table, rag.store.document_items_table)
        documents, chunks, items = [await table.count_rows() for table in tables]
        assert await rag.count_documents() == documents
        return documents, chunks, items


@pytest.mark.parametrize("kind", SearchKind)
async def test_what_is_written_is_found_with_its_place(db: Path, kind: SearchKind) -> None:
    await write_documents(
        db,
        IDENTITY,
        [
            document("cats", "cats sleep on warm sofas", "cats purr when they are content"),
            document("databases", "a write ahead log makes commits durable", "an index makes lookups fast"),
        ],
        fence=SoleWriter(),
    )
    best = (await search(db, "durable write ahead log", embed, kind=kind))[0]
    assert (best.uri, best.title, best.doc_hash, best.source) == (
        "/shelf/databases.md",
        "Databases",
        "sha256-databases",
        "shelf",
    )
    assert (best.headings, best.page_numbers) == (["Databases"], [1])
    assert best.snippet == "a write ahead log makes commits durable"


async def test_writing_a_document_again_replaces_it(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("cats", "one", "two", "three"), document("dogs", "dogs bark")], fence=SoleWriter()
    )
    assert await counts(db) == (2, 4, 4)
    await write_documents(
        db, IDENTITY, [document("cats", "lions roar"), document("birds", "birds sing")], fence=SoleWriter()
    )
    assert await counts(db) == (3, 3, 3)
    assert (await uris(db, "lions roar", kind=SearchKind.TEXT)) == ["/shelf/cats.md"]
    assert await uris(db, "three", kind=SearchKind.TEXT) == []


async def test_what_a_document_replaces_goes_with_the_same_commit(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("old", "the old text")], fence=SoleWriter())
    await write_documents(
        db, IDENTITY, [document("new", "the new text")], gone=["sha256-old", "sha256-unknown"], fence=SoleWriter()
    )
    assert await counts(db) == (1, 1, 1)
    async with open_rag(db, None, read_only=True) as rag:
        assert (await rag.list_documents())[0].id == rag_id("sha256-new")


async def test_no_search_sees_old_and_new_chunks_together_or_neither(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("old", "the old text", "and more of it"), document("other", "x")], fence=SoleWriter()
    )
    new = [document("new", "the new text"), document("other", "y"), document("another", "z")]
    await write_documents(db, IDENTITY, new, gone=["sha256-old"], fence=SoleWriter())
    seen = await contents_of_each_version(db)
    assert seen[0] == set()
    assert {"the old text", "and more of it", "x"} in seen
    assert seen[-1] == {"the new text", "y", "z"}
    assert all(len(contents) in {0, 3} for contents in seen), seen


async def test_a_search_that_is_overtaken_by_a_write_finds_one_version_all_the_same(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_documents(db, IDENTITY, [document("old", "the old text")], fence=SoleWriter())
    monkeypatch.setattr(writing, "_forget", AsyncMock())  # the write has come as far as the chunks

    async def embed_slowly(identity: EmbeddingIdentity, question: str) -> list[float]:
        """By the time the question is embedded, another search has seen what was written since."""
        await write_documents(db, IDENTITY, [document("new", "the new text")], gone=["sha256-old"], fence=SoleWriter())
        await search(db, "text", embed, kind=SearchKind.TEXT)
        return await embed(identity, question)

    async with readers_kept():
        hits = await search(db, "text", embed_slowly)
    assert [hit.snippet for hit in hits] == ["the new text"]


async def contents_of_each_version(db: Path) -> list[set[str]]:
    """What the chunks were at each commit: what a search that began then has seen."""
    async with open_rag(db, None, read_only=True) as rag:
        table, seen = rag.store.chunks_table, list[set[str]]()
        for version in sorted(each["version"] for each in await table.list_versions()):
            await table.checkout(version)
            seen.append({row["content"] for row in await table.query().select(["content"]).to_list()})
    return seen


async def test_a_document_that_comes_twice_in_a_commit_is_there_once(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("cats", "cats purr"), document("cats", "cats purr")], fence=SoleWriter()
    )
    assert await counts(db) == (1, 1, 1)


async def test_what_lives_elsewhere_since_another_took_its_place_is_found_there(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("old", "the old text"), document("other", "the other text")], fence=SoleWriter()
    )
    moved = {
        "sha256-old": [Placement("/attic/old.md", "attic", 2)],
        "sha256-unknown": [Placement("/nowhere", "attic", 2)],
    }
    await write_documents(db, IDENTITY, [document("new", "the new text")], moved=moved, fence=SoleWriter())
    found = {hit.doc_hash: (hit.uri, hit.source) for hit in await search(db, "text", embed, kind=SearchKind.TEXT)}
    assert found == {
        "sha256-old": ("/attic/old.md", "attic"),
        "sha256-new": ("/shelf/new.md", "shelf"),
        "sha256-other": ("/shelf/other.md", "shelf"),
    }
    assert await uris(db, "old text", kind=SearchKind.TEXT, scope=Scope(source="attic")) == ["/attic/old.md"]


SHELF, ATTIC = Placement("/shelf/cats.md", "shelf", 1), Placement("/attic/felines.md", "attic", 22)


async def no_others(_hashes: object) -> Others:
    return Others()


async def test_a_content_of_several_places_is_found_and_cited_in_each_of_them(db: Path) -> None:
    cats = document("cats", "cats purr")
    await write_documents(db, IDENTITY, [cats, document("dogs", "dogs purr never")], fence=SoleWriter())
    changed = await place_documents(db, {"sha256-cats": [ATTIC, SHELF]}, no_others, fence=SoleWriter())
    assert changed == 1
    scopes: list[tuple[Scope, str | None]] = [
        (Scope(), ATTIC.uri),
        (Scope(source="attic"), ATTIC.uri),
        (Scope(source="shelf", uri_prefix="/shelf/cats"), SHELF.uri),
        (Scope(batch_id=22), ATTIC.uri),
        (Scope(batch_id=1, uri_prefix="/shelf/c"), SHELF.uri),
        (Scope(uri_prefix="/attic/"), ATTIC.uri),
        (Scope(metadata={"batch_id": "22"}), ATTIC.uri),
        (Scope(source="attic", batch_id=1), None),
        (Scope(source="attic", uri_prefix="/shelf/"), None),
        (Scope(batch_id=2), None),
        (Scope(source="att"), None),
    ]
    for scope, uri in scopes:
        hits = [hit for hit in await search(db, "purr", embed, scope=scope) if hit.doc_hash == "sha256-cats"]
        assert [hit.uri for hit in hits] == ([uri] if uri else []), scope
        for hit in hits:
            assert hit.sources == ["attic", "shelf"]
            assert [(place.uri, place.source, place.batch_id) for place in hit.places] == [ATTIC, SHELF]


async def test_only_the_row_that_says_where_a_document_lives_is_written_when_that_changes(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    before = await files_of(db)
    assert await place_documents(db, {"sha256-cats": [ATTIC, SHELF]}, no_others, fence=SoleWriter()) == 1
    written = await files_of(db) - before
    assert {name.split(".lance/")[0] for name in written} == {"document_meta"}, "no other table has new data"
    before = await versions_of(db)
    again = {"sha256-cats": [ATTIC, SHELF], "sha256-unknown": [SHELF]}
    assert await place_documents(db, again, no_others, fence=SoleWriter()) == 0
    assert await versions_of(db) == before, "what is said already is not said again"


async def files_of(db: Path) -> set[str]:
    return {str(path.relative_to(db)) for path in db.glob("*.lance/data/*")}  # noqa: ASYNC240  a test may stand still


async def versions_of(db: Path) -> list[int]:
    async with open_rag(db, None, read_only=True) as rag:
        return [await table.version() for table in (rag.store.document_meta_table, rag.store.chunks_table)]


async def test_a_content_leaves_with_the_place_that_another_has_taken(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("old", "old words"), document("cats", "cats purr")], fence=SoleWriter()
    )

    async def others(hashes: object) -> Others:
        assert hashes == {"sha256-cats"}
        return Others(["sha256-old", "sha256-unknown"])

    await place_documents(db, {"sha256-cats": [SHELF], "sha256-unknown": [SHELF]}, others, fence=SoleWriter())
    assert await counts(db) == (1, 1, 1)


def test_metadata_say_several_places_only_where_there_are_several() -> None:
    said = placed({"source": "x", "batch_id": None, "places": "of interest"}, [ATTIC, SHELF])
    assert said == {
        "source": "attic",
        "batch_id": 22,
        "doc_meta.places": "of interest",
        "places": [[*ATTIC], [*SHELF]],
    }
    assert placed(said, [SHELF]) == {"source": "shelf", "batch_id": 1, "doc_meta.places": "of interest"}


@pytest.mark.parametrize("where", ["_replace", "_put_up"])
async def test_a_full_disk_is_told_as_one(db: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(
            "LanceError(IO): No space left on device (os error 28), /build/rust/lance-table/src/io/commit.rs:9:5"
        )

    monkeypatch.setattr(fencing, where, fail)
    with pytest.raises(RagTroubleError, match=r"the RAG database \S+ could not be .*: the disk .* is full; make room"):
        await write_documents(db, IDENTITY, [document("cats", "cats sleep")], fence=SoleWriter())


async def test_deleted_documents_are_found_no_more(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("cats", "cats purr"), document("dogs", "dogs bark")], fence=SoleWriter()
    )
    assert await delete_documents(db, ["sha256-cats", "sha256-unknown"], fence=SoleWriter()) == 1
    assert await counts(db) == (1, 1, 1)
    assert await uris(db, "cats purr", kind=SearchKind.TEXT) == []


async def test_a_document_without_text_is_stored_too(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("empty")], fence=SoleWriter())
    await write_documents(db, IDENTITY, [document("empty"), document("cats", "cats purr")], fence=SoleWriter())
    assert await counts(db) == (2, 1, 1)


async def test_a_scope_bounds_the_search(db: Path) -> None:
    await write_documents(
        db,
        IDENTITY,
        [
            document("one", "the same words", source="a", batch_id=1, pages=3, author="Ada"),
            document("two", "the same words", source="b_%", batch_id=12, pages=30, author='Bé "B" \\ Bo'),
            document("three", "the same words", source="it's", batch_id=2, draft=True, note='"source": "a",'),
        ],
        fence=SoleWriter(),
    )
    scopes: list[tuple[Scope, set[str]]] = [
        (Scope(source="a"), {"one"}),
        (Scope(source="b_%"), {"two"}),
        (Scope(source="it's"), {"three"}),
        (Scope(source="' OR ''='"), set()),
        (Scope(source="a') OR (true"), set()),
        (Scope(source="%"), set()),
        (Scope(batch_id=1), {"one"}),
        (Scope(uri_prefix="/b_%/"), {"two"}),
        (Scope(uri_prefix="/b_"), {"two"}),
        (Scope(uri_prefix="\\"), set()),
        (Scope(uri_prefix="/"), {"one", "two", "three"}),
        (Scope(metadata={"author": "Ada"}), {"one"}),
        (Scope(metadata={"author": 'Bé "B" \\ Bo'}), {"two"}),
        (Scope(metadata={"pages": 3}), {"one"}),
        (Scope(metadata={"pages": "3"}), {"one"}),
        (Scope(metadata={"draft": "true"}), {"three"}),
        (Scope(metadata={"it's": "x' OR true --"}), set()),
        (Scope(source="a", batch_id=1, uri_prefix="/a", metadata={"pages": "3"}), {"one"}),
        (Scope(source="a", batch_id=2), set()),
        (Scope(), {"one", "two", "three"}),
    ]
    for scope, expected in scopes:
        for kind in SearchKind:
            found = await search(db, "same words", embed, kind=kind, scope=scope)
            assert {(hit.title or "").lower() for hit in found} == expected, (kind, scope)


async def test_a_scope_looks_at_the_metadata_themselves_and_not_inside_them(db: Path) -> None:
    """Whoever uploads says anything in the metadata, also what looks like the metadata of another document."""
    disguises: list[dict[str, Any]] = [
        {"x": {"source": "hr"}},
        {"x": {"source": "hr", "batch_id": 7}, "y": 1},
        {"x": [{"source": "hr"}]},
        {'my"source': "hr", 'my"batch_id': 7},
        {'\\"source': "hr"},
        {"note": '{"source": "hr", "batch_id": 7}'},
        {"note": '"source": "hr",'},
        {"source ": "hr", " source": "hr"},
        {"x": {"places": [["/x", "hr", 7]]}, "y": '"places": [["/x", "hr", 7]]'},
    ]
    pretenders = [
        document(f"guest{number}", "the same words", source="web", batch_id=1, **meta)
        for number, meta in enumerate(disguises)
    ]
    real = document("real", "the same words", source="hr", batch_id=7, note="{ü}", x={"source": "web"})
    plain = document("plain", "the same words", source="hr", batch_id=7)
    await write_documents(db, IDENTITY, [*pretenders, real, plain], fence=SoleWriter())
    for scope in (
        Scope(source="hr"),
        Scope(batch_id=7),
        Scope(metadata={"source": "hr"}),
        Scope(metadata={"batch_id": "7"}),
    ):
        found = await search(db, "same words", embed, limit=100, scope=scope)
        assert {(hit.title or "").lower() for hit in found} == {"real", "plain"}, scope
    found = await search(db, "same words", embed, limit=100, scope=Scope(source="web"))
    assert {(hit.title or "").lower() for hit in found} == {f"guest{number}" for number in range(len(disguises))}
    exact = await search(db, "same words", embed, limit=100, scope=Scope(metadata={"note": '"source": "hr",'}))
    assert [(hit.title or "").lower() for hit in exact] == ["guest6"]


async def test_a_scope_is_applied_before_the_limit(db: Path) -> None:
    """However well the others fit: the one that is asked for is found."""
    others = [document(f"other{number}", *["durable log"] * 40, source="many") for number in range(5)]
    rare = document("rare", "a log of durable things, written once upon a time", source="few")
    await write_documents(db, IDENTITY, [*others, rare], fence=SoleWriter())
    for kind in SearchKind:
        assert await uris(db, "durable log", kind=kind, limit=1, scope=Scope(source="few")) == ["/few/rare.md"]
    all_but_rare = await search(db, "durable log", embed, limit=100, scope=Scope(source="many"))
    assert (len(all_but_rare), {hit.source for hit in all_but_rare}) == (100, {"many"})


@given(text=st.text(min_size=1, max_size=20), name=st.text(min_size=1, max_size=10))
def test_whatever_is_asked_of_metadata_stays_within_its_quotes(text: str, name: str) -> None:
    """Between the quotes of the condition there is no quote that is not doubled."""
    condition = Scope(source=text, uri_prefix=text, metadata={name: text}).condition() or ""
    outside = re.sub(r"'(?:[^']|'')*'", "", condition)
    assert re.fullmatch(r"[A-Za-z() ]*", outside), outside


def cosine(one: str, other: str) -> float:
    return sum(a * b for a, b in zip(vector(one), vector(other), strict=True))


async def test_a_score_says_how_well_a_hit_fits_whatever_else_is_found(db: Path) -> None:
    """By meaning, and by both, it is the cosine of question and chunk: also of what only the words have found."""
    question, fits = "durable write ahead log", "a write ahead log makes commits durable"
    near = document("near", fits, source="few")
    # So many lie nearer that the way by meaning alone does not reach the one with the rare word.
    common = ("durable write ahead", "durable", "ahead")
    crowd = [document(f"crowd{number}", *[text] * 50, source="many") for number, text in enumerate(common)]
    far = document("far", "xylophone music for beginners", source="few")
    await write_documents(db, IDENTITY, [near], fence=SoleWriter())
    alone = {kind: (await search(db, question, embed, kind=kind))[0].score for kind in SearchKind}
    await write_documents(db, IDENTITY, [*crowd, far], fence=SoleWriter())
    for kind in (SearchKind.VECTOR, SearchKind.HYBRID):
        hits = await search(db, question, embed, kind=kind, limit=100)
        assert all(hit.score == pytest.approx(cosine(question, hit.content), abs=1e-5) for hit in hits)
        again, *_ = await search(db, question, embed, kind=kind, scope=Scope(source="few"))
        assert again.score == alone[kind] == pytest.approx(cosine(question, fits), abs=1e-5)
    mixed = await search(db, "durable write ahead xylophone", embed, limit=100)
    (rare,) = [hit for hit in mixed if hit.uri == "/few/far.md"]
    assert rare.score == pytest.approx(cosine("durable write ahead xylophone", rare.content), abs=1e-5)
    by_words = [hit.score for hit in await search(db, question, embed, kind=SearchKind.TEXT)]
    assert by_words == sorted(by_words, reverse=True)
    assert by_words[-1] > 0


async def test_hits_below_the_least_score_are_left_out_and_the_next_take_their_place(db: Path) -> None:
    texts = ["cats purr", "cats purr and sleep", "cats bark never", "dogs sleep", "trees"]
    await write_documents(db, IDENTITY, [document("pets", *texts)], fence=SoleWriter())
    for kind in SearchKind:
        every = await search(db, "cats purr", embed, kind=kind)
        for least in sorted({hit.score for hit in every}):
            found = await search(db, "cats purr", embed, kind=kind, min_score=least)
            assert [hit.content for hit in found] == [hit.content for hit in every if hit.score >= least]
            (best,) = await search(db, "cats purr", embed, kind=kind, min_score=least, limit=1)
            assert best == found[0]
        assert await search(db, "cats purr", embed, kind=kind, min_score=1e9) == []


async def test_the_order_of_hits_is_that_of_both_ways_fused(db: Path) -> None:
    """As it was before scores were told apart from it."""
    texts = ["cats purr", "cats purr and sleep on sofas", "purr", "dogs sleep", "cats and dogs"]
    await write_documents(db, IDENTITY, [document("pets", *texts)], fence=SoleWriter())
    ways = [await search(db, "cats purr", embed, kind=kind) for kind in (SearchKind.VECTOR, SearchKind.TEXT)]
    near = {hit.content: 1 / (1 + (1 - hit.score)) for hit in ways[0]}
    words = {hit.content: hit.score for hit in ways[1]}
    fusion = {content: scaled(near)[content] + scaled(words).get(content, 0.0) for content in near}
    hits = await search(db, "cats purr", embed)
    assert [hit.content for hit in hits] == sorted(fusion, key=lambda content: -fusion[content])


async def test_phrases_and_identifiers_are_found_as_they_are(db: Path) -> None:
    texts = [
        "kubectl can get and get and get pods with kubectl",
        "the tool kubectl_get lists pods",
        "shutdown of workers is graceful: a graceful worker, a shutdown",
        "a graceful shutdown ends them",
        "version 1.5.2 is old",
        "2 of 5 at 1 and 1.5 of 2",
    ]
    await write_documents(db, IDENTITY, [document("tools", *texts)], fence=SoleWriter())
    # Rows that the index lacks yet are read one by one, and must be found the same way.
    await write_documents(db, IDENTITY, [document("late", "a late graceful shutdown")], fence=SoleWriter())
    phrase = 'how is "graceful shutdown" of workers done'
    assert {hit.content for hit in await search(db, phrase, embed, kind=SearchKind.TEXT)} == {texts[3], LATE}
    every = [hit.content for hit in await search(db, phrase, embed)]
    assert set(every[:2]) == {texts[3], LATE}
    assert set(every) == {*texts, LATE}
    assert await search(db, '"pods graceful"', embed, kind=SearchKind.TEXT) == []
    assert len(await search(db, '"pods graceful"', embed)) == len(every)
    for question, best in (("what does kubectl_get get", texts[1]), ("what is new in 1.5.2", texts[4])):
        assert (await search(db, question, embed, kind=SearchKind.TEXT))[0].content == best


async def test_words_that_say_little_find_nothing_by_themselves(db: Path) -> None:
    await write_documents(
        db, IDENTITY, [document("two", "what is this and what are those", "the lease of a worker")], fence=SoleWriter()
    )
    (only,) = await search(db, "what is a lease", embed, kind=SearchKind.TEXT)
    assert only.content == "the lease of a worker"


LATE: Final = "a late graceful shutdown"


def scaled(scores: dict[str, float]) -> dict[str, float]:
    low, high = min(scores.values()), max(scores.values())
    return {content: (score - low) / (high - low) for content, score in scores.items()}


async def test_a_hit_has_the_whole_chunk_and_its_id_leads_to_it(db: Path) -> None:
    table = "| a | b |\n| :- | -: |\n| 1 | - |\n"
    text = f"first line\n\n{table}\n- second\n- third " + "and so on " * 100
    two = [document("one", text), document("other", "before", text)]
    two[1] = replace(two[1], chunks=[replace(chunk, id=f"one-{chunk.order - 1}") for chunk in two[1].chunks])
    await write_documents(db, IDENTITY, two, fence=SoleWriter())
    hits = await search(db, "second third", embed, kind=SearchKind.TEXT)
    assert {hit.content for hit in hits} == {text}
    assert all(len(hit.snippet) < len(text) for hit in hits)
    assert all(hit.snippet.startswith("first line | a | b | | 1 | - | - second - third") for hit in hits)
    assert {hit.chunk_id for hit in hits} == {"one-0"}

    found = await find_chunk(db, "one-0")
    assert found is not None
    assert (found.chunk_id, found.content) == ("one-0", text)
    assert {(each.uri, each.order) for each in found.documents} == {("/shelf/one.md", 0), ("/shelf/other.md", 1)}
    for hit in hits:
        for of_one in (await find_chunk(db, hit.rag_chunk_id or ""), await find_chunk(db, "one-0", hit.doc_hash)):
            assert of_one is not None
            assert (of_one.chunk_id, of_one.content) == ("one-0", text)
            assert [each.doc_hash for each in of_one.documents] == [hit.doc_hash]
    for unknown in ("nothing", "one-_", "%", "' OR true --", '"'):
        assert await find_chunk(db, unknown) is None
    assert await find_chunk(db, "one-0", "sha256-nobody") is None


async def test_vectors_of_another_model_are_refused(db: Path) -> None:
    await write_documents(db, IDENTITY, [document("cats", "cats purr")], fence=SoleWriter())
    with pytest.raises(EmbeddingMismatchError, match="library holds vectors of another model"):
        await write_documents(db, IDENTITY._replace(model="other"), [document("dogs", "dogs bark")], fence=SoleWriter())
    assert await counts(db) == (1, 1, 1)


async def test_a_database_is_created_as_haiku_rag_creates_it(tmp_path: Path) -> None:
    async with open_rag(tmp_path / "theirs", IDENTITY, create=True):
        pass
    await complete(tmp_path / "ours", IDENTITY, SoleWriter())

    async def described(db: Path) -> dict[str, Any]:
        connection = await connect(db)
        tables = {name: await connection.open_table(name) for name in (await connection.list_tables()).tables}
        schemas = {name: (await table.schema()).remove_metadata() for name, table in tables.items()}
        found = {name: await table.list_indices() for name, table in tables.items()}
        indexes = {name: sorted((it.name, it.index_type, *it.columns) for it in each) for name, each in found.items()}
        return {"schemas": schemas, "indexes": indexes, "settings": await read_settings(tables["settings"])}

    assert await described(tmp_path / "ours") == await described(tmp_path / "theirs")


def test_rows_are_made_as_haiku_rag_makes_them() -> None:
    from docling_core.types.doc.document import DoclingDocument
    from haiku.rag.store.models.document import Document
    from haiku.rag.store.models.document_item import extract_items
    from haiku.rag.store.repositories.document import DocumentRepository
    from haiku.rag.store.repositories.document_item import DocumentItemRepository

    given = document("cats", "cats sleep on warm sofas", "and wake at nine").document
    assert isinstance(given, dict)
    parsed = DoclingDocument.model_validate(given)
    entity = Document(content=parsed.export_to_markdown())
    entity.set_docling(parsed)
    theirs: Any = DocumentRepository.__new__(DocumentRepository)
    parts: Any = DocumentItemRepository.__new__(DocumentItemRepository)
    made = writing.rendered("an-id", given)
    assert made.row == dict(theirs._to_documents_record(entity, "an-id"))
    assert list(made.items) == [dict(parts._to_record("an-id", each)) for each in extract_items("an-id", parsed)]
    assert made.items


STORING = """
import asyncio, sys
from pathlib import Path
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.writing import write_documents
from tests.integration.test_rag import IDENTITY, document

async def store() -> None:
    for text in ("cats sleep", "cats wake"):
        await write_documents(Path(sys.argv[1]), IDENTITY, [document("cats", text)], fence=SoleWriter())

asyncio.run(store())
print("haiku.rag.store.engine" in sys.modules)
"""


def test_a_store_imports_none_of_the_clients_of_models_that_haiku_rag_knows(tmp_path: Path) -> None:
    command = (sys.executable, "-c", STORING, str(tmp_path / "db"))
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.stdout.strip(), found.returncode) == ("False", 0), found.stderr


def test_a_fused_ranking_prefers_what_both_ways_find() -> None:
    a, b, c = (Chunk(name, "document", "content", "{}") for name in "abc")
    ranked = fused([[(a, 0.9), (b, 0.8), (c, 0.1)], [(b, 12.0), (c, 3.0)]])
    assert [piece.id for piece, _ in ranked] == ["b", "a", "c"]
