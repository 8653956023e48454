"""Where workflow and parameter files are found: in the working directory, or as shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

type ConfigKind = Literal["workflows", "params"]

_PACKAGE = Path(__file__).parents[2]
_CHECKOUT = _PACKAGE.parents[2]


def shipped_config_dir(kind: ConfigKind) -> Path:
    """The files that come with the product: inside an installed package, or at the top of a checkout."""
    installed = _PACKAGE / "config" / kind
    return installed if installed.is_dir() else _CHECKOUT / "config" / kind


def config_dir(kind: ConfigKind) -> Path:
    """`config/<kind>` in the working directory if it is there, else the shipped files."""
    local = Path("config") / kind
    return local if local.is_dir() else shipped_config_dir(kind)
