"""Answers that must fit a model of pydantic: how they are asked for, read, and complained of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, ValidationError

_OBJECT: Final = re.compile(r"\{\s*[\"}]")
"""How an object in JSON begins."""
_MOST_OBJECTS: Final = 20
"""Beginnings of objects that are looked at in a text."""
_MOST_PROBLEMS: Final = 8
_DECODER: Final = json.JSONDecoder()


def instructions(answer: type[BaseModel]) -> str:
    """What is added to the system's message. A server that knows no formats of answers ignores `response_format`."""
    schema = json.dumps(answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{schema}"


def response_format(answer: type[BaseModel]) -> dict[str, Any]:
    # Not strict: OpenAI's strict form refuses schemas with optional fields, and the answer is checked here anyway.
    schema = {"name": answer.__name__, "schema": answer.model_json_schema(), "strict": False}
    return {"type": "json_schema", "json_schema": schema}


def read_answer[T: BaseModel](text: str, answer: type[T]) -> T:
    """The answer, if it fits. Raises pydantic's error otherwise.

    Some models put a fence around it, think aloud before it or are polite after it: of the objects in such a text the
    last that fits is the answer.
    """
    try:
        return answer.model_validate_json(text)
    except ValidationError as exc:
        problem = exc
    for found in reversed(list(_objects_in(text))):
        try:
            return answer.model_validate_json(found)
        except ValidationError as exc:
            problem = exc
    raise problem


def _objects_in(text: str) -> Iterator[str]:
    """The outermost objects in a text, as JSON."""
    place = 0
    for _ in range(_MOST_OBJECTS):
        begun = _OBJECT.search(text, place)
        if begun is None:
            return
        try:
            _, place = _DECODER.raw_decode(text, begun.start())
        except (ValueError, RecursionError):
            place = begun.end()
        else:
            yield text[begun.start() : place]


def problems_of(error: ValidationError) -> str:
    """What is wrong with an answer, without its words."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    told = [f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {_reason(each)}" for each in found]
    return "; ".join(told[:_MOST_PROBLEMS])


def _reason(problem: Any) -> str:
    # A validator's own words may quote the value.
    return "is not JSON" if problem["type"] == "json_invalid" else problem["type"].replace("_", " ")


def repair(error: ValidationError) -> str:
    """What the model is told about an answer that does not fit."""
    return f"That does not fit: {problems_of(error)}. Answer again, with one JSON object that fits the schema only."
