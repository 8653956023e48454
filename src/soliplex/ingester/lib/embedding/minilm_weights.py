"""The weights of all-MiniLM-L6-v2, out of the file that its package brings along.

They are rounded to eight bits there: the layers column by column, words and places row by row. The file is a graph for
onnxruntime too, but a slower one than ours, so only its constants are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soliplex.ingester.lib.embedding import onnx_format as onnx
from soliplex.ingester.lib.errors import ConfigurationError

type Floats = NDArray[np.float32]

LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
EPSILON: Final = 1e-12
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_PREFIX: Final = "inner."
_ROUNDED, _SCALE = "_q", "_scale"
# The matrices bear numbers in place of names, and stand in the order in which they are used.
_MATRICES: Final = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class ForeignWeightsError(ConfigurationError):
    """The file of weights is not the one that this release was made for: its numbers could mean anything."""

    def __init__(self, file: Path) -> None:
        super().__init__(str(file), "these are not the weights that this release knows", _REINSTALL)


_REINSTALL: Final = 'reinstall "soliplex-ingester[local]", which names the right version of their package'


def load(file: Path) -> dict[str, Floats]:
    """The weights by the names that BERT gives them; matrices as PyTorch has them, a row for each output."""
    content = file.read_bytes()
    if sha256(content).hexdigest() != _SHA256:
        raise ForeignWeightsError(file)
    return dict(_named(onnx.constants_of(content)))


def _named(constants: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Floats]]:
    matrices = (f"encoder.layer.{layer}.{part}.weight" for layer in range(LAYERS) for part in _MATRICES)
    for name, values in constants.items():
        if name.endswith(_ROUNDED):
            whole = name.removesuffix(_ROUNDED)
            exact = values.astype(np.float32) * constants[f"{whole}{_SCALE}"]
            yield (whole.removeprefix(_PREFIX), exact) if name.startswith(_PREFIX) else (next(matrices), exact.T)
        elif name.startswith(_PREFIX) and values.dtype == np.float32 and not name.endswith(_SCALE):
            yield name.removeprefix(_PREFIX), values
