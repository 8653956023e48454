"""The chat client against a server that rate-limits, stalls, breaks off and talks nonsense."""

from __future__ import annotations

import asyncio
import logging
import pickle
import traceback
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pydantic import BaseModel

from soliplex.ingester.lib.config import load_settings
from soliplex.ingester.lib.llm import (
    Asks,
    Chat,
    ChatError,
    ChatRefusedError,
    ChatUnavailableError,
    UnusableAnswerError,
    open_chat,
)
from soliplex.ingester.lib.wf.errors import PermanentError
from tests.support.chat_server import ChatServer, Failure, Silence, Truncated, chat_server, completion

MINUTE = timedelta(minutes=1)
KEY = "sk-secret-key"
PROMPT = "the secret prompt"


class Tags(BaseModel):
    tags: list[str]
    score: int = 0


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with chat_server() as fake:
        yield fake


def chat_of(server: ChatServer, **changed: Any) -> Chat:
    given: dict[str, Any] = {"llm_backend": "openai", "openai_base_url": f"{server.address}/v1", "openai_api_key": KEY}
    chat = open_chat(load_settings(**given | changed))
    assert chat is not None
    return chat


async def asked(chat: Asks, **changed: Any) -> str:
    given: dict[str, Any] = {"use": "testing", "system": "be brief", "user": PROMPT, "timeout": MINUTE}
    return await chat.ask(**given | changed)


async def tags_of(chat: Asks) -> Tags:
    return await chat.ask_for(use="tagging", system="tag it", user=PROMPT, timeout=MINUTE, answer=Tags)


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"soliplex_llm_{name}_total", labels) or 0.0


def test_without_a_backend_there_is_no_chat() -> None:
    assert open_chat(load_settings()) is None


async def test_the_model_gets_the_messages_and_its_text_comes_back(server: ChatServer) -> None:
    assert await asked(chat_of(server, llm_model="small")) == "yes"
    [question] = server.asked
    assert question["model"] == "small"
    assert [message["content"] for message in question["messages"]] == ["be brief", PROMPT]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_azure_is_asked_by_deployment_version_and_key(server: ChatServer) -> None:
    azure = {
        "azure_openai_endpoint": server.address,
        "azure_openai_api_key": KEY,
        "azure_openai_api_version": "2024-10-21",
    }
    assert await asked(chat_of(server, llm_backend="azure", llm_model="tagger", **azure)) == "yes"
    assert server.paths == ["/openai/deployments/tagger/chat/completions?api-version=2024-10-21"]
    assert server.headers[0]["api-key"] == KEY


@pytest.mark.parametrize("trouble", [Failure(429), Failure(500), Failure(503), Failure(409), Truncated()], ids=repr)
async def test_what_passes_is_tried_again_by_the_client(server: ChatServer, trouble: Any) -> None:
    server.answers += [trouble, "at last"]
    assert await asked(chat_of(server)) == "at last"
    assert len(server.asked) == 2


async def test_twenty_retries_are_made_and_no_more(server: ChatServer) -> None:
    server.answer = lambda _: Failure(429)
    with pytest.raises(ChatUnavailableError, match="the server answered 429"):
        await asked(chat_of(server))
    assert len(server.asked) == 21


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_will_not_pass_is_refused_at_once(server: ChatServer, status: int) -> None:
    server.answer = lambda _: Failure(status)
    with pytest.raises(ChatRefusedError, match=f"answered {status} .some_code.; see LLM_MODEL") as caught:
        await asked(chat_of(server))
    assert isinstance(caught.value, PermanentError)
    assert len(server.asked) == 1


async def test_a_server_that_stalls_is_given_up_within_the_time_limit(server: ChatServer) -> None:
    server.answer = lambda _: Silence()
    with pytest.raises(ChatUnavailableError, match=r"no answer within 0\.1 seconds") as caught:
        await asked(chat_of(server), timeout=timedelta(seconds=0.1))
    assert not isinstance(caught.value, PermanentError)


async def test_the_time_limit_holds_over_all_retries(server: ChatServer) -> None:
    server.answer = lambda _: Failure(429, headers={"retry-after": "60"})
    with pytest.raises(ChatUnavailableError, match="no answer within"):
        await asked(chat_of(server), timeout=timedelta(seconds=0.2))
    assert len(server.asked) <= 1, "a busy machine may not even ask once in that time"


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with chat_server() as gone:
        chat = chat_of(gone, llm_max_retries=0)
    with pytest.raises(ChatUnavailableError, match="cannot be reached"):
        await asked(chat)


NONSENSE: list[Any] = [
    Failure(200, body="<html>welcome</html>"),
    {"choices": []},
    {"error": "none"},
    {"choices": [{"message": {"content": None}}]},
    {"choices": [{}]},
    completion("   "),
    {"choices": [{"message": {"content": [7, {}]}}], "usage": {"prompt_tokens": "many"}},
    {"choices": [{"message": {"content": "", "tool_calls": [7, {"function": {"arguments": 8}}, {}]}}]},
]


