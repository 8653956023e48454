"""The settings reference and the `.env` template, both written from the fields, so that neither can be out of date."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from soliplex.ingester.lib.config.fields import Leaf, leaves
from soliplex.ingester.lib.config.settings import AREAS

_INTRODUCTION = """\
# Settings

Every setting is an environment variable. A value is looked for in this order, and the first place that has it wins:

1. the environment of the process;
2. the file `.env` in the working directory (`si-cli init-env` writes one, with every setting in it as a comment);
3. a file named after the setting in the folder `SECRETS_DIR`, as Docker and Kubernetes mount secrets;
4. the default below.

`si-cli validate-settings` shows what is in force and where each value came from, and tells of everything that is wrong.

- An empty value is the same as none. Names may be written in capitals or small letters.
- A list is a JSON array or items separated by commas. True and false are `true` and `false`.
- `__` separates a group from its part: `ARTIFACT_S3__BUCKET`.
- Relative folders are relative to the working directory. `{DATA_DIR}` stands for the value of that setting.

<!-- Written by `python -m soliplex.ingester.lib.config > docs/reference/settings.md`; edit the fields instead. -->
"""

_ENV_INTRODUCTION = """\
# Settings of Soliplex Ingester. Each line shows a default: remove its # and change the value to set it.
# Variables of the environment win over this file. Check the result with: si-cli validate-settings
"""


def settings_by_area() -> dict[str, list[Leaf]]:
    """Every setting once, under the area that declares it."""
    seen: set[str] = set()
    areas: dict[str, list[Leaf]] = {}
    for title, area in AREAS.items():
        areas[title] = [leaf for leaf in leaves(area) if leaf.name not in seen]
        seen.update(leaf.name for leaf in areas[title])
    return areas


def reference_page() -> str:
    """The text of docs/reference/settings.md."""
    return "\n".join(
        [_INTRODUCTION, *(line for title, area in settings_by_area().items() for line in _table(title, area))]
    )


def env_template() -> str:
    """A `.env` in which every setting stands as a comment."""
    sections = (
        f"\n# ---- {title} ----\n" + "".join(map(_assignment, area)) for title, area in settings_by_area().items()
    )
    return _ENV_INTRODUCTION + "".join(sections)


def _table(title: str, area: list[Leaf]) -> Iterator[str]:
    yield from (
        f"## {title}",
        "",
        inspect.getdoc(AREAS[title]) or "",
        "",
        "| name | default | meaning |",
        "|---|---|---|",
    )
    for leaf in area:
        yield f"| `{leaf.name}` | {f'`{leaf.default}`' if leaf.default else 'none'} | {leaf.description} |"
    yield ""


def _assignment(leaf: Leaf) -> str:
    # No setting refers to another in the file: the default of DATA_DIR stands for its value.
    default = leaf.default.replace("{DATA_DIR}", "data")
    return f"\n# {leaf.description}\n# {leaf.name}={default}\n"
