"""Tensor descs: what their constructor makes of any argument, arrays that they describe, the bytes of buffers."""

from __future__ import annotations

import itertools
import re
from dataclasses import FrozenInstanceError
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlcpu.enums import (
    TensorDataType,
    TensorFlags,
)
from dmlcpu.tensor import TensorDesc, calc_buffer_tensor_size, data_type_of, dtype_of, span_in_elements
from operator_samples import tensor


def test_tensor_desc_coerces_to_canonical_values() -> None:
    desc = TensorDesc(
        np.int64(5),
        np.array([2, 3]),  # type: ignore[arg-type]
        strides=[np.uint8(3), 1],
        flags=np.uint32(1),
        total_tensor_size_in_bytes=np.int64(8),
        guaranteed_base_offset_alignment=np.int32(16),
    )
    expected = tensor(
        "UINT8",
        2,
        3,
        strides=(3, 1),
        flags=TensorFlags.OWNED_BY_DML,
        total_tensor_size_in_bytes=8,
        guaranteed_base_offset_alignment=16,
    )
    assert desc == expected
    assert hash(desc) == hash(expected)
    assert type(desc.data_type) is TensorDataType
    assert type(desc.flags) is TensorFlags
    assert [type(size) for size in desc.sizes] == [int, int]
    assert type(desc.sizes) is type(desc.strides) is tuple
    assert type(desc.total_tensor_size_in_bytes) is type(desc.guaranteed_base_offset_alignment) is int


def test_tensor_desc_has_the_documented_signature() -> None:
    desc = TensorDesc(TensorDataType.INT8, (2,))
    assert (desc.strides, desc.flags, desc.total_tensor_size_in_bytes) == (None, TensorFlags.NONE, None)
    assert desc.guaranteed_base_offset_alignment == 0
    with pytest.raises(TypeError):
        TensorDesc(TensorDataType.INT8, (2,), (1,))  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        desc.sizes = (3,)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("abc", "abc"),
        (b"12", b"12"),
        (7, 7),
        ((x for x in (1, 2)), (1, 2)),
        ([1.5, None, "a"], (1.5, None, "a")),
        ([True], (1,)),
        (range(10**12), range(10**12)),
        ({1: 2}, {1: 2}),
    ],
)
def test_any_sizes_are_taken(value: Any, expected: object) -> None:
    assert TensorDesc(TensorDataType.INT8, value).sizes == expected


def test_an_endless_iterator_is_kept_as_it_is() -> None:
    endless: Any = itertools.count()
    assert TensorDesc(TensorDataType.INT8, endless).sizes is endless


@pytest.mark.parametrize("value", [99, -1, 2**70, "UINT8", None, 1.0])
def test_what_is_no_member_stays_what_it_is(value: Any) -> None:
    desc = TensorDesc(value, (1,), flags=value)
    for kept in (desc.data_type, desc.flags):
        assert type(kept) is type(value)
        assert kept == value


def test_repr_of_a_tensor_desc_evaluates_to_it() -> None:
    desc = tensor(
        "UINT4", 1, 5, strides=(0, 1), flags=1, total_tensor_size_in_bytes=8, guaranteed_base_offset_alignment=32
    )
    expected = (
        "TensorDesc(TensorDataType.UINT4, (1, 5), strides=(0, 1), flags=TensorFlags.OWNED_BY_DML, "
        "total_tensor_size_in_bytes=8, guaranteed_base_offset_alignment=32)"
    )
    assert repr(desc) == expected
    assert eval(repr(desc)) == desc
    assert repr(TensorDesc(99, "x")) == "TensorDesc(99, 'x')"  # type: ignore[arg-type]
    assert repr(TensorDesc(5, (10**5000,))) == "TensorDesc(TensorDataType.UINT8, (an integer of 16610 bits,))"


@pytest.mark.parametrize(
    ("array", "sizes", "strides"),
    [
        (np.zeros((2, 3), np.float32), (2, 3), None),
        (np.zeros((2, 3), np.float32)[:, ::2], (2, 2), (3, 2)),
        (np.zeros((2, 3), np.uint16).T, (3, 2), (1, 3)),
        (np.zeros((1, 8, 8, 3), np.int8).transpose(0, 3, 1, 2), (1, 3, 8, 8), (192, 1, 24, 3)),
        (np.broadcast_to(np.int32(1), (4, 5)), (4, 5), (0, 0)),
        # The stride of an axis of length 1 does not count.
        (np.zeros((3, 1), np.uint8)[:, ::-1], (3, 1), None),
        (np.zeros((3, 1, 5), np.uint8)[:, ::-1, ::2], (3, 1, 3), (5, 0, 2)),
        (np.array(1.0, np.float16), (1,), None),
        (np.int64(3), (1,), None),
    ],
)
def test_from_array(array: Any, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    desc = TensorDesc.from_array(array, flags=TensorFlags.OWNED_BY_DML)
    name = array.dtype.name.upper()
    assert desc == tensor(name, *sizes, strides=strides, flags=TensorFlags.OWNED_BY_DML)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.zeros(3, np.complex64), TypeError),
        (np.zeros(3, bool), TypeError),
        (np.zeros(3, np.dtype(np.int32).newbyteorder()), TypeError),
        ([1, 2], TypeError),
        (np.zeros(3, np.int8)[::-1], ValueError),
        (np.zeros(3, [("a", np.int8), ("b", np.float32)])["b"], ValueError),
    ],
)
def test_from_array_refuses_what_a_desc_cannot_say(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        TensorDesc.from_array(value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, np.float32)[::-1], "a: got strides of (-4,) bytes; negative ones cannot be described; np.asc"),
        (
            np.zeros(3, [("a", "u1"), ("b", "<u2")])["b"],
            "a: got strides of (3,) bytes; fractions of an element of 2",
        ),
        (np.zeros(3, complex), "no tensor data type is complex128; expected one of float32, float16, uint32, "),
        (np.zeros(3, ">f4"), "no tensor data type is >f4; expected one of float32, float16, uint32, "),
    ],
)
def test_from_array_says_what_it_cannot(array: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}") as raised:
        TensorDesc.from_array(array)
    assert str(raised.value).endswith(", in the machine's byte order") == (array.dtype == ">f4")


