"""Google's detector over real HTTP: a server on loopback that answers as Google does, or fails as servers do."""

from __future__ import annotations

import json
import logging

import pytest

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.segmenter.article_language import Language, Stage, open_language_chain
from tests.support.receiver import BREAKS_OFF, CLOSES, GIBBERISH, HANGS, LIES, Answer, Receiver, Reply, receiver

GERMAN = "Am ersten warmen Tag verlassen die Bienen den Stock und suchen Wasser."
KEY = "a-key-that-nobody-may-see"
CHINESE = Answer(200, json.dumps({"data": {"detections": [[{"language": "zh-CN", "confidence": 1}]]}}).encode())


async def asked(google: Receiver) -> Language:
    settings = load_settings(
        env_file=None,
        use_google_language_detection=True,
        google_translate_api_key=KEY,
        google_translate_url=google.url,
        language_detect_google_timeout_seconds=0.5,
    )
    async with open_language_chain(settings, None) as chain:
        return await chain.language_of(GERMAN)


async def test_google_is_sent_the_text_and_the_key_and_its_answer_counts() -> None:
    async with receiver() as google:
        google.answers.append(CHINESE)
        assert await asked(google) == Language("zh", Stage.GOOGLE)
        (request,) = google.deliveries
    assert request.path.rstrip("/").endswith("/language/translate/v2/detect"), "and no key in the address"
    assert (request.headers["x-goog-api-key"], request.content) == (KEY, {"q": [GERMAN]})


@pytest.mark.parametrize(
    "reply", [Answer(500), Answer(403), Answer(200, b"<html>"), HANGS, CLOSES, BREAKS_OFF, LIES, GIBBERISH], ids=repr
)
async def test_whatever_google_does_the_language_is_told_by_the_next(
    reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiver() as google:
        google.answers.append(reply)
        with caplog.at_level(logging.DEBUG):
            found = await asked(google)
        assert len(google.deliveries) == 1
    assert (found.code, found.stage) == ("de", Stage.LOCAL)
    (problem,) = found.problems
    assert problem.startswith("google: ")
    assert KEY not in caplog.text + problem
    assert GERMAN not in caplog.text + problem
