"""all-MiniLM-L6-v2 as a graph for onnxruntime, made from its weights.

BERT of six layers, then the mean over the tokens, scaled to length one. It reads one text at a time: nothing is filled
up, so nothing has to be masked, and attention takes its fast way, which knows no masks. A text's vector does not depend
on its neighbours either, as it would where all are rounded to one scale. A core is busy with one text as it is.

The weights are rounded to eight bits as they come, the layers' column by column. With int8, what flows between the
layers is rounded too; with fp32 it is not.

Operations are spelled out rather than left to onnxruntime's optimizer, which would put the sum and the norm of a layer
together into `SkipLayerNormalization`: on a processor that is slower than the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soliplex.ingester.lib.embedding import onnx_format as onnx
from soliplex.ingester.lib.embedding.minilm_weights import EPSILON, HEADS, HIDDEN, LAYERS, Floats
from soliplex.ingester.lib.embedding.precision import Precision

_FUSED: Final = "com.microsoft"


def build(weights: Mapping[str, Floats], precision: Precision) -> bytes:
    """The model as an ONNX file: `input_ids` and `position_ids` of one text in, `embedding` out."""
    layers = _ExactLayers() if precision is Precision.FP32 else _RoundedLayers()
    return _Bert(weights, layers).build()


@dataclass(slots=True)
class _Graph:
    """Operations and constants, in the order in which they were added."""

    nodes: list[bytes] = field(default_factory=list[bytes])
    constants: list[bytes] = field(default_factory=list[bytes])

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(onnx.tensor(name, np.ascontiguousarray(values)))
        return name

    def split(self, source: str, outputs: list[str]) -> None:
        """Parts of equal width."""
        self.nodes.append(onnx.node("Split", [source], outputs, "", {"axis": -1}))

    def add(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: onnx.Attribute) -> str:
        self.nodes.append(onnx.node(operator, inputs, [output], domain, attributes))
        return output


class _ExactLayers(_Graph):
    """Computes with 32-bit floats."""

    def multiply(self, source: str, weight: Floats, output: str, bias: Floats | None = None) -> str:
        product = self.add("MatMul", [source, self.constant(f"{output}.weight", weight)], f"{output}.product")
        if bias is None:
            return product
        return self.add("Add", [product, self.constant(f"{output}.bias", bias)], output)


class _RoundedLayers(_Graph):
    """Multiplies 8-bit integers."""

    def multiply(self, source: str, weight: Floats, output: str, bias: Floats | None = None) -> str:
        added = [] if bias is None else [self.constant(f"{output}.bias", bias)]
        return self.add("DynamicQuantizeMatMul", [source, *self._rounded(weight, output), *added], output, _FUSED)

    def _rounded(self, weight: Floats, name: str) -> list[str]:
        scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / _LARGEST
        rounded = np.rint(weight / scale).astype(np.int8)
        return [
            self.constant(f"{name}.weight", rounded),
            self.constant(f"{name}.weight.scale", scale.astype(np.float32)),
            self.constant(f"{name}.weight.zero", np.zeros(scale.shape, np.int8)),
        ]


_LARGEST: Final = 127


@dataclass(slots=True)
class _Bert:
    weights: Mapping[str, Floats]
    graph: _ExactLayers | _RoundedLayers

    def build(self) -> bytes:
        state = self._embeddings()
        for number in range(LAYERS):
            state = self._layer(state, f"encoder.layer.{number}.")
        self._mean(state)
        inputs = [
            onnx.value("input_ids", onnx.INT64, (1, "tokens")),
            onnx.value("position_ids", onnx.INT64, ("tokens",)),
        ]
        outputs = [onnx.value("embedding", onnx.FLOAT, (1, HIDDEN))]
        return onnx.model("minilm", self.graph.nodes, self.graph.constants, inputs, outputs)

    def _embeddings(self) -> str:
        words = self._constant("embeddings.word_embeddings.weight")
        # Every token is of the same type here, so the embedding of the type is added to the positions once and for all.
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        places = self.graph.constant("positions", self.weights["embeddings.position_embeddings.weight"] + types)
        self.graph.add("Gather", [words, "input_ids"], "words")
        self.graph.add("Gather", [places, "position_ids"], "places")
        self.graph.add("Add", ["words", "places"], "embedded")
        return self._norm("embedded", "embeddings.LayerNorm")

    def _layer(self, state: str, prefix: str) -> str:
        attended = self._attend(state, f"{prefix}attention.self.")
        mixed = self._dense(attended, f"{prefix}attention.output.dense")
        state = self._add_and_norm(mixed, state, f"{prefix}attention.output")
        wide = self.graph.multiply(state, self._matrix(f"{prefix}intermediate.dense"), f"{prefix}wide")
        bias = self._constant(f"{prefix}intermediate.dense.bias")
        bent = self.graph.add("BiasGelu", [wide, bias], f"{prefix}bent", _FUSED)
        return self._add_and_norm(self._dense(bent, f"{prefix}output.dense"), state, f"{prefix}output")

    def _attend(self, state: str, prefix: str) -> str:
        """Attention over all heads; queries, keys and values by one multiplication."""
        parts = [f"{prefix}{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._matrix(part) for part in parts], axis=1)
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        together = self.graph.multiply(state, weight, f"{prefix}together")
        self.graph.split(together, parts)
        inputs = [*parts, self.graph.constant(f"{prefix}bias", bias)]
        return self.graph.add("MultiHeadAttention", inputs, f"{prefix}out", _FUSED, num_heads=HEADS)

    def _dense(self, source: str, name: str) -> str:
        return self.graph.multiply(source, self._matrix(name), f"{name}.out", self.weights[f"{name}.bias"])

    def _add_and_norm(self, source: str, skipped: str, name: str) -> str:
        return self._norm(self.graph.add("Add", [source, skipped], f"{name}.sum"), f"{name}.LayerNorm")

    def _norm(self, source: str, name: str) -> str:
        inputs = [source, *(self._constant(f"{name}.{part}") for part in ("weight", "bias"))]
        return self.graph.add("LayerNormalization", inputs, f"{name}.out", axis=-1, epsilon=EPSILON)

    def _mean(self, state: str) -> None:
        """The mean over the tokens, of length one: as the sum is, so nothing is divided."""
        tokens = self.graph.constant("axis_tokens", np.array([1]))
        self.graph.add("ReduceSum", [state, tokens], "sum", keepdims=0)
        self.graph.add("LpNormalization", ["sum"], "embedding", axis=1, p=2)

    def _matrix(self, name: str) -> Floats:
        return self.weights[f"{name}.weight"].T

    def _constant(self, name: str) -> str:
        return self.graph.constant(name, self.weights[name])