class Exported:
    """Something that is no array of numpy, and exports its memory."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_from_array_reads_what_exports_its_memory() -> None:
    array = np.zeros((2, 3), np.int16).T
    assert (
        TensorDesc.from_array(Exported(array)) == TensorDesc.from_array(array) == tensor("INT16", 3, 2, strides=(1, 3))
    )


def test_every_data_type_but_the_4_bit_ones_is_a_dtype_of_numpy() -> None:
    named = [data_type for data_type in TensorDataType if data_type.name not in ("UNKNOWN", "UINT4", "INT4")]
    assert [dtype_of(data_type).name.upper() for data_type in named] == [data_type.name for data_type in named]
    assert [data_type_of(dtype_of(data_type)) for data_type in named] == named
    with pytest.raises(TypeError, match="UNKNOWN"):
        dtype_of(TensorDataType.UNKNOWN)


@pytest.mark.parametrize("name", ["INT4", "UINT4"])
def test_4_bit_types_are_those_of_ml_dtypes(name: str) -> None:
    array = np.zeros((2, 3), getattr(ml_dtypes, name.lower()))
    assert TensorDesc.from_array(array[:, ::2]) == tensor(name, 2, 2, strides=(3, 2))
    assert dtype_of(TensorDataType[name]) == array.dtype


def test_4_bit_types_without_ml_dtypes_say_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="ml_dtypes"):
        dtype_of(TensorDataType.INT4)


@pytest.mark.parametrize(
    ("name", "sizes", "strides", "expected"),
    [
        ("UINT8", (1, 3, 5, 7), None, 108),
        ("UINT4", (5,), None, 4),
        ("INT4", (9,), None, 8),
        ("INT4", (2, 2), (8, 1), 8),
        ("FLOAT32", (1, 8, 28, 28), (8, 1, 0, 0), 32),
        ("FLOAT16", (3,), None, 8),
        ("FLOAT64", (3, 2), None, 48),
        # The last element lies beyond 2**32, where arithmetic in 32 bits would wrap.
        ("INT8", (2, 2), (2**32 - 1, 2**32 - 1), 2**33),
        ("FLOAT32", (2**32 - 1,) * 3, None, 4 * (2**32 - 1) ** 3),
        ("INT8", (0, 3), None, 0),
        ("INT8", (0, 3), (1, 1), 0),
        ("UNKNOWN", (4,), None, 0),
    ],
)
def test_calc_buffer_tensor_size(
    name: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None, expected: int
) -> None:
    assert calc_buffer_tensor_size(TensorDataType[name], sizes, strides) == expected


def test_calc_buffer_tensor_size_of_an_unknown_type_is_0() -> None:
    assert calc_buffer_tensor_size(99, (4,)) == 0


@pytest.mark.parametrize(
    ("sizes", "strides", "error"),
    [((2, 2), (1,), ValueError), ((-1,), None, ValueError), ((2,), (-1,), ValueError), ((1.5,), None, TypeError)],
)
def test_calc_buffer_tensor_size_refuses(sizes: Any, strides: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        calc_buffer_tensor_size(TensorDataType.INT8, sizes, strides)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("UINT8", (1,)), "data_type: got 'UINT8', expected a TensorDataType"),
        ((5, 3), "sizes: got 3, expected a sequence of integers"),
        ((5, [1, 1.5]), "sizes: got (1, 1.5), expected a sequence of integers"),
        ((5, (1,), 3), "strides: got 3, expected a sequence of integers"),
        ((5, (1,), (None,)), "strides: got (None,), expected a sequence of integers"),
    ],
)
def test_calc_buffer_tensor_size_names_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        calc_buffer_tensor_size(*arguments)


def test_span_in_elements() -> None:
    assert span_in_elements((2, 3, 4), (100, 10, 1)) == 124
    assert span_in_elements(()) == 1
