"""Large constants of serialized models, used where they lie.

What protobuf parses it copies, and once more where Python reads it. Of weights that takes most of the time in which a
model is read. So their bytes are taken out of the file before protobuf sees it.

There they lie at any address, and floats are to be aligned. In memory that may be written they are moved by the few
bytes that are missing, over the head of their field: other memory would take several times as long to be first touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["without_large_constants"]

# The numbers of fields: of ModelProto, GraphProto and TensorProto.
_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
# Of TensorProto, whose content is a number, and two of its values: FLOAT and INT32, whose elements have four bytes.
_DATA_TYPE: Final = 2
_OF_FOUR_BYTES: Final = (1, 6)
# Constants of fewer bytes are left to protobuf: that is as quick.
_LARGE: Final = 1 << 11
# What follows the number of a field: a varint, 8 bytes, as many bytes as a varint says, or 4 bytes. There are two more
# wire types, which nothing writes any more.
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


class _RawData(NamedTuple):
    """The raw data of a tensor.

    Attributes:
        head: Where its field begins.
        begin, end: Where it begins and ends.
        of_four_bytes: Whether its elements have as many.
    """

    head: int
    begin: int
    end: int
    of_four_bytes: bool


class _UnusualError(Exception):
    """The message is malformed or has fields of an old kind."""


def without_large_constants(model: bytes | memoryview) -> tuple[bytes | None, Mapping[int, memoryview]]:
    """Return a serialized model without the raw data of large initializers, and that data by the initializer's index.

    None for a model that has none, or is not as expected: protobuf says what is wrong with it.

    Args:
        model: Its bytes are the data's from here on. If they may be written, some are moved.
    """
    data = memoryview(model)
    constants: dict[int, _RawData] = {}
    try:
        parts = [*_model_parts(data, constants)]
    except (_UnusualError, IndexError):
        return None, {}
    rest = b"".join(parts) if constants else None
    return rest, {index: _aligned(data, constant).toreadonly() for index, constant in constants.items()}


def _aligned(data: memoryview, constant: _RawData) -> memoryview:
    """Return raw data, moved to a multiple of its elements' bytes over the head of its field, if it may be moved."""
    missing = constant.begin % 4 if constant.of_four_bytes and not data.readonly else 0
    begin, end = constant.begin - missing, constant.end - missing
    if missing and begin >= constant.head:
        data[begin:end] = data[constant.begin : constant.end]
        return data[begin:end]
    return data[constant.begin : constant.end]


def _model_parts(data: memoryview, constants: dict[int, _RawData]) -> Iterator[memoryview | bytes]:
    """Yield what is kept of a model."""
    count = 0
    for number, begin, payload, end in _fields(data, 0, len(data)):
        if number != _GRAPH:
            yield data[begin:end]
            continue
        parts: list[memoryview | bytes] = []
        kept = payload  # from here on nothing has been kept yet
        for inner, start, content, stop in _fields(data, payload, end):
            if inner != _INITIALIZER:
                continue
            if stop - content >= _LARGE and (raw := _raw_data(data, content, stop)) is not None:
                constants[count] = raw
                parts += (data[kept:start], *_message(_INITIALIZER, [data[content : raw.head], data[raw.end : stop]]))
                kept = stop
            count += 1
        yield from _message(_GRAPH, [*parts, data[kept:end]])


def _raw_data(data: memoryview, begin: int, end: int) -> _RawData | None:
    """Return where the raw data of a tensor is; None if it is small."""
    found, of_four_bytes = None, False
    for number, start, payload, stop in _fields(data, begin, end):
        if number == _RAW_DATA:
            if found is not None:
                raise _UnusualError
            found = start, payload, stop
        elif number == -_DATA_TYPE:
            of_four_bytes = data[payload] in _OF_FOUR_BYTES
    if found is None or found[2] - found[1] < _LARGE:
        return None
    return _RawData(*found, of_four_bytes)


def _message(number: int, parts: list[memoryview | bytes]) -> list[memoryview | bytes]:
    """Return a field that is a message of these parts."""
    return [_varint(number << 3 | _BYTES) + _varint(sum(map(len, parts))), *parts]


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*parts, number))


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: number, where it begins, where its content begins, where it ends.

    Raises:
        _UnusualError: A field is of an old kind, or ends after the message.
        IndexError: The data ends in a number.
    """
    while at < end:
        begin = at
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = _read_varint(data, begin)
        kind = key & 7
        if kind == _BYTES:
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = _read_varint(data, at - 1)
            payload, at = at, at + length
        elif kind == _VARINT:
            payload = at
            _, at = _read_varint(data, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            payload, at = at, at + (8 if kind == _EIGHT_BYTES else 4)
        else:
            raise _UnusualError
        if at > end:
            raise _UnusualError
        # A number that is no message's cannot be taken for one: its number is told with another sign.
        yield (key >> 3 if kind == _BYTES else -(key >> 3)), begin, payload, at


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number of up to ten bytes, and where it ends."""
    number = 0
    for place in range(10):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte <= 0x7F:
            return number, at + place + 1
    raise _UnusualError