@pytest.mark.parametrize("body", NONSENSE, ids=str)
async def test_nonsense_of_a_server_may_pass(server: ChatServer, body: Any) -> None:
    server.answer = lambda _: body
    with pytest.raises(ChatError) as caught:
        await asked(chat_of(server, llm_max_retries=0))
    assert isinstance(caught.value, UnusableAnswerError | ChatUnavailableError)


@pytest.mark.parametrize(
    "choice",
    [{"finish_reason": "content_filter"}, {"message": {"role": "assistant", "refusal": "no", "content": None}}],
)
async def test_a_refusal_of_the_model_is_final(server: ChatServer, choice: dict[str, Any]) -> None:
    server.answer = lambda _: completion("", **choice)
    with pytest.raises(ChatRefusedError, match="refuses to answer"):
        await asked(chat_of(server))


CALLED = {"id": "1", "type": "function", "function": {"name": "Tags", "arguments": '{"tags": ["sea"]}'}}
THOUGHT = '<think>{"tags": ["land"]} or { "a": {"tags": 3} } {</think>'
SAID: list[Any] = [
    '{"tags": ["sea"]}',
    '```json\n{"tags": ["sea"]}\n```',
    ' {"tags":["sea"],"score":0} ',
    'Here it is:\n```json\n{"tags": ["sea"]}\n```\nAnything else? {} {"tags": "none"}',
    THOUGHT + '{"tags": ["sea"]}',
    completion("", message={"content": None, "tool_calls": [CALLED]}, finish_reason="tool_calls"),
    completion("", message={"content": [{"type": "text", "text": '{"tags": '}, {"type": "text", "text": '["sea"]}'}]}),
]


@pytest.mark.parametrize("said", SAID, ids=range(len(SAID)))
async def test_an_answer_that_fits_becomes_an_object(server: ChatServer, said: Any) -> None:
    server.answers += [said]
    assert await tags_of(chat_of(server)) == Tags(tags=["sea"])
    [question] = server.asked
    assert question["response_format"]["json_schema"]["schema"] == Tags.model_json_schema()
    assert '"tags"' in question["messages"][0]["content"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("sea, ship", "is not JSON"), ('{"tags": "sea"}', "tags: list type"), ('{"score": 1}', "tags: missing")],
)
async def test_the_model_is_told_once_what_is_wrong_with_its_answer(server: ChatServer, wrong: str, told: str) -> None:
    server.answers += [wrong, '{"tags": ["sea"]}']
    before = counted("questions", use="tagging", outcome="repaired")
    assert await tags_of(chat_of(server)) == Tags(tags=["sea"])
    conversation = server.asked[1]["messages"]
    assert conversation[2] == {"role": "assistant", "content": wrong}
    assert told in conversation[3]["content"]
    assert counted("questions", use="tagging", outcome="repaired") == before + 1


async def test_an_answer_that_fits_neither_time_is_unusable_and_worth_another_attempt(server: ChatServer) -> None:
    server.answer = lambda _: '{"tags": "the secret answer"}'
    with pytest.raises(UnusableAnswerError, match="tags: list type") as caught:
        await tags_of(chat_of(server))
    assert len(server.asked) == 2
    assert not isinstance(caught.value, PermanentError)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_no_more_questions_are_asked_at_once_than_the_settings_allow(server: ChatServer) -> None:
    server.gate = asyncio.Event()
    chat = chat_of(server, llm_concurrency=3)
    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(asked(chat))
        await server.busy(3)
        server.gate.set()
    assert server.most_at_once == 3


async def test_tokens_and_what_they_cost_are_counted_by_use(server: ChatServer) -> None:
    def now() -> list[float]:
        tokens = [counted("tokens", use="counting", direction=each) for each in ("sent", "answered")]
        return [*tokens, counted("cost", use="counting"), counted("questions", use="counting", outcome="answered")]

    before = now()
    await asked(chat_of(server, llm_price_sent_tokens=1_000_000, llm_price_answered_tokens=2_000_000), use="counting")
    assert [after - earlier for earlier, after in zip(before, now(), strict=True)] == [30, 7, 44, 1]


@pytest.mark.parametrize("trouble", [Failure(400), Failure(429), Truncated(), Failure(200, body="<html>")], ids=repr)
async def test_neither_prompt_nor_key_gets_into_logs_and_errors(
    server: ChatServer, trouble: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda _: trouble
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(ChatError) as caught:
            await asked(chat_of(server, llm_max_retries=1))
        server.answer = lambda _: "yes"
        await asked(chat_of(server))
    told = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    told += traceback.format_exception(caught.value)
    assert not [text for text in told if PROMPT in text or KEY in text or "it said the prompt" in text]
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_a_chat_outlives_the_event_loop_it_was_first_used_in() -> None:
    chats: list[Chat] = []

    async def once() -> str:
        async with chat_server() as server:
            if not chats:
                chats.append(chat_of(server))
                return await asked(chats[0])
            object.__setattr__(chats[0]._settings, "openai_base_url", f"{server.address}/v1")
            return await asked(chats[0])

    assert [asyncio.run(once()) for _ in range(2)] == ["yes", "yes"]
