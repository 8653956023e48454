"""The tags and the language of an article, by whatever this installation has to find them with."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from soliplex.ingester.lib.answers import JobSegment
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.language import language_of
from soliplex.ingester.lib.llm import Chat
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.segmenter.article_language import Language, Stage, open_language_chain
from soliplex.ingester.segmenter.articles import Article, Embed
from soliplex.ingester.segmenter.jobs.job_options import JobOptions
from soliplex.ingester.segmenter.jobs.local_vectors import embedding_on
from soliplex.ingester.segmenter.jobs.sql import SQL
from soliplex.ingester.segmenter.keyphrases import words_in_articles
from soliplex.ingester.segmenter.tagging import Tagger, TagRules

DOCUMENTS_REMEMBERED: Final = 8


@dataclass(slots=True)
class _Remembered:
    """What tagging needs of the whole document, made once in a process for all its articles."""

    words: OrderedDict[int, Mapping[str, int]] = field(default_factory=OrderedDict[int, Mapping[str, int]])
    languages: OrderedDict[int, str | None] = field(default_factory=OrderedDict[int, str | None])
    embed: tuple[asyncio.AbstractEventLoop, Embed] | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What was found of an article."""

    tags: list[str]
    language: Language


async def describe(segment: JobSegment, options: JobOptions, settings: Settings, chat: Chat | None) -> Description:
    """Find the language of an article, and its tags."""
    async with open_language_chain(settings, chat) as chain:
        language = await chain.language_of(segment.body)
    if language.stage is Stage.DEFAULT and (around := await _language_around(segment.documentid)):
        language = replace(language, code=around, stage=Stage.DOCUMENT)
    tagger = Tagger(
        TagRules(options.usetags, options.maxtags, options.extra_instructions),
        chat=chat,
        chat_timeout=timedelta(seconds=settings.llm_tagging_timeout_seconds),
        embed=_embed() if options.usetags and chat is None else None,
        elsewhere=await _words_of(segment.documentid) if chat is None and not options.usetags else {},
    )
    article = Article(segment.ordinal, segment.title, segment.group, segment.pagenr, segment.body)
    return Description(list((await tagger.tags_of(article, language.code)).tags), language)


def _embed() -> Embed:
    remembered, loop = current_wiring().kept(_Remembered), asyncio.get_running_loop()
    if remembered.embed is None or remembered.embed[0] is not loop:
        remembered.embed = loop, embedding_on(loop)
    return remembered.embed[1]


async def _words_of(document_id: int) -> Mapping[str, int]:
    """In how many articles of the document each word stands."""
    return await _once(document_id, current_wiring().kept(_Remembered).words, words_in_articles)


async def _language_around(document_id: int) -> str | None:
    """The language of all articles of the document together, as it is told here."""
    return await _once(
        document_id, current_wiring().kept(_Remembered).languages, lambda bodies: language_of("\n\n".join(bodies))
    )


async def _once[T](document_id: int, remembered: OrderedDict[int, T], made_of: Callable[[Sequence[str]], T]) -> T:
    """What is made of the texts of a document's articles; it is remembered for the last documents."""
    if document_id not in remembered:
        rows = await Database.read(SQL.bodies_of_document(document_id=document_id))
        remembered[document_id] = await asyncio.to_thread(made_of, [row["body"] for row in rows])
        while len(remembered) > DOCUMENTS_REMEMBERED:
            remembered.popitem(last=False)
    return remembered[document_id]
