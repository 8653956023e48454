"""Settings as flat, named leaves: `ARTIFACT_S3__BUCKET` is the field `bucket` of the field `artifact_s3`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from soliplex.ingester.lib.config.database_url import mask_password

DELIMITER = "__"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value a person can set."""

    path: tuple[str, ...]
    field: FieldInfo
    group: FieldInfo | None = None

    @property
    def name(self) -> str:
        return DELIMITER.join(self.path).upper()

    @property
    def description(self) -> str:
        own = self.field.description or ""
        told = f"{own} {self.unused}" if self.unused else own
        return told if self.group is None else f"{self.group.description}: {told}"

    @property
    def unused(self) -> str:
        """Why no code reads it; empty where some does."""
        extra = self.field.json_schema_extra
        return str(extra.get("unused", "")) if isinstance(extra, dict) else ""

    @property
    def default(self) -> str:
        """The default as a person would write it; empty when there is none."""
        extra = self.field.json_schema_extra
        if isinstance(extra, dict) and "default" in extra:
            return str(extra["default"])
        return as_text(self.field.default)

    def value_in(self, settings: BaseModel) -> Any:
        return reduce(getattr, self.path, cast("Any", settings))


def leaves(model: type[BaseModel]) -> Iterator[Leaf]:
    """Every leaf of `model`, in the order of its fields; groups are one level deep."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (Leaf((name, part), inner, field) for part, inner in kind.model_fields.items())
        else:
            yield Leaf((name,), field)


def as_text(value: Any) -> str:
    """A value as it would stand in the environment, with secrets masked."""
    match value:
        case bool():
            text = str(value).lower()
        case float():
            text = f"{value:g}"
        case Path():
            text = value.as_posix()
        case tuple():
            items = [as_text(item) for item in cast("tuple[Any, ...]", value)]
            text = ",".join(items) if items and "," not in "".join(items) else json.dumps(items)
        case None:
            text = ""
        case _:
            # A SecretStr turns itself into stars.
            text = mask_password(str(value))
    return text
