"""`Chat`: asks a model, with the retries of its client, a time limit, and one try to repair an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from pydantic import BaseModel, ValidationError

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.http_statuses import may_pass
from soliplex.ingester.lib.llm.chat_metrics import Prices, count_question, count_tokens
from soliplex.ingester.lib.llm.errors import ChatError, ChatRefusedError, ChatUnavailableError, UnusableAnswerError
from soliplex.ingester.lib.llm.structured import instructions, problems_of, read_answer, repair, response_format

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

type Message = dict[str, str]

_NO_KEY: Final = "none"
"""For servers that ask for no key: the client insists on one."""
_LIBRARY: Final = "openai"
_OUTCOMES: Final[dict[type[ChatError], str]] = {
    ChatUnavailableError: "unavailable",
    UnusableAnswerError: "unusable",
    ChatRefusedError: "refused",
}


class Asks(Protocol):
    """Whatever can be asked: the chat client, or what stands in for it."""

    async def ask(self, *, use: str, system: str, user: str, timeout: timedelta) -> str:  # noqa: ASYNC109  a limit of the question
        """The model's answer. `use` names what it is for, in counters and errors."""
        ...

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  as above
        answer: type[T],
    ) -> T:
        """The model's answer as such an object."""
        ...


def open_chat(settings: Settings) -> Chat | None:
    """The client of the language model that the settings name; None where they name none."""
    return None if settings.llm_backend is None else Chat(settings)


