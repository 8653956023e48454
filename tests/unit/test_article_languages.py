"""The language of an article: asked of one after the other, within their times, and it is told who answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from soliplex.ingester.lib.errors import IngesterError
from soliplex.ingester.lib.language import known_code, language_of
from soliplex.ingester.segmenter.article_language import Language, LanguageChain, Stage, language_of_document
from soliplex.ingester.segmenter.google_translate import GoogleTranslate
from tests.support.chat import Answering

GERMAN = "Am ersten warmen Tag verlassen die Bienen den Stock und suchen Wasser."


def google(respond: Callable[[httpx.Request], httpx.Response]) -> GoogleTranslate:
    return GoogleTranslate(httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url="https://g.example"))


def told(code: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, json={"data": {"detections": [[{"language": code, "confidence": 1}]]}})


async def test_google_is_asked_first_and_its_codes_are_made_ours() -> None:
    found = await LanguageChain(google=google(told("zh-CN")), chat=Answering({"language": "fr"})).language_of(GERMAN)
    assert found == Language("zh", Stage.GOOGLE)


@pytest.mark.parametrize(
    "respond",
    [
        lambda _: httpx.Response(500),
        lambda _: httpx.Response(403, json={"error": "no"}),
        lambda _: httpx.Response(200, text="<html>"),
        lambda _: httpx.Response(200, json={"data": {"detections": []}}),
        told("und"),
    ],
)
async def test_where_google_does_not_tell_the_language_model_is_asked(
    respond: Callable[[httpx.Request], httpx.Response],
) -> None:
    found = await LanguageChain(google=google(respond), chat=Answering({"language": "FR"})).language_of(GERMAN)

    assert (found.code, found.stage) == ("fr", Stage.LLM)
    assert found.problems[0].startswith("google: ")


@pytest.mark.parametrize("answer", [{"language": "und"}, IngesterError("away"), None])
async def test_where_the_language_model_does_not_tell_the_detector_here_is_asked(answer: Any) -> None:
    chain = LanguageChain(chat=Answering(answer), chat_timeout=timedelta(milliseconds=1))
    found = await chain.language_of(GERMAN)

    assert (found.code, found.stage) == ("de", Stage.LOCAL)
    assert found.problems[0].startswith("llm: ")


class Busy(Answering):
    """Has others to ask about first."""

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  as Asks has it
        answer: type[T],
    ) -> T:
        for _ in range(1000):
            await asyncio.sleep(0)
        return await super().ask_for(use=use, system=system, user=user, timeout=timeout, answer=answer)


async def test_the_time_of_a_question_does_not_run_while_others_are_asked() -> None:
    chain = LanguageChain(chat=Busy({"language": "fr"}), chat_timeout=timedelta(microseconds=1))
    assert (await chain.language_of(GERMAN)).stage is Stage.LLM


async def test_where_nobody_tells_the_default_is_taken() -> None:
    found = await LanguageChain(default="it").language_of("| 1 | 2 |\n|---|---|")
    assert (found.code, found.stage, len(found.problems)) == ("it", Stage.DEFAULT, 1)
    assert (await LanguageChain().language_of(" \n")).stage is Stage.DEFAULT


async def test_services_see_a_part_of_a_long_text_and_from_all_of_it() -> None:
    sent = list[str]()

    def respond(request: httpx.Request) -> httpx.Response:
        sent.extend(json.loads(request.content)["q"])
        return told("en")(request)

    await LanguageChain(google=google(respond)).language_of("a " * 50_000 + "the end")
    (text,) = sent
    assert len(text) < 1100
    assert text.endswith("the end")


def test_a_document_is_in_the_language_of_most_of_its_text() -> None:
    german, english = Language("de", Stage.LOCAL), Language("en", Stage.LLM)
    guessed = Language("fr", Stage.DEFAULT)

    assert language_of_document([(german, 10), (english, 30), (german, 15), (guessed, 900)], "fr") == english
    assert language_of_document([(guessed, 5)], "fr").stage is Stage.DEFAULT


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("पानी जीवन के लिए बहुत आवश्यक है और हमें इसे बचाना चाहिए।", "hi"),
        ("Bonke abantu bazalwa bekhululekile belingana ngesithunzi nangamalungelo.", "zu"),
        ("Ko te katoa o nga tangata i te whanaungatanga mai e watea ana i nga here katoa.", "mi"),
        ("Zusammenfassung", "de"),
        ("你好", "zh"),
        ("12345 — 67", None),
        ("x", None),
        ("A\ufdd0\ud800\x00", None),
        ("```\nreturn None\n```", None),
    ],
)
def test_the_detector_knows_languages_and_when_it_does_not(text: str, code: str | None) -> None:
    assert language_of(text) == code


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters()))
def test_any_text_has_a_language_or_none(text: str) -> None:
    assert known_code(language_of(text) or "en") is not None


def test_a_preface_does_not_decide_the_language_of_a_long_text() -> None:
    assert language_of("This preface is in English, for readers abroad. " * 20 + f"{GERMAN} " * 400) == "de"


@pytest.mark.parametrize(("name", "code"), [("en-GB", "en"), ("iw", "he"), ("NO", "nb"), ("ceb", None), ("", None)])
def test_codes_are_those_of_iso_639_1(name: str, code: str | None) -> None:
    assert known_code(name) == code
