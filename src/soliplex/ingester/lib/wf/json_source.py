"""JSON files as plain values: a key given twice, a number that is none, and text that cannot be stored are refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from soliplex.ingester.lib.wf.definitions import WorkflowDefinition, workflow_from_json, workflow_from_mapping
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.reading import Source
from soliplex.ingester.lib.wf.yaml_source import decoded


def workflow_from_json_file(content: str | bytes, *, path: Path | None = None) -> WorkflowDefinition:
    """Read a file with a workflow as JSON: in the shape of flows, or in that of workflow files."""
    text = decoded(content, path)
    data = _value(text, path)
    read = workflow_from_mapping if isinstance(data, dict) and "item_steps" in data else workflow_from_json
    return read(data, source=Source(path, text))


def _value(text: str, path: Path | None) -> Any:
    def refuse(problem: str) -> NoReturn:
        raise DefinitionError(problem, path=path)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
        return refuse(f"the key {twice[0]!r} is given twice; keep one") if twice else dict(pairs)

    def constant(name: str) -> NoReturn:
        refuse(f"holds {name}, which is no JSON; give a number, a text or null")

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=constant)
    except json.JSONDecodeError as exc:
        raise DefinitionError(f"is not valid JSON: {exc.msg}; correct it there", path=path, line=exc.lineno) from exc
    except RecursionError:
        refuse("is nested too deeply; make it flatter")
