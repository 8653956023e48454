"""Writes ONNX models: as much of the format as one small graph needs.

An ONNX file is a Protocol Buffers message, and a message is a row of numbered fields. The `onnx` package could write
it too, but nothing else here would use it. Field numbers are those of
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import Any, Final

from numpy.typing import NDArray

FLOAT: Final = 1
INT32: Final = 6
INT64: Final = 7
_ELEMENT_TYPES: Final = {"float32": FLOAT, "int8": 3, "int32": INT32, "int64": INT64}
_VARINT, _BYTES, _FIXED_32 = 0, 2, 5
_IR_VERSION: Final = 9
_OPSETS: Final = {"": 17, "com.microsoft": 1}
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE = 1, 2
_SEVEN_BITS: Final = 0x7F

type Attribute = int | float


def tensor(name: str, values: NDArray[Any]) -> bytes:
    """TensorProto: a constant of the graph."""
    dims = b"".join(_number(1, size) for size in values.shape)
    kind = _number(2, _ELEMENT_TYPES[values.dtype.name])
    return dims + kind + _text(8, name) + _field(9, values.tobytes())


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, attributes: Mapping[str, Attribute]
) -> bytes:
    """NodeProto: one operation."""
    parts = [_text(1, name) for name in inputs] + [_text(2, name) for name in outputs]
    parts += [_text(4, operator), _text(7, domain)]
    parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts)


def value(name: str, element_type: int, shape: Sequence[str | int]) -> bytes:
    """ValueInfoProto: what goes into the graph or comes out of it; a dimension of any size has a name."""
    dims = (_text(2, size) if isinstance(size, str) else _number(1, size) for size in shape)
    tensor_type = _number(1, element_type) + _field(2, b"".join(_field(1, dim) for dim in dims))
    return _text(1, name) + _field(2, _field(1, tensor_type))


def model(
    name: str, nodes: Iterable[bytes], constants: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes]
) -> bytes:
    """ModelProto: the file."""
    graph = b"".join(
        [
            *(_field(1, it) for it in nodes),
            _text(2, name),
            *(_field(5, it) for it in constants),
            *(_field(11, it) for it in inputs),
            *(_field(12, it) for it in outputs),
        ]
    )
    opsets = (_field(8, _text(1, domain) + _number(2, version)) for domain, version in _OPSETS.items())
    return _number(1, _IR_VERSION) + b"".join(opsets) + _field(7, graph)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _tag(2, _FIXED_32) + pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)
    return _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + _varint(value)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64 bits of two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
