"""One client for chat models: OpenAI, whatever speaks like it, and Azure.

Owns the calls, their retries, time limits and counters, and the check of structured answers. Knows no documents, no
workflow, no prompt of its own but the one that asks for JSON. No prompt, answer or key gets into a log or an error.

    chat = open_chat(settings)              # None: no language model is configured
    if chat is not None:
        tags = await chat.ask_for(use="tagging", system="…", user=text, timeout=timedelta(minutes=2), answer=Tags)
"""

from __future__ import annotations

from soliplex.ingester.lib.llm.chat import Asks, Chat, open_chat
from soliplex.ingester.lib.llm.errors import ChatError, ChatRefusedError, ChatUnavailableError, UnusableAnswerError

__all__ = [
    "Asks",
    "Chat",
    "ChatError",
    "ChatRefusedError",
    "ChatUnavailableError",
    "UnusableAnswerError",
    "open_chat",
]
