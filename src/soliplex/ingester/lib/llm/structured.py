"""Answers that must fit a model of pydantic: how they are asked for, read, and complained of."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pydantic import BaseModel, ValidationError

_FENCED: Final = re.compile(r"\A\s*```\w*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_MOST_PROBLEMS: Final = 8


def instructions(answer: type[BaseModel]) -> str:
    """What is added to the system's message. A server that knows no formats of answers ignores `response_format`."""
    schema = json.dumps(answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{schema}"


def response_format(answer: type[BaseModel]) -> dict[str, Any]:
    # Not strict: OpenAI's strict form refuses schemas with optional fields, and the answer is checked here anyway.
    schema = {"name": answer.__name__, "schema": answer.model_json_schema(), "strict": False}
    return {"type": "json_schema", "json_schema": schema}


def read_answer[T: BaseModel](text: str, answer: type[T]) -> T:
    """The answer, if it fits; some models put a fence around it. Raises pydantic's error otherwise."""
    fenced = _FENCED.match(text)
    return answer.model_validate_json(fenced[1] if fenced else text)


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
