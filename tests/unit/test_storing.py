"""What the store step makes of a document: its title, and which of its chunks are stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.rag.metadata import Placement, index_metadata, placed
from soliplex.ingester.lib.workflow import storing


def chunk(content: str, *headings: str) -> dict[str, Any]:
    return {"content": content, "metadata": {"headings": list(headings)}}


@pytest.mark.parametrize(
    ("meta", "chunks", "title"),
    [
        ({"title": " Annual report "}, [chunk("text", "Preface")], "Annual report"),
        ({"title": "  "}, [chunk("text", "Preface", "Thanks")], "Preface"),
        ({"title": None}, [chunk("text"), chunk("text", "Second")], "Second"),
        ({}, [chunk("text")] * 3 + [chunk("text", "Far below")], "report.pdf"),
        ({}, [], "report.pdf"),
    ],
)
def test_a_title_comes_from_the_metadata_or_a_heading_or_the_name(
    meta: dict[str, Any], chunks: list[dict[str, Any]], title: str
) -> None:
    assert storing.title_of(meta, chunks, "/shelf/report.pdf") == title


def test_a_uri_without_a_name_is_its_own_title() -> None:
    assert storing.title_of({}, [], "/") == "/"


def test_chunks_with_a_stop_phrase_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [chunk("Kept."), chunk("All RIGHTS reserved."), chunk("The rights are reserved.")]
    assert storing._wanted(chunks) == chunks
    monkeypatch.setenv("STOP_PHRASES", '["all rights reserved"]')
    get_settings.cache_clear()
    assert [each["content"] for each in storing._wanted(chunks)] == ["Kept.", "The rights are reserved."]


def test_names_of_ours_are_ours_alone_and_nothing_that_was_sent_is_lost() -> None:
    ours = {"source": "web", "batch_id": 3, "mime_type": "text/plain"}
    sent = {"source": "hr", "batch_id": 7, "doc_hash": "sha256-x", "doc_meta.source": 1, "author": "Ada", "x": {"a": 1}}
    assert index_metadata(ours, sent) == {
        "source": "web",
        "batch_id": 3,
        "mime_type": "text/plain",
        "doc_meta.source": "hr",
        "doc_meta.batch_id": 7,
        "doc_meta.doc_hash": "sha256-x",
        "doc_meta.doc_meta.source": 1,
        "author": "Ada",
        "x": {"a": 1},
    }


def test_a_document_belongs_to_the_source_it_was_uploaded_to_whatever_its_metadata_say() -> None:
    document = SimpleNamespace(hash="sha256-a", mime_type="text/plain", doc_meta={"source": "hr", "mime_type": "x"})
    place = SimpleNamespace(uri="/a.txt", source="web")
    step: Any = {"places": [place], "doc": document, "batch_id": 3}
    metadata = placed(storing._document(step, [], {}).metadata, [Placement("/a.txt", "web", 3)])
    assert {name: metadata[name] for name in ("source", "mime_type", "batch_id", "doc_meta.source")} == {
        "source": "web",
        "mime_type": "text/plain",
        "batch_id": 3,
        "doc_meta.source": "hr",
    }
