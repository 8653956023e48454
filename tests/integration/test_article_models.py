"""Tags and languages of articles, asked of a language model over HTTP that does not always answer well."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.llm import UnusableAnswerError, open_chat
from soliplex.ingester.segmenter import Article
from soliplex.ingester.segmenter.article_language import Stage, open_language_chain
from soliplex.ingester.segmenter.tagging import Tagger, TagRules
from tests.support.chat_server import ChatServer, Failure, Silence, chat_server

ARTICLE = Article(0, "Der Stock", "", None, "Am ersten warmen Tag verlassen die Bienen den Stock und suchen Wasser.")
RULES = TagRules(("bees", "trains"), maxtags=1)


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with chat_server() as fake:
        yield fake


def settings_for(server: ChatServer, **changed: Any) -> Settings:
    return load_settings(
        llm_backend="openai", openai_base_url=f"{server.address}/v1", openai_api_key="k", llm_max_retries=1, **changed
    )


async def test_a_tag_outside_the_closed_set_is_refused_and_repaired_once(server: ChatServer) -> None:
    server.answers += ['{"tags": ["insects"]}', '{"tags": ["Bees"]}']

    found = await Tagger(RULES, chat=open_chat(settings_for(server))).tags_of(ARTICLE, "de")

    assert found.tags == ("bees",)
    assert "tag outside the list of allowed tags" in json.dumps(server.asked[1]["messages"])


async def test_a_model_that_keeps_to_its_own_tags_gives_none(server: ChatServer) -> None:
    server.answers += ['{"tags": ["insects"]}', '{"tags": ["insects"]}']

    with pytest.raises(UnusableAnswerError):
        await Tagger(RULES, chat=open_chat(settings_for(server))).tags_of(ARTICLE, "de")
    assert len(server.asked) == 2


async def test_a_language_is_told_here_where_the_model_is_silent_or_broken(server: ChatServer) -> None:
    settings = settings_for(server)
    async with open_language_chain(settings, open_chat(settings)) as chain:
        server.answers += ['{"language": "nl"}', Failure(400), "nonsense", "nonsense"]
        found = [await chain.language_of(ARTICLE.body) for _ in range(3)]
    hasty = settings_for(server, language_detect_llm_timeout_seconds=0.2)
    async with open_language_chain(hasty, open_chat(hasty)) as chain:
        server.answers += [Silence()]
        found.append(await chain.language_of(ARTICLE.body))

    assert [(each.code, each.stage) for each in found] == [("nl", Stage.LLM), *[("de", Stage.LOCAL)] * 3]
    assert all(each.problems[0].startswith("llm: ") for each in found[1:])
