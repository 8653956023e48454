"""Writes ONNX models, and reads their constants: as much of the format as one small graph needs.

An ONNX file is a Protocol Buffers message, and a message is a row of numbered fields. The `onnx` package could do
it too, but nothing else here would use it. Field numbers are those of
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from struct import pack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FLOAT: Final = 1
INT32: Final = 6
INT64: Final = 7
_ELEMENT_TYPES: Final = {"float32": FLOAT, "int8": 3, "int32": INT32, "int64": INT64}
_NAMES_OF_TYPES: Final = {number: name for name, number in _ELEMENT_TYPES.items()}
_IR_VERSION: Final = 9
_GRAPH, _INITIALIZER = 7, 5
_OPSETS: Final = {"": 17, "com.microsoft": 1}
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE = 1, 2
_SEVEN_BITS: Final = 0x7F

type Attribute = int | float


class _Wire(IntEnum):
    """How a field is encoded: the last three bits of its tag."""

    VARINT = 0
    FIXED_64 = 1
    BYTES = 2
    FIXED_32 = 5


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


def constants_of(model: bytes) -> dict[str, NDArray[Any]]:
    """The constants of a model by name, in the order of the file, but for those of types that are not written here."""
    found = dict[str, NDArray[Any]]()
    for number, graph in _fields(memoryview(model)):
        if number == _GRAPH:
            tensors = (it for place, it in _fields(graph) if place == _INITIALIZER)
            found.update(named for tensor in tensors for named in _constant(tensor))
    return found


def _constant(tensor: memoryview) -> Iterator[tuple[str, NDArray[Any]]]:
    """Its name and its values, if these stand in one piece, as those of all but the smallest do."""
    shape, kind, name, raw = list[int](), "", "", None
    for number, content in _fields(tensor):
        match number:
            case 1 if len(content):  # packed or one by one, depending on who wrote it
                shape += _varints(content)
            case 2:
                kind = _NAMES_OF_TYPES.get(_varints(content)[0], "")
            case 8:
                name = str(content, "utf-8")
            case 9:
                raw = content
            case _:
                pass
    if kind and raw is not None:
        yield name, np.frombuffer(raw, kind).reshape(shape)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field; the content of a number is its encoded form."""
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        start = place
        match tag & 7:
            case _Wire.VARINT:
                _, place = _read_varint(message, place)
            case _Wire.FIXED_64:
                place += 8
            case _Wire.BYTES:
                length, start = _read_varint(message, place)
                place = start + length
            case _Wire.FIXED_32:
                place += 4
            case other:
                raise ValueError(f"a field of type {other} is none of Protocol Buffers")
        yield tag >> 3, message[start:place]


def _varints(content: memoryview) -> list[int]:
    found, place = list[int](), 0
    while place < len(content):
        value, place = _read_varint(content, place)
        found.append(value)
    return found


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    """The number that begins at the place, and where the next field begins."""
    value, shift = 0, 0
    while True:
        byte = message[place]
        value |= (byte & _SEVEN_BITS) << shift
        place, shift = place + 1, shift + 7
        if byte <= _SEVEN_BITS:
            return value, place


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _tag(2, _Wire.FIXED_32) + pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)
    return _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, _Wire.BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _tag(number, _Wire.VARINT) + _varint(value)


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
