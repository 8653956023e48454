"""all-MiniLM-L6-v2 as a graph for onnxruntime, made from the weights in its package.

BERT of six layers, then the mean over the tokens, scaled to length one. The operations are those that onnxruntime has
fused by hand (`com.microsoft`); its optimizer would have to find them first.

With int8, the weights of the layers are rounded to eight bits, column by column, and what flows between the layers is
rounded as it comes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soliplex.ingester.lib.embedding import onnx_format as onnx
from soliplex.ingester.lib.embedding.precision import Precision

type Floats = NDArray[np.float32]

_FUSED: Final = "com.microsoft"


def build(folder: Path, precision: Precision) -> bytes:
    """The model as an ONNX file: `input_ids`, `attention_mask` and `position_ids` in, `embedding` out."""
    from safetensors.numpy import load_file  # noqa: PLC0415  only where a model is loaded

    config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    weights = {name.removeprefix("bert."): it for name, it in load_file(folder / "model.safetensors").items()}
    layers = _ExactLayers() if precision is Precision.FP32 else _RoundedLayers()
    return _Bert(config, weights, layers).build()


@dataclass(slots=True)
class _Graph:
    """Operations and constants, in the order in which they were added."""

    nodes: list[bytes] = field(default_factory=list[bytes])
    constants: list[bytes] = field(default_factory=list[bytes])

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(onnx.tensor(name, np.ascontiguousarray(values)))
        return name

    def add(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: onnx.Attribute) -> str:
        self.nodes.append(onnx.node(operator, inputs, [output], domain, attributes))
        return output


class _ExactLayers(_Graph):
    """Computes with 32-bit floats."""

    def multiply(self, source: str, weight: Floats, output: str) -> str:
        return self.add("MatMul", [source, self.constant(f"{output}.weight", weight)], output)

    def attend(self, source: str, weight: Floats, bias: Floats, output: str, heads: int) -> str:
        constants = [self.constant(f"{output}.weight", weight), self.constant(f"{output}.bias", bias)]
        return self.add("Attention", [source, *constants, "mask"], output, _FUSED, num_heads=heads)


class _RoundedLayers(_Graph):
    """Multiplies 8-bit integers."""

    def multiply(self, source: str, weight: Floats, output: str) -> str:
        return self.add("DynamicQuantizeMatMul", [source, *self._rounded(weight, output)], output, _FUSED)

    def attend(self, source: str, weight: Floats, bias: Floats, output: str, heads: int) -> str:
        rounded, scale, zero = f"{output}.in", f"{output}.in.scale", f"{output}.in.zero"
        self.nodes.append(onnx.node("DynamicQuantizeLinear", [source], [rounded, scale, zero], "", {}))
        weights, weight_scale, weight_zero = self._rounded(weight, output)
        constant = self.constant(f"{output}.bias", bias)
        inputs = [rounded, weights, constant, scale, weight_scale, "mask", zero, weight_zero]
        return self.add("QAttention", inputs, output, _FUSED, num_heads=heads)

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
    config: dict[str, Any]
    weights: dict[str, Floats]
    graph: _ExactLayers | _RoundedLayers

    def build(self) -> bytes:
        self.graph.add("Cast", ["attention_mask"], "mask", to=onnx.INT32)
        state = self._embeddings()
        for number in range(self.config["num_hidden_layers"]):
            state = self._layer(state, f"encoder.layer.{number}.")
        self._mean(state)
        texts = [
            ("input_ids", ("texts", "tokens")),
            ("attention_mask", ("texts", "tokens")),
            ("position_ids", ("tokens",)),
        ]
        inputs = [onnx.value(name, onnx.INT64, shape) for name, shape in texts]
        outputs = [onnx.value("embedding", onnx.FLOAT, ("texts", self.config["hidden_size"]))]
        return onnx.model("minilm", self.graph.nodes, self.graph.constants, inputs, outputs)

    def _embeddings(self) -> str:
        words = self._constant("embeddings.word_embeddings.weight")
        # Every token is of the same type here, so its part is added to the positions once and for all.
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        places = self.graph.constant("positions", self.weights["embeddings.position_embeddings.weight"] + types)
        self.graph.add("Gather", [words, "input_ids"], "words")
        self.graph.add("Gather", [places, "position_ids"], "places")
        self.graph.add("Add", ["words", "places"], "embedded")
        norm = [self._constant(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")]
        return self.graph.add("LayerNormalization", ["embedded", *norm], "state", axis=-1, epsilon=self._epsilon)

    def _layer(self, state: str, prefix: str) -> str:
        attention = f"{prefix}attention."
        parts = [f"{attention}self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._matrix(part) for part in parts], axis=1)
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        heads = self.config["num_attention_heads"]
        attended = self.graph.attend(state, weight, bias, f"{attention}out", heads)
        mixed = self._dense(attended, f"{attention}output.dense")
        state = self._add_and_norm(mixed, state, f"{attention}output")
        wide = self._dense(state, f"{prefix}intermediate.dense")
        bent = self.graph.add(
            "BiasGelu", [wide, self._constant(f"{prefix}intermediate.dense.bias")], f"{wide}.gelu", _FUSED
        )
        return self._add_and_norm(self._dense(bent, f"{prefix}output.dense"), state, f"{prefix}output")

    def _dense(self, source: str, name: str) -> str:
        return self.graph.multiply(source, self._matrix(name), f"{name}.out")

    def _add_and_norm(self, source: str, skipped: str, name: str) -> str:
        norm = [self._constant(f"{name}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        inputs = [source, skipped, *norm]
        return self.graph.add("SkipLayerNormalization", inputs, f"{name}.norm", _FUSED, epsilon=self._epsilon)

    def _mean(self, state: str) -> None:
        """The mean over the tokens that are text, of length one."""
        graph = self.graph
        last, tokens = graph.constant("axis_last", np.array([2])), graph.constant("axis_tokens", np.array([1]))
        graph.add("Cast", ["attention_mask"], "present", to=onnx.FLOAT)
        graph.add("Unsqueeze", ["present", last], "present_wide")
        graph.add("Mul", [state, "present_wide"], "masked")
        graph.add("ReduceSum", ["masked", tokens], "sum", keepdims=0)
        graph.add("ReduceSum", ["present", tokens], "count", keepdims=1)
        graph.add("Div", ["sum", "count"], "mean")
        graph.add("LpNormalization", ["mean"], "embedding", axis=1, p=2)

    @property
    def _epsilon(self) -> float:
        return float(self.config["layer_norm_eps"])

    def _matrix(self, name: str) -> Floats:
        return self.weights[f"{name}.weight"].T

    def _constant(self, name: str) -> str:
        return self.graph.constant(name, self.weights[name])
