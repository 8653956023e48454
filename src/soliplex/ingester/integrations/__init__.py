"""The knowledge base inside frameworks of others, each in a module that needs that framework.

    langchain.py   a retriever for LangChain            llama_index.py    a retriever and a reader for LlamaIndex
    loop_calls.py  calls from code that does not await  passage_facts.py  what is told of a passage

Stands on `Ingester` alone. The extras `langchain` and `llama-index` bring what the modules need.
"""

from __future__ import annotations

from soliplex.ingester.integrations.loop_calls import open_in_thread

__all__ = ["open_in_thread"]
