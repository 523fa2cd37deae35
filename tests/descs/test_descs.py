"""Enumerations, errors and operator descs: what their constructors make of any argument."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import Any

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
from operator_samples import CONVOLUTION, DYNAMIC, SAMPLES, VALID_DESCS, changed

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
