"""Cuts documents into articles: whole, readable parts with a title, a group, a page, tags and a language.

    Markdown ─▶ markdown_blocks ─▶ units ─▶ topics (where headings do not tell) ─▶ packing ─▶ articles
    an article's text ─▶ language · tagging

Owns what an article is and how it is told about. What is here is pure: it knows no database and no HTTP, except for the
services that a language or tags may be asked of, which are passed in.
"""

from __future__ import annotations

from soliplex.ingester.segmenter.articles import Article, cut_into_articles, warning_about
from soliplex.ingester.segmenter.page_numbers import PageMark, page_marks
from soliplex.ingester.segmenter.sizes import ArticleSize, Sizes
from soliplex.ingester.segmenter.topics import Embed
from soliplex.ingester.segmenter.word_vectors import local_embed, local_sentence_embed

__all__ = [
    "Article",
    "ArticleSize",
    "Embed",
    "PageMark",
    "Sizes",
    "cut_into_articles",
    "local_embed",
    "local_sentence_embed",
    "page_marks",
    "warning_about",
]
