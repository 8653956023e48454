"""What the store step makes of a document: its title, and which of its chunks are stored."""

from __future__ import annotations

from typing import Any

import pytest

from soliplex.ingester.lib.config import get_settings
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
