"""What is written is what onnxruntime reads: a small model computes what it should."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from soliplex.ingester.lib.embedding import onnx_format as onnx


def session_of(model: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def test_a_model_computes_with_its_constants_and_attributes() -> None:
    nodes = [
        onnx.node("Mul", ["given", "weight"], ["scaled"], "", {}),
        onnx.node("LeakyRelu", ["scaled"], ["bent"], "", {"alpha": 0.5}),
        onnx.node("Cast", ["bent"], ["result"], "", {"to": onnx.INT32}),
    ]
    weight = onnx.tensor("weight", np.array([1, 10, 300], np.float32))
    given = onnx.value("given", onnx.FLOAT, ("rows", 3))
    result = onnx.value("result", onnx.INT32, ("rows", 3))
    session = session_of(onnx.model("small", nodes, [weight], [given], [result]))
    (found,) = session.run(None, {"given": np.array([[1, -2, 3], [0, 0, -1]], np.float32)})
    assert np.asarray(found).tolist() == [[1, -10, 900], [0, 0, -150]]


def test_a_negative_attribute_is_read_back() -> None:
    nodes = [onnx.node("Concat", ["given", "given"], ["result"], "", {"axis": -1})]
    given, result = onnx.value("given", onnx.INT64, ("rows", 2)), onnx.value("result", onnx.INT64, ("rows", 4))
    (found,) = session_of(onnx.model("small", nodes, [], [given], [result])).run(None, {"given": np.array([[1, 2]])})
    assert np.asarray(found).tolist() == [[1, 2, 1, 2]]


def test_the_constants_of_a_model_are_read_back_in_order() -> None:
    written = {
        "weights": np.arange(-150, 150, dtype=np.float32).reshape((2, 150)),
        "rounded": np.array([[-127], [127]], np.int8),
        "places": np.array([0, 1 << 40], np.int64),
    }
    constants = [onnx.tensor(name, values) for name, values in written.items()]
    nodes = [onnx.node("Identity", ["given"], ["result"], "", {"alpha": 0.5})]
    given, result = (onnx.value(name, onnx.FLOAT, ("rows",)) for name in ("given", "result"))
    read = onnx.constants_of(onnx.model("small", nodes, constants, [given], [result]))
    assert list(read) == list(written)
    assert all(np.array_equal(read[name], values) for name, values in written.items())


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_numbers_take_seven_bits_a_byte(number: int, encoded: bytes) -> None:
    assert onnx._varint(number) == encoded
