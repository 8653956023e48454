"""Cutting a parsed document into articles, in a process that can be ended and whose memory has a limit."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from soliplex.ingester.segmenter.articles import Article, cut_into_articles, warning_about
from soliplex.ingester.segmenter.page_numbers import page_marks
from soliplex.ingester.segmenter.sizes import Sizes
from soliplex.ingester.segmenter.word_vectors import local_embed, local_sentence_embed

CUT: Final = f"{__name__}.cut_files"


@dataclass(frozen=True, slots=True)
class Cut:
    """The articles of a document."""

    articles: list[Article]
    warning: str | None
    """Warnings about the articles, for people."""


async def cut_files(markdown: Path, document: Path, sizes: Sizes) -> Cut:
    """The articles of a document of which the parser made these files. Called in another process."""
    return await asyncio.to_thread(_cut, markdown, document, sizes)


def _cut(markdown: Path, document: Path, sizes: Sizes) -> Cut:
    text = markdown.read_text("utf-8").replace("\x00", "\ufffd")  # PostgreSQL stores no NUL
    structure: Any = json.loads(document.read_bytes())
    pages = page_marks(text, structure)
    articles = cut_into_articles(text, sizes, pages=pages, embed=local_embed(), embed_sentences=local_sentence_embed())
    return Cut(articles, warning_about(articles, sizes))
