"""Enumerations, errors, tensor descs and operator descs: what their constructors make of any argument."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlcpu
from dmlcpu import Device, QuantizedLinearConvolutionOperatorDesc, errors
from dmlcpu.descriptions import Partition
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import (
    ExecutionFlags,
    FeatureLevel,
    OperatorType,
    QuantizationType,
    TensorDataType,
    TensorFlags,
)
from dmlcpu.errors import (
    BindingError,
    DmlError,
    InvalidDescError,
    InvalidModelError,
    MissingRuntimeError,
    UnsupportedFeatureLevelError,
    UnsupportedIsaError,
)
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.tensor import TensorDesc, calc_buffer_tensor_size, data_type_of, dtype_of, span_in_elements
from operator_samples import CONVOLUTION, DYNAMIC, SAMPLES, VALID_DESCS, changed, tensor

PARTITION = Partition("onnxruntime", ("Tan_0",), {"Tan_0": "no kernel"}, "")


@pytest.mark.parametrize(
    ("enumeration", "values"),
    [
        (
            TensorDataType,
            "UNKNOWN=0 FLOAT32=1 FLOAT16=2 UINT32=3 UINT16=4 UINT8=5 INT32=6 INT16=7 INT8=8 FLOAT64=9 UINT64=10 "
            "INT64=11 UINT4=12 INT4=13",
        ),
        (TensorFlags, "NONE=0 OWNED_BY_DML=1"),
        (
            FeatureLevel,
            "LEVEL_1_0=0x1000 LEVEL_2_0=0x2000 LEVEL_2_1=0x2100 LEVEL_3_0=0x3000 LEVEL_3_1=0x3100 LEVEL_4_0=0x4000 "
            "LEVEL_4_1=0x4100 LEVEL_5_0=0x5000 LEVEL_5_1=0x5100 LEVEL_5_2=0x5200 LEVEL_6_0=0x6000 LEVEL_6_1=0x6100 "
            "LEVEL_6_2=0x6200 LEVEL_6_3=0x6300 LEVEL_6_4=0x6400",
        ),
        (
            ExecutionFlags,
            "NONE=0 ALLOW_HALF_PRECISION_COMPUTATION=1 DISABLE_META_COMMANDS=2 DESCRIPTORS_VOLATILE=4",
        ),
        (QuantizationType, "NONE=0 SCALE=1 SCALE_ZERO_POINT=2"),
    ],
)
def test_enumerations_have_directml_values(enumeration: Any, values: str) -> None:
    expected = {name: int(value, 0) for name, value in (pair.split("=") for pair in values.split())}
    assert {name: int(member) for name, member in enumeration.__members__.items()} == expected


def test_operators_have_directml_values() -> None:
    assert {operator: int(operator) for operator in OperatorType} == {
        operator: sample.number for operator, sample in SAMPLES.items()
    }


@pytest.mark.parametrize(
    ("error", "bases", "attributes"),
    [
        (DmlError("why"), (DmlError,), {}),
        (
            InvalidDescError("why", OperatorType.QUANTIZE, "input_tensor"),
            (DmlError, ValueError),
            {"operator": OperatorType.QUANTIZE, "field": "input_tensor", "hresult": 0x80070057},
        ),
        (
            UnsupportedFeatureLevelError("why", OperatorType.QUANTIZE, None, FeatureLevel.LEVEL_6_3),
            (DmlError,),
            {"operator": OperatorType.QUANTIZE, "field": None, "required_level": FeatureLevel.LEVEL_6_3},
        ),
        (UnsupportedIsaError("why"), (DmlError, ValueError), {}),
        (BindingError("why", "input_tensor"), (DmlError, ValueError), {"field": "input_tensor"}),
        (InvalidModelError("why"), (DmlError, ValueError), {}),
        (MissingRuntimeError("why", (PARTITION,)), (DmlError,), {"partitions": (PARTITION,)}),
    ],
)
def test_errors_survive_pickling(error: DmlError, bases: tuple[type, ...], attributes: dict[str, object]) -> None:
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error)
        assert isinstance(same, bases)
        assert str(same) == "why"
        assert {name: getattr(same, name) for name in attributes} == attributes


def test_every_error_is_tested() -> None:
    assert set(errors.__all__) == {
        error.__name__
        for error in (
            BindingError,
            DmlError,
            InvalidDescError,
            InvalidModelError,
            MissingRuntimeError,
            UnsupportedFeatureLevelError,
            UnsupportedIsaError,
        )
    }


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


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_repr_of_an_operators_desc_evaluates_to_it(desc: OperatorDesc) -> None:
    assert eval(repr(desc), dict(vars(dmlcpu))) == desc
    assert eval(repr(Device().create_operator(desc)), dict(vars(dmlcpu))).desc == desc


def test_repr_of_what_is_no_valid_desc() -> None:
    desc = dmlcpu.QuantizeOperatorDesc(input_tensor=None, quantization_type=9, output_tensor=None)
    assert repr(desc) == (
        "QuantizeOperatorDesc(input_tensor=None, quantization_type=9, quantization_tensors=None, output_tensor=None)"
    )
    assert eval(repr(desc), dict(vars(dmlcpu))) == desc


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


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_names_are_directml_s(desc: OperatorDesc) -> None:
    words = re.findall("[A-Z][a-z]*", type(desc).__name__)
    assert "_".join(words).upper() == f"{desc.operator_type.name}_OPERATOR_DESC"
    names = dict.fromkeys(field.attribute for field in OPERATORS[desc.operator_type].fields)
    assert [field.name for field in fields(desc)] == list(names)


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_exactly_the_optional_tensors_may_be_left_out(desc: OperatorDesc) -> None:
    described = [field for field in OPERATORS[desc.operator_type].tensors if field.entry is None]
    optional = {field.name for field in described if field.support_at(FeatureLevel.LEVEL_6_4).optional}
    tensors = {field.name for field in described}
    defaults = {field.name: field.default for field in fields(desc) if field.name in tensors}
    assert {name for name, default in defaults.items() if default is None} == optional
    assert {name for name, default in defaults.items() if default is MISSING} == tensors - optional


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_descs_are_values(desc: OperatorDesc) -> None:
    for same in (pickle.loads(pickle.dumps(desc)), copy.deepcopy(desc), changed(desc)):
        assert same == desc
        assert hash(same) == hash(desc)
    every_field_absent = changed(desc, **dict.fromkeys((field.name for field in fields(desc)), None))
    assert every_field_absent != desc
    with pytest.raises(FrozenInstanceError):
        desc.output_tensor = None  # type: ignore[attr-defined]


def test_a_desc_coerces_its_attributes() -> None:
    desc = changed(CONVOLUTION, strides=np.array([2, 1]), dilations=[1, 2], group_count=np.int64(2))
    assert desc == CONVOLUTION
    assert hash(desc) == hash(CONVOLUTION)
    assert isinstance(desc, QuantizedLinearConvolutionOperatorDesc)
    assert type(desc.strides) is tuple
    assert type(desc.group_count) is int


@pytest.mark.parametrize("kind", [list, tuple])
def test_sequences_are_read_to_a_bound(kind: type[list[int]] | type[tuple[int, ...]]) -> None:
    """One of more entries stays what it is, for the validator to report."""
    for count in (4096, 4097):
        entries = kind([1] * count)
        assert changed(CONVOLUTION, strides=entries).strides == ((1,) * count if count == 4096 else entries)


def test_bytes_are_no_sequence() -> None:
    entries = bytearray(b"12")
    assert changed(CONVOLUTION, strides=entries).strides is entries


def test_constructors_are_keyword_calls_with_every_required_field() -> None:
    make: Callable[..., OperatorDesc] = type(DYNAMIC)
    arguments = {field.name: getattr(DYNAMIC, field.name) for field in fields(DYNAMIC)}
    assert make(**arguments) == DYNAMIC
    with pytest.raises(TypeError, match="positional"):
        make(*arguments.values())
    del arguments["output_scale_tensor"]
    with pytest.raises(TypeError, match="output_scale_tensor"):
        make(**arguments)


def test_the_base_of_descs_is_no_desc() -> None:
    with pytest.raises(TypeError, match="OperatorDesc"):
        OperatorDesc()