class Chat:
    """Asks the language model of the settings, so many questions at once at most.

    It may be kept for the life of a process: connections belong to the event loop that opened them.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prices = Prices(settings.llm_price_sent_tokens, settings.llm_price_answered_tokens)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: openai.AsyncOpenAI | None = None
        self._room = asyncio.Semaphore(settings.llm_concurrency)
        self._opening = asyncio.Lock()

    async def ask(self, *, use: str, system: str, user: str, timeout: timedelta) -> str:  # noqa: ASYNC109  as asked
        """The answer within the time limit, which counts from the moment the question is sent, retries included."""
        async with _Counted(use):
            return await self._within(timeout, use, _conversation(system, user))

    async def ask_for[T: BaseModel](
        self,
        *,
        use: str,
        system: str,
        user: str,
        timeout: timedelta,  # noqa: ASYNC109  as above
        answer: type[T],
    ) -> T:
        """The answer as an object. One that does not fit is repaired by the model, which is told why, once."""
        messages = _conversation(f"{system}\n\n{instructions(answer)}", user)
        async with _Counted(use) as counted:
            text = await self._within(timeout, use, messages, answer)
            try:
                return read_answer(text, answer)
            except ValidationError as exc:
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": repair(exc)}]
            counted.outcome = "repaired"
            text = await self._within(timeout, use, messages, answer)
            return _last_reading(use, text, answer)

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()

    async def _within(
        self, limit: timedelta, use: str, messages: Sequence[Message], answer: type[BaseModel] | None = None
    ) -> str:
        client = await self._connected()
        async with self._room:
            try:
                async with asyncio.timeout(limit.total_seconds()):
                    completion = await self._call(client, messages, answer)
            except TimeoutError:
                problem: ChatError = ChatUnavailableError(use, f"no answer within {limit.total_seconds():g} seconds")
            except _library().APIError as exc:
                problem = _trouble(use, exc)
            except (ValueError, TypeError, AttributeError):
                problem = ChatUnavailableError(use, "the server's answer is no chat completion")
            else:
                return self._text_of(use, completion)
        # Raised here, where no other error is being handled: those quote the prompt, and tracebacks are stored.
        raise problem

    async def _call(
        self, client: openai.AsyncOpenAI, messages: Sequence[Message], answer: type[BaseModel] | None
    ) -> ChatCompletion:
        options: dict[str, Any] = {} if answer is None else {"response_format": response_format(answer)}
        return await client.chat.completions.create(
            model=self._settings.llm_model, messages=list[Any](messages), stream=False, **options
        )

    def _text_of(self, use: str, completion: Any) -> str:
        """The text of the first choice. What a server sends may have any shape, whatever the client's types say."""
        usage = getattr(completion, "usage", None)
        sent, answered = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
        count_tokens(use, sent=_count(sent), answered=_count(answered), prices=self._prices)
        choice = next(iter(getattr(completion, "choices", None) or ()), None)
        message = getattr(choice, "message", None)
        if getattr(choice, "finish_reason", None) == "content_filter" or getattr(message, "refusal", None):
            raise ChatRefusedError(use, "the model refuses to answer; change the text or the instructions")
        text = _said(message)
        if not text.strip():
            raise UnusableAnswerError(use, "the server answered without a text")
        return text

    async def _connected(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._client = loop, None
            self._room, self._opening = asyncio.Semaphore(self._settings.llm_concurrency), asyncio.Lock()
        async with self._opening:
            if self._client is None:
                # In a thread: the library is slow to import, and its certificates are slow to read.
                self._client = await asyncio.to_thread(_client_for, self._settings)
            return self._client


def _said(message: Any) -> str:
    """What the model says: as a text, in parts, or as if it called a function with it; empty if it says nothing."""
    content: Any = getattr(message, "content", None)
    parts: list[Any] = content if isinstance(content, list) else [content]
    text = "".join(_texts(part.get("text") if isinstance(part, dict) else part for part in parts))
    if text.strip():
        return text
    calls: Any = getattr(message, "tool_calls", None)
    functions: list[Any] = calls if isinstance(calls, list) else []
    return next(_texts(getattr(getattr(call, "function", None), "arguments", None) for call in functions), "")


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


class _Counted:
    """Notes how the question of the block ended."""

    def __init__(self, use: str) -> None:
        self._use = use
        self.outcome = "answered"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outcome = (
            self.outcome
            if kind is None
            else next((_OUTCOMES[each] for each in _OUTCOMES if issubclass(kind, each)), None)
        )
        if outcome is not None:
            count_question(self._use, outcome)


def _conversation(system: str, user: str) -> list[Message]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _last_reading[T: BaseModel](use: str, text: str, answer: type[T]) -> T:
    try:
        return read_answer(text, answer)
    except ValidationError as exc:
        problem = UnusableAnswerError(use, f"its answer does not fit, nor did the one before: {problems_of(exc)}")
    raise problem


def _count(number: Any) -> int:
    return number if isinstance(number, int) and number > 0 else 0


def _trouble(use: str, exc: Any) -> ChatError:
    """What a failure of the client means, in words of our own."""
    library = _library()
    if not isinstance(exc, library.APIStatusError):
        is_late = isinstance(exc, library.APITimeoutError)
        return ChatUnavailableError(
            use, "the server did not answer in time" if is_late else "the server cannot be reached"
        )
    status = exc.status_code
    reason = f"the server answered {status}{_code_of(exc)}"
    # OpenAI answers 409 where two requests stand in each other's way.
    if may_pass(status) or status == HTTPStatus.CONFLICT:
        return ChatUnavailableError(use, reason)
    return ChatRefusedError(use, f"{reason}; see LLM_MODEL, the key and the address of the server")


def _code_of(exc: openai.APIStatusError) -> str:
    """The server's code for the failure, if it is a name and no sentence."""
    code = exc.code or exc.type
    return f" ({code})" if isinstance(code, str) and code.replace("_", "").replace("-", "").isalnum() else ""


def _client_for(settings: Settings) -> openai.AsyncOpenAI:
    library = _library()
    if settings.llm_backend == "azure":
        return library.AsyncAzureOpenAI(
            azure_endpoint=str(settings.azure_openai_endpoint),
            azure_deployment=settings.llm_model,
            api_version=settings.azure_openai_api_version,
            api_key=settings.azure_openai_api_key.get_secret_value() if settings.azure_openai_api_key else _NO_KEY,
            max_retries=settings.llm_max_retries,
        )
    return library.AsyncOpenAI(
        base_url=settings.openai_base_url or OPENAI_ADDRESS,
        api_key=settings.openai_api_key.get_secret_value() if settings.openai_api_key else _NO_KEY,
        max_retries=settings.llm_max_retries,
    )


OPENAI_ADDRESS: Final = "https://api.openai.com/v1"


def _library() -> Any:
    import openai  # noqa: PLC0415  slow to import, and needed only where there is a language model

    # At DEBUG it logs whole requests, prompts among them.
    logging.getLogger(_LIBRARY).setLevel(max(logging.INFO, logging.getLogger(_LIBRARY).level))
    return openai
