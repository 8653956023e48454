"""What schemathesis leaves out of the requests it makes up; loaded by its own process."""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis import Case, HookContext

BOOLEANS = ("delete_stale", "only_unparsed")


@schemathesis.hook
def filter_case(context: HookContext, case: Case[Any]) -> bool:
    """Leave out what a form means by a text, and its schema cannot say."""
    del context
    return not (isinstance(case.body, dict) and (_leaves_a_field_empty(case.body) or _counts_a_boolean(case.body)))


def _leaves_a_field_empty(form: dict[str, Any]) -> bool:
    """As browsers send a field that nobody filled in: it counts as one that is not given."""
    return "" in form.values()


def _counts_a_boolean(form: dict[str, Any]) -> bool:
    """A boolean of a form is a text, and `0` and `1` are among those that are understood."""
    return any(form.get(name) in (0, 1) and not isinstance(form[name], bool) for name in BOOLEANS)
