"""Where values come from: the environment, then `.env`, then secret files, then the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, override

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from soliplex.ingester.lib.config.fields import leaves
from soliplex.ingester.lib.errors import ConfigurationError


class SecretFiles(PydanticBaseSettingsSource):
    """Files named after settings, in one folder.

    The library's own source for nested secrets reads every file of the folder as text, and so fails on a certificate
    or on a file that is another user's; this one opens only files that bear a setting's name.
    """

    def __init__(self, settings_cls: type[BaseSettings], folder: Path | None) -> None:
        super().__init__(settings_cls)
        self._folder = folder

    @override
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    @override
    def __call__(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        if self._folder is None or not self._folder.is_dir():
            return tree
        paths = {leaf.name: leaf.path for leaf in leaves(self.settings_cls)}
        for file in sorted(self._folder.iterdir()):
            name = file.name.upper()
            if name in paths and file.is_file():
                put(tree, paths[name], _read(name, file))
        return tree


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at `path` in nested dictionaries, which are made as needed."""
    *above, last = path
    for name in above:
        tree = tree.setdefault(name, {})
    tree[last] = value


def paths_in(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value in nested dictionaries."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from paths_in(cast("Mapping[str, Any]", value), (*above, name))
        else:
            yield (*above, name)


def _read(name: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(name, f"its secret file {file} cannot be read", "make it readable UTF-8 text") from exc
