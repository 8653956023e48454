"""Parsing by docling-serve, on one server or several.

    serve_parser.py  DoclingServeParser: which server, and what to do when one fails
    serve_tasks.py   one document on one server: submit, wait, fetch
    servers.py       which servers are well, by what happened on them: circuit breakers

Owns the conversation with docling-serve. A server that does not answer, answers 5xx or forgets a task is left alone for
a while and another takes the document; when none is left, the step waits and is tried again. What is wrong with the
document is told as that, and not tried again.
"""

from __future__ import annotations

from soliplex.ingester.lib.parsing.serve.serve_parser import DoclingServeParser

__all__ = ["DoclingServeParser"]
