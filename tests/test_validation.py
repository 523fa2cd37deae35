"""What is accepted and refused: against the record of DirectML.dll, field by field, and for arbitrary nonsense."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device
from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType, TensorFlags
from dmlcpu.errors import InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.feature_levels import DELIBERATE_REFUSALS, OPERATORS
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL, Check
from dmlcpu.tensor import TensorDesc
from dmlcpu.validation import find_violation, validate
from valid_descs import (
    ADD,
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    CONVOLUTION,
    CONVOLUTION_INTEGER,
    DEQUANTIZE,
    DYNAMIC,
    MATRIX_MULTIPLY_INTEGER,
    MATRIX_MULTIPLY_TO_FLOAT,
    POOLING,
    QUANTIZE,
    QUANTIZED_MATRIX_MULTIPLY,
    VALID_DESCS,
    changed,
    desc_of,
    tensor,
)

RECORDS = sorted((Path(__file__).parent / "golden").glob("*.validation.jsonl.gz"))

# How many recorded descs of each operator, and how many of them DirectML.dll accepts and we refuse, by the check.
RECORDED = {
    OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR: (327, {Check.OUTPUT_ADDRESSES: 1}),
    OperatorType.ELEMENT_WISE_DEQUANTIZE_LINEAR: (296, {}),
    OperatorType.ELEMENT_WISE_QUANTIZED_LINEAR_ADD: (356, {}),
    OperatorType.DYNAMIC_QUANTIZE_LINEAR: (483, {Check.OUTPUT_ADDRESSES: 2}),
    OperatorType.QUANTIZED_LINEAR_CONVOLUTION: (
        776,
        {Check.OUTPUT_SIZES: 25, Check.WINDOW: 4, Check.STEPS: 2, Check.OUTPUT_ADDRESSES: 2},
    ),
    OperatorType.CONVOLUTION_INTEGER: (
        314,
        {Check.OUTPUT_SIZES: 26, Check.STEPS: 2, Check.OUTPUT_ADDRESSES: 2},
    ),
    OperatorType.MATRIX_MULTIPLY_INTEGER: (256, {Check.OUTPUT_ADDRESSES: 2}),
    OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY: (394, {Check.OUTPUT_ADDRESSES: 3}),
    OperatorType.MATRIX_MULTIPLY_INTEGER_TO_FLOAT: (449, {Check.SCALE_DATA_TYPE: 6}),
    OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING: (
        459,
        {
            Check.PARAMETER_SIZES: 31,
            Check.OUTPUT_SIZES: 18,
            Check.STEPS: 3,
            Check.BOOLEAN: 2,
            Check.WINDOW: 2,
            Check.OUTPUT_ADDRESSES: 1,
        },
    ),
    OperatorType.QUANTIZE: (352, {Check.OUTPUT_ADDRESSES: 2}),
    OperatorType.DEQUANTIZE: (349, {Check.OUTPUT_ADDRESSES: 1}),
}
FAULTS = {
    OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR: 14,
    OperatorType.QUANTIZED_LINEAR_CONVOLUTION: 2,
    OperatorType.CONVOLUTION_INTEGER: 2,
    OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING: 2,
    OperatorType.QUANTIZE: 17,
    OperatorType.DEQUANTIZE: 10,
}


@cache
def recorded() -> list[tuple[OperatorDesc, bool | None]]:
    records = []
    for path in RECORDS:
        with gzip.open(path, "rt") as lines:
            records += [json.loads(line) for line in lines]
    return [(desc_of(record), record["accepted"]) for record in records]


@pytest.mark.parametrize("operator", RECORDED, ids=lambda operator: operator.name)
def test_decisions_are_those_of_directml_but_for_the_deliberate_refusals(operator: OperatorType) -> None:
    count, exceptions = RECORDED[operator]
    decided = [(desc, accepted) for desc, accepted in recorded() if desc.operator_type is operator]
    assert len(decided) == count
    refused_only_here: Counter[Check] = Counter()
    for desc, accepted in decided:
        violation = find_violation(desc)
        if not accepted:
            assert violation is not None, desc
        elif violation is not None:
            refused_only_here[violation.check] += 1
            listed = [refusal for refusal in DELIBERATE_REFUSALS if refusal.check is violation.check]
            assert [violation.field in refusal.fields[operator] for refusal in listed] == [True], desc
    assert refused_only_here == exceptions


# What the fields look like that DirectML.dll stumbles over: absent, of more dimensions than the input, or empty.
CAUSES_OF_FAULTS: dict[Check, Callable[[Any, Any], bool]] = {
    Check.PRESENCE: lambda desc, value: value is None,
    Check.DIMENSION_COUNT: lambda desc, value: value and len(value.sizes) > len(desc.input_tensor.sizes),
    Check.FORM: lambda desc, value: value and 0 in value.sizes,
}


def is_listed(desc: OperatorDesc, check: Check, condition: Callable[[Any, Any], bool]) -> bool:
    """Whether the condition holds for a field that the deliberate refusal of this check lists."""
    [refusal] = [refusal for refusal in DELIBERATE_REFUSALS if refusal.check is check]
    fields_ = {field.name: field for field in OPERATORS[desc.operator_type].fields}
    names = refusal.fields.get(desc.operator_type, ())
    return any(condition(desc, fields_[name].value_in(desc)) for name in names)


@pytest.mark.parametrize("operator", RECORDED, ids=lambda operator: operator.name)
def test_where_directml_faults_a_listed_field_is_absent_or_cuts_no_blocks(operator: OperatorType) -> None:
    faults = [desc for desc, accepted in recorded() if accepted is None and desc.operator_type is operator]
    assert len(faults) == FAULTS.get(operator, 0)
    for desc in faults:
        assert any(is_listed(desc, check, condition) for check, condition in CAUSES_OF_FAULTS.items())
        with pytest.raises(InvalidDescError):
            validate(desc, HIGHEST_FEATURE_LEVEL)


def test_devices_create_and_compile_what_is_accepted(device: Device) -> None:
    """No plan refuses what the rules accept; nothing is created of what they refuse."""
    for desc, _ in recorded():
        if find_violation(desc) is None:
            assert device.compile_operator(device.create_operator(desc)).desc == desc
        else:
            with pytest.raises(InvalidDescError):
                device.create_operator(desc)


def test_a_desc_of_no_known_operator_is_a_type_error() -> None:
    class UnknownOperatorDesc(OperatorDesc):
        operator_type = 1000  # type: ignore[assignment]

    with pytest.raises(TypeError, match="UnknownOperatorDesc"):
        find_violation(UnknownOperatorDesc())


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_valid_descs_are_accepted(desc: OperatorDesc) -> None:
    assert find_violation(desc) is None


U8, I8, F32, I32 = "UINT8", "INT8", "FLOAT32", "INT32"
SIZES = (2, 3, 4, 5)

# A desc, its changes, and the field and the check that refuse it.
REFUSED: list[tuple[OperatorDesc, dict[str, Any], str, Check]] = [
    # Every tensor on its own.
    (DYNAMIC, {"input_tensor": None}, "input_tensor", Check.PRESENCE),
    (DYNAMIC, {"output_zero_point_tensor": None}, "output_zero_point_tensor", Check.PRESENCE),
    (DYNAMIC, {"input_tensor": "FLOAT32"}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": np.zeros((4, 5), np.float32)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": TensorDesc(99, (4, 5))}, "input_tensor", Check.DATA_TYPE),  # type: ignore[arg-type]
    (DYNAMIC, {"input_tensor": TensorDesc("FLOAT32", (4, 5))}, "input_tensor", Check.DATA_TYPE),  # type: ignore[arg-type]
    (DYNAMIC, {"input_tensor": tensor("UNKNOWN", 4, 5)}, "input_tensor", Check.DATA_TYPE),
    (DYNAMIC, {"input_tensor": tensor("INT32", 4, 5)}, "input_tensor", Check.DATA_TYPE),
    (DYNAMIC, {"input_tensor": tensor(F32)}, "input_tensor", Check.DIMENSION_COUNT),
    (DYNAMIC, {"input_tensor": tensor(F32, *[1] * 9)}, "input_tensor", Check.DIMENSION_COUNT),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 0)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, -5)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 1, 2**32)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 10**5000)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": TensorDesc(TensorDataType.FLOAT32, None)}, "input_tensor", Check.FORM),  # type: ignore[arg-type]
    (DYNAMIC, {"input_tensor": TensorDesc(TensorDataType.FLOAT32, (4.0, 5))}, "input_tensor", Check.FORM),  # type: ignore[arg-type]
    (DYNAMIC, {"input_tensor": tensor(F32, 65536, 65536)}, "input_tensor", Check.SIZES),
    (DYNAMIC, {"input_tensor": tensor(F32, *[2**32 - 1] * 8)}, "input_tensor", Check.SIZES),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, strides=(5,))}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, strides=(5, -1))}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, strides=(2**32, 1))}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, strides=2)}, "input_tensor", Check.FORM),
    # The last element would have the index 2**32 - 1 + 4.
    (DYNAMIC, {"input_tensor": tensor(F32, 2, 5, strides=(2**32 - 1, 1))}, "input_tensor", Check.BUFFER_SIZE),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, flags=2)}, "input_tensor", Check.FLAGS),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, flags=-1)}, "input_tensor", Check.FLAGS),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, flags=None)}, "input_tensor", Check.FLAGS),
    (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, flags=TensorFlags.OWNED_BY_DML)}, "output_tensor", Check.FLAGS),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, total_tensor_size_in_bytes=79)}, "input_tensor", Check.BUFFER_SIZE),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, total_tensor_size_in_bytes=-1)}, "input_tensor", Check.BUFFER_SIZE),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, total_tensor_size_in_bytes=2**34)}, "input_tensor", Check.BUFFER_SIZE),
    (DYNAMIC, {"input_tensor": tensor(F32, 4, 5, total_tensor_size_in_bytes=80.0)}, "input_tensor", Check.FORM),
    *(
        (
            DYNAMIC,
            {"input_tensor": tensor(F32, 4, 5, guaranteed_base_offset_alignment=alignment)},
            "input_tensor",
            check,
        )
        for alignment, check in [
            (1, Check.ALIGNMENT),
            (8, Check.ALIGNMENT),
            (24, Check.ALIGNMENT),
            (-16, Check.FORM),
            (2**32, Check.FORM),
            (None, Check.FORM),
        ]
    ),
    # Outputs whose elements share addresses.
    (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, strides=(0, 1))}, "output_tensor", Check.OUTPUT_ADDRESSES),
    (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, strides=(4, 1))}, "output_tensor", Check.OUTPUT_ADDRESSES),
    (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, strides=(3, 3))}, "output_tensor", Check.OUTPUT_ADDRESSES),
    (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, strides=(2, 3))}, "output_tensor", Check.OUTPUT_ADDRESSES),
    # Tensors together.
    (DYNAMIC, {"output_tensor": tensor(I8, 4, 5)}, "output_zero_point_tensor", Check.DATA_TYPE),
    (DYNAMIC, {"output_tensor": tensor(U8, 5, 4)}, "output_tensor", Check.SIZES),
    (DYNAMIC, {"output_scale_tensor": tensor(F32, 1)}, "output_scale_tensor", Check.DIMENSION_COUNT),
    (DYNAMIC, {"output_scale_tensor": tensor(F32, 4, 1)}, "output_scale_tensor", Check.SIZES),
    (QUANTIZE, {"scale_tensor": tensor("FLOAT16", *SIZES)}, "scale_tensor", Check.DATA_TYPE),
    (QUANTIZE, {"input_tensor": tensor("FLOAT16", *SIZES)}, "scale_tensor", Check.DATA_TYPE),
    (QUANTIZE, {"zero_point_tensor": tensor(I8, *SIZES)}, "zero_point_tensor", Check.DATA_TYPE),
    (QUANTIZE, {"scale_tensor": tensor(F32, 1, 1, 1, 1)}, "scale_tensor", Check.SIZES),
    (QUANTIZE, {"scale_tensor": None}, "scale_tensor", Check.PRESENCE),
    (DEQUANTIZE, {"zero_point_tensor": tensor(I8, *SIZES)}, "zero_point_tensor", Check.DATA_TYPE),
    (DEQUANTIZE, {"output_tensor": tensor("FLOAT16", *SIZES)}, "output_tensor", Check.DATA_TYPE),
    (DEQUANTIZE, {"input_tensor": tensor("UINT4", *SIZES)}, "input_tensor", Check.DATA_TYPE),
    (ADD, {"b_tensor": tensor(I8, 1, 3)}, "b_tensor", Check.SIZES),
    (ADD, {"b_scale_tensor": tensor(F32, 1, 3)}, "b_scale_tensor", Check.SIZES),
    (ADD, {"b_scale_tensor": tensor(F32, 1)}, "b_scale_tensor", Check.DIMENSION_COUNT),
    (ADD, {"output_scale_tensor": None}, "output_scale_tensor", Check.PRESENCE),
    (ADD, {"b_zero_point_tensor": tensor(U8, 1, 1)}, "b_zero_point_tensor", Check.DATA_TYPE),
    # Convolution: arrays and numbers.
    (CONVOLUTION, {"strides": None}, "strides", Check.PRESENCE),
    (CONVOLUTION, {"end_padding": []}, "end_padding", Check.PRESENCE),
    *(
        (CONVOLUTION, {"end_padding": entries}, "end_padding", Check.FORM)
        for entries in (
            1,
            "11",
            (1, -1),
            (1, 2**32),
            (1.0, 1.0),
            (None, 1),
            {1, 2},
            ((1, 1), (1, 1)),
            itertools.count(),
        )
    ),
    (CONVOLUTION, {"dilations": (1,)}, "dilations", Check.ARRAY_LENGTH),
    (
        CONVOLUTION,
        dict.fromkeys(("strides", "dilations", "start_padding", "end_padding"), (1,)),
        "strides",
        Check.ARRAY_LENGTH,
    ),
    (CONVOLUTION, {"start_padding": (1, 1, 1)}, "start_padding", Check.ARRAY_LENGTH),
    *(
        (CONVOLUTION, {"group_count": number}, "group_count", Check.FORM)
        for number in (None, -1, 2**32, 1.5, "1", (1,))
    ),
    (CONVOLUTION, {"group_count": 0}, "group_count", Check.GROUPS),
    (CONVOLUTION, {"group_count": 4}, "group_count", Check.GROUPS),
    # 3 divides the 6 channels of the input but not the 4 of the output.
    (CONVOLUTION, {"group_count": 3}, "group_count", Check.GROUPS),
    # Pooling: arrays of exactly one entry for each spatial axis, and numbers.
    (POOLING, {"window_size": None}, "window_size", Check.PRESENCE),
    (POOLING, {"dilations": ()}, "dilations", Check.PRESENCE),
    (POOLING, {"window_size": 3}, "window_size", Check.FORM),
    (POOLING, {"window_size": (3, -1)}, "window_size", Check.FORM),
    (POOLING, {"end_padding": (1,)}, "end_padding", Check.ARRAY_LENGTH),
    (POOLING, {"window_size": (3, 3, 1)}, "window_size", Check.ARRAY_LENGTH),
    (
        POOLING,
        dict.fromkeys(("strides", "window_size", "start_padding", "end_padding", "dilations"), (1, 1, 1)),
        "strides",
        Check.ARRAY_LENGTH,
    ),
    *((POOLING, {"include_padding": value}, "include_padding", Check.FORM) for value in (None, -1, 0.0, "1", 2**32)),
    (POOLING, {"include_padding": 2}, "include_padding", Check.BOOLEAN),
    (POOLING, {"include_padding": 2**32 - 1}, "include_padding", Check.BOOLEAN),
    (POOLING, {"strides": (0, 1)}, "strides", Check.STEPS),
    (POOLING, {"window_size": (3, 0)}, "window_size", Check.STEPS),
    (POOLING, {"dilations": (1, 0)}, "dilations", Check.STEPS),
    (POOLING, {"window_size": (12, 3)}, "window_size", Check.WINDOW),
    (POOLING, {"window_size": (2**32 - 1, 2**32 - 1)}, "window_size", Check.WINDOW),
    (POOLING, {"dilations": (1, 5)}, "window_size", Check.WINDOW),
    (POOLING, {"window_size": (3, 2)}, "output_tensor", Check.OUTPUT_SIZES),
    (POOLING, {"dilations": (1, 1)}, "output_tensor", Check.OUTPUT_SIZES),
    (
        POOLING,
        {"output_tensor": tensor(U8, 2, 3, 5, 6, strides=(90, 30, 5, 1))},
        "output_tensor",
        Check.OUTPUT_ADDRESSES,
    ),
    # Pooling: tensors.
    (POOLING, {"input_tensor": tensor(U8, 2, 3, 9)}, "input_tensor", Check.DIMENSION_COUNT),
    (POOLING, {"output_tensor": tensor(U8, 2, 3, 5, 6, 1)}, "output_tensor", Check.DIMENSION_COUNT),
    (POOLING, {"output_tensor": tensor(U8, 1, 3, 5, 6)}, "output_tensor", Check.SIZES),
    (POOLING, {"output_tensor": tensor(U8, 2, 2, 5, 6)}, "output_tensor", Check.SIZES),
    (POOLING, {"output_tensor": tensor(I8, 2, 3, 5, 6)}, "output_tensor", Check.DATA_TYPE),
    (POOLING, {"input_zero_point_tensor": tensor(I8, 1, 3, 1, 1)}, "input_zero_point_tensor", Check.DATA_TYPE),
    (POOLING, {"output_zero_point_tensor": tensor(I8, 1, 1, 1, 1)}, "output_zero_point_tensor", Check.DATA_TYPE),
    (POOLING, {"input_scale_tensor": tensor("FLOAT16", 1, 3, 1, 1)}, "input_scale_tensor", Check.DATA_TYPE),
    (POOLING, {"output_scale_tensor": None}, "output_scale_tensor", Check.PRESENCE),
    (POOLING, {"input_zero_point_tensor": tensor(U8, 1, 1, 1, 1)}, "input_zero_point_tensor", Check.SIZES),
    (POOLING, {"output_scale_tensor": tensor(F32, 1)}, "output_zero_point_tensor", Check.SIZES),
    *(
        (
            POOLING,
            {"output_scale_tensor": tensor(F32, *sizes), "output_zero_point_tensor": tensor(U8, *sizes)},
            "output_scale_tensor",
            Check.PARAMETER_SIZES,
        )
        for sizes in ((1,), (1, 3), (1, 1, 1), (1, 3, 1, 1, 1), (3, 1, 1, 1), (1, 2, 1, 1), (1, 3, 1, 6), (2, 3, 5, 6))
    ),
    (CONVOLUTION, {"group_count": 1}, "filter_tensor", Check.GROUPS),
    (CONVOLUTION, {"strides": (0, 1)}, "strides", Check.STEPS),
    (CONVOLUTION, {"dilations": (1, 0)}, "dilations", Check.STEPS),
    (CONVOLUTION, {"dilations": (1, 5)}, "filter_tensor", Check.WINDOW),
    (CONVOLUTION, {"dilations": (2**32 - 1, 1)}, "filter_tensor", Check.WINDOW),
    (CONVOLUTION, {"dilations": (1, 1)}, "output_tensor", Check.OUTPUT_SIZES),
    (CONVOLUTION, {"start_padding": (2**32 - 1, 1)}, "output_tensor", Check.OUTPUT_SIZES),
    # Convolution: tensors.
    (CONVOLUTION, {"output_tensor": tensor(U8, 1, 4, 5, 7)}, "output_tensor", Check.OUTPUT_SIZES),
    (CONVOLUTION, {"output_tensor": tensor(U8, 2, 4, 5, 6)}, "output_tensor", Check.SIZES),
    (CONVOLUTION, {"output_tensor": tensor(U8, 1, 2, 5, 6)}, "output_tensor", Check.SIZES),
    (CONVOLUTION, {"filter_tensor": tensor(I8, 4, 3, 3)}, "filter_tensor", Check.DIMENSION_COUNT),
    (CONVOLUTION, {"input_tensor": tensor(U8, 1, 6, 9, 8, 1)}, "input_tensor", Check.DIMENSION_COUNT),
    (CONVOLUTION, {"input_zero_point_tensor": tensor(I8, 1, 1, 1, 1)}, "input_zero_point_tensor", Check.DATA_TYPE),
    (CONVOLUTION, {"input_scale_tensor": tensor(F32, 1, 6, 1, 1)}, "input_scale_tensor", Check.SIZES),
    (CONVOLUTION, {"input_scale_tensor": tensor(F32, 1)}, "input_zero_point_tensor", Check.SIZES),
    (CONVOLUTION, {"filter_scale_tensor": tensor(F32, 4, 1, 1, 1)}, "filter_scale_tensor", Check.SIZES),
    (CONVOLUTION, {"filter_scale_tensor": tensor(F32, 4)}, "filter_scale_tensor", Check.SIZES),
    (CONVOLUTION, {"filter_scale_tensor": tensor(F32, 1, 1, 1, 1)}, "filter_zero_point_tensor", Check.SIZES),
    (CONVOLUTION, {"filter_zero_point_tensor": tensor(U8, 1, 4, 1, 1)}, "filter_zero_point_tensor", Check.DATA_TYPE),
    (CONVOLUTION, {"bias_tensor": tensor(I32, 1, 1, 1, 1)}, "bias_tensor", Check.SIZES),
    (CONVOLUTION, {"bias_tensor": tensor(I32, 1, 4)}, "bias_tensor", Check.DIMENSION_COUNT),
    (CONVOLUTION, {"bias_tensor": tensor(F32, 1, 4, 1, 1)}, "bias_tensor", Check.DATA_TYPE),
    (CONVOLUTION, {"output_zero_point_tensor": tensor(U8, 1)}, "output_zero_point_tensor", Check.SIZES),
    (CONVOLUTION, {"output_zero_point_tensor": tensor(I8, 1, 1, 1, 1)}, "output_zero_point_tensor", Check.DATA_TYPE),
    (CONVOLUTION_INTEGER, {"output_tensor": tensor(U8, 1, 4, 5, 6)}, "output_tensor", Check.DATA_TYPE),
    (CONVOLUTION_INTEGER, {"output_tensor": tensor(I32, 1, 4, 5, 5)}, "output_tensor", Check.OUTPUT_SIZES),
    (CONVOLUTION_INTEGER, {"filter_tensor": None}, "filter_tensor", Check.PRESENCE),
    (CONVOLUTION_INTEGER, {"strides": None}, "strides", Check.PRESENCE),
    (CONVOLUTION_INTEGER, {"dilations": (0, 1)}, "dilations", Check.STEPS),
    (CONVOLUTION_INTEGER, {"dilations": (1, 5)}, "filter_tensor", Check.WINDOW),
    (
        CONVOLUTION_INTEGER,
        {"input_zero_point_tensor": tensor(U8, 1, 6, 1, 1)},
        "input_zero_point_tensor",
        Check.SIZES,
    ),
    (
        CONVOLUTION_INTEGER,
        {"filter_zero_point_tensor": tensor(I8, 4, 1, 1, 1)},
        "filter_zero_point_tensor",
        Check.SIZES,
    ),
    # Matrix products.
    (MATRIX_MULTIPLY_INTEGER, {"b_tensor": None}, "b_tensor", Check.PRESENCE),
    (MATRIX_MULTIPLY_INTEGER, {"a_tensor": tensor(U8, 7)}, "a_tensor", Check.DIMENSION_COUNT),
    (MATRIX_MULTIPLY_INTEGER, {"a_tensor": tensor(U8, 1, 2, 3, 5, 7)}, "a_tensor", Check.DIMENSION_COUNT),
    (MATRIX_MULTIPLY_INTEGER, {"output_tensor": tensor("FLOAT32", 2, 3, 5, 4)}, "output_tensor", Check.DATA_TYPE),
    (MATRIX_MULTIPLY_INTEGER, {"b_tensor": tensor(I8, 2, 3, 6, 4)}, "b_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"b_tensor": tensor(I8, 7, 4)}, "b_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"b_tensor": tensor(I8, 2, 1, 7, 4)}, "b_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"output_tensor": tensor(I32, 2, 3, 4, 5)}, "output_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"output_tensor": tensor(I32, 6, 5, 4)}, "output_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"a_zero_point_tensor": tensor(I8, 5, 1)}, "a_zero_point_tensor", Check.DATA_TYPE),
    (MATRIX_MULTIPLY_INTEGER, {"a_zero_point_tensor": tensor(U8, 5)}, "a_zero_point_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"a_zero_point_tensor": tensor(U8, 3, 5, 1)}, "a_zero_point_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_INTEGER, {"b_zero_point_tensor": tensor(I8, 4, 1)}, "b_zero_point_tensor", Check.SIZES),
    (
        MATRIX_MULTIPLY_INTEGER,
        {"output_tensor": tensor(I32, 2, 3, 5, 4, strides=(60, 20, 4, 0))},
        "output_tensor",
        Check.OUTPUT_ADDRESSES,
    ),
    (QUANTIZED_MATRIX_MULTIPLY, {"output_scale_tensor": None}, "output_scale_tensor", Check.PRESENCE),
    (QUANTIZED_MATRIX_MULTIPLY, {"a_scale_tensor": tensor(F32, 5, 1)}, "a_zero_point_tensor", Check.SIZES),
    (QUANTIZED_MATRIX_MULTIPLY, {"b_scale_tensor": tensor(F32, 5)}, "b_scale_tensor", Check.SIZES),
    (QUANTIZED_MATRIX_MULTIPLY, {"b_scale_tensor": tensor("FLOAT16", 4)}, "b_scale_tensor", Check.DATA_TYPE),
    (
        QUANTIZED_MATRIX_MULTIPLY,
        {"output_zero_point_tensor": tensor(U8, 5, 1)},
        "output_zero_point_tensor",
        Check.SIZES,
    ),
    (QUANTIZED_MATRIX_MULTIPLY, {"output_tensor": tensor(I8, 2, 3, 5, 4)}, "output_zero_point_tensor", Check.DATA_TYPE),
    (MATRIX_MULTIPLY_TO_FLOAT, {"bias_tensor": tensor(F32, 5, 4)}, "bias_tensor", Check.SIZES),
    (MATRIX_MULTIPLY_TO_FLOAT, {"bias_tensor": tensor("FLOAT16", 3, 5, 4)}, "bias_tensor", Check.DATA_TYPE),
    (MATRIX_MULTIPLY_TO_FLOAT, {"a_scale_tensor": tensor("FLOAT16", 5, 1)}, "a_scale_tensor", Check.SCALE_DATA_TYPE),
    (MATRIX_MULTIPLY_TO_FLOAT, {"b_scale_tensor": tensor("FLOAT16", 4)}, "b_scale_tensor", Check.SCALE_DATA_TYPE),
    (MATRIX_MULTIPLY_TO_FLOAT, {"a_tensor": tensor("FLOAT32", 3, 5, 7)}, "a_tensor", Check.DATA_TYPE),
    (MATRIX_MULTIPLY_TO_FLOAT, {"a_tensor": tensor("UINT16", 3, 5, 7)}, "a_zero_point_tensor", Check.DATA_TYPE),
    # Block-wise: the array of parameters, and how they cut the input.
    *(
        (BLOCK_QUANTIZE, {"quantization_type": given}, "quantization_type", Check.FORM)
        for given in (0, 3, -1, None, "SCALE", 1.0, (1,), 10**5000)
    ),
    (BLOCK_QUANTIZE, {"quantization_type": 1}, "quantization_tensors", Check.ARRAY_LENGTH),
    (BLOCK_DEQUANTIZE, {"quantization_tensors[1]": None}, "quantization_tensors", Check.ARRAY_LENGTH),
    (
        BLOCK_DEQUANTIZE,
        {"quantization_tensors": (*BLOCK_DEQUANTIZE.quantization_tensors, tensor(F32, 1, 1))},
        "quantization_tensors",
        Check.ARRAY_LENGTH,
    ),
    (BLOCK_QUANTIZE, {"quantization_tensors": None}, "quantization_tensors", Check.PRESENCE),
    (BLOCK_QUANTIZE, {"quantization_tensors": []}, "quantization_tensors[0]", Check.PRESENCE),
    (BLOCK_QUANTIZE, {"quantization_tensors": (tensor(F32, 1, 1), None)}, "quantization_tensors[1]", Check.PRESENCE),
    (BLOCK_QUANTIZE, {"quantization_tensors": (None, tensor(I8, 1, 1))}, "quantization_tensors[0]", Check.PRESENCE),
    *(
        (BLOCK_QUANTIZE, {"quantization_tensors": given}, "quantization_tensors", Check.FORM)
        for given in (tensor(F32, 1, 1), 1, "12", {1: 2}, itertools.count())
    ),
    (BLOCK_QUANTIZE, {"quantization_tensors": (1, 2)}, "quantization_tensors[0]", Check.FORM),
    (BLOCK_QUANTIZE, {"quantization_tensors[1]": np.zeros(3)}, "quantization_tensors[1]", Check.FORM),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor(F32, 0, 3)}, "quantization_tensors[0]", Check.FORM),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor(F32, 3, 3)}, "quantization_tensors[0]", Check.SIZES),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor(F32, 4, 24)}, "quantization_tensors[0]", Check.SIZES),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor(F32, 2, 1)}, "quantization_tensors[1]", Check.SIZES),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor(F32, 3)}, "quantization_tensors[0]", Check.DIMENSION_COUNT),
    (
        BLOCK_DEQUANTIZE,
        {"quantization_tensors[1]": tensor(U8, 4, 3, 1)},
        "quantization_tensors[1]",
        Check.DIMENSION_COUNT,
    ),
    (BLOCK_QUANTIZE, {"quantization_tensors[0]": tensor("FLOAT16", 2, 3)}, "quantization_tensors[0]", Check.DATA_TYPE),
    (BLOCK_QUANTIZE, {"quantization_tensors[1]": tensor("INT4", 2, 3)}, "quantization_tensors[1]", Check.DATA_TYPE),
    (BLOCK_QUANTIZE, {"output_tensor": tensor("INT4", 4, 12)}, "quantization_tensors[1]", Check.DATA_TYPE),
    (BLOCK_DEQUANTIZE, {"output_tensor": tensor("FLOAT16", 4, 12)}, "output_tensor", Check.DATA_TYPE),
    (BLOCK_DEQUANTIZE, {"input_tensor": tensor("INT16", 4, 12)}, "input_tensor", Check.DATA_TYPE),
    (BLOCK_QUANTIZE, {"input_tensor": tensor(F32, 4, 6)}, "output_tensor", Check.SIZES),
    (BLOCK_QUANTIZE, {"output_tensor": tensor(I8, 4, 12, strides=(4, 1))}, "output_tensor", Check.OUTPUT_ADDRESSES),
    # 2**31 bytes hold 2**32 elements of 4 bits.
    (
        BLOCK_DEQUANTIZE,
        {"input_tensor": tensor("UINT4", 4, 12, total_tensor_size_in_bytes=2**31)},
        "input_tensor",
        Check.BUFFER_SIZE,
    ),
]


@pytest.mark.parametrize(("desc", "changes", "field", "check"), REFUSED)
@pytest.mark.parametrize("level", [FeatureLevel.LEVEL_1_0, FeatureLevel.LEVEL_6_4], ids=lambda level: level.name)
def test_a_refusal_names_the_field(
    desc: OperatorDesc, changes: dict[str, Any], field: str, check: Check, level: FeatureLevel
) -> None:
    bad = changed(desc, **changes)
    violation = find_violation(bad)
    assert violation is not None
    assert (violation.field, violation.check) == (field, check)
    with pytest.raises(
        InvalidDescError, match=f"^{desc.operator_type.name}: {re.escape(field)}: got .*, expected "
    ) as caught:
        validate(bad, level)
    assert (caught.value.operator, caught.value.field) == (desc.operator_type, field)
    assert caught.value.hresult == 0x80070057
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("desc", "changes"),
    [
        # Anything goes for the layout of an input.
        (QUANTIZE, {"input_tensor": tensor(F32, *SIZES, strides=(0, 0, 0, 0))}),
        (QUANTIZE, {"input_tensor": tensor(F32, *SIZES, strides=(1, 1, 1, 1), flags=1)}),
        (QUANTIZE, {"output_tensor": tensor(U8, *SIZES, strides=(90, 1, 15, 3))}),
        # 4 steps of 3 would meet 3 steps of 4, but there are only 3.
        (DYNAMIC, {"output_tensor": tensor(U8, 4, 5, strides=(3, 4))}),
        # The size need not be a multiple of 4, and 2**34 - 1 bytes hold 2**32 - 1 whole elements.
        (QUANTIZE, {"input_tensor": tensor(F32, *SIZES, total_tensor_size_in_bytes=481)}),
        (QUANTIZE, {"input_tensor": tensor(F32, *SIZES, total_tensor_size_in_bytes=2**34 - 1)}),
        (QUANTIZE, {"output_tensor": tensor(U8, *SIZES, guaranteed_base_offset_alignment=2**31)}),
        # Surplus entries may hold anything.
        (
            CONVOLUTION,
            {"strides": (2, 1, 0), "dilations": (1, 2, 0), "start_padding": (1, 1, 9), "end_padding": (1, 1, 9)},
        ),
        (CONVOLUTION, {"filter_scale_tensor": tensor(F32, 1, 4), "filter_zero_point_tensor": None}),
        (CONVOLUTION, {"bias_tensor": tensor(I32, 1, 4, 1)}),
        (CONVOLUTION, {"bias_tensor": None, "input_zero_point_tensor": None, "output_zero_point_tensor": None}),
        (CONVOLUTION, {"output_tensor": tensor(U8, 1, 4, 5, 6, strides=(0, 1, 24, 4))}),
        (POOLING, {"include_padding": True, "input_zero_point_tensor": None, "output_zero_point_tensor": None}),
        (POOLING, {"input_tensor": tensor(U8, 2, 3, 9, 8, strides=(0, 0, 0, 0))}),
        # Matrices of different ranks, and parameters of others.
        (
            MATRIX_MULTIPLY_INTEGER,
            {
                "a_tensor": tensor(U8, 5, 7),
                "a_zero_point_tensor": tensor(U8, 1),
                "b_tensor": tensor(I8, 1, 7, 4),
                "b_zero_point_tensor": tensor(I8, 4),
                "output_tensor": tensor(I32, 1, 1, 5, 4),
            },
        ),
        (QUANTIZED_MATRIX_MULTIPLY, {"a_tensor": tensor(I8, 2, 3, 5, 7), "a_zero_point_tensor": None}),
        (
            MATRIX_MULTIPLY_TO_FLOAT,
            {"a_tensor": tensor("INT32", 3, 5, 7), "a_zero_point_tensor": tensor("INT32", 1, 5, 1)}
            | {"a_scale_tensor": tensor(F32, 1, 5, 1)},
        ),
    ],
)
def test_what_looks_odd_and_is_accepted(desc: OperatorDesc, changes: dict[str, Any]) -> None:
    assert find_violation(changed(desc, **changes)) is None


@pytest.mark.parametrize(
    ("desc", "changes", "message"),
    [
        (
            CONVOLUTION,
            {"output_tensor": tensor(U8, 1, 4, 5, 7)},
            "QUANTIZED_LINEAR_CONVOLUTION: output_tensor: got sizes (1, 4, 5, 7), expected (1, 4, 5, 6): (padded "
            "input - dilated window) // stride + 1 on each spatial axis (elements of the output would lie outside what "
            "the input defines, or be left out)",
        ),
        (
            CONVOLUTION,
            {"filter_scale_tensor": tensor(F32, 4)},
            "QUANTIZED_LINEAR_CONVOLUTION: filter_scale_tensor: got sizes (4,), expected one element or sizes "
            "(1, 4, 1, ...), a value for each channel of output_tensor.sizes[1]",
        ),
        (
            POOLING,
            {"input_scale_tensor": tensor(F32, 1), "input_zero_point_tensor": None},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: input_scale_tensor: got sizes (1,), expected (1, 1, 1, 1) or (1, 3, 1, "
            "1), a value for each channel of input_tensor (its elements would belong to no channel)",
        ),
        (
            POOLING,
            {"include_padding": 3},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: include_padding: got 3, expected 0 or 1 (a boolean has no other values)",
        ),
        (
            QUANTIZE,
            {"input_tensor": TensorDesc(TensorDataType.INT8, (10**30, -1, None))},  # type: ignore[arg-type]
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got sizes (an integer of 100 bits, -1, None), expected a "
            "sequence of integers from 1 to 2**32 - 1",
        ),
        (
            DYNAMIC,
            {"output_tensor": tensor(U8, 4, 5, strides=(4, 1))},
            "DYNAMIC_QUANTIZE_LINEAR: output_tensor: got strides (4, 1) of sizes (4, 5), expected strides that give "
            "each element an address of its own (the result would depend on the order of writing)",
        ),
    ],
)
def test_messages_say_what_came_and_what_is_expected(desc: OperatorDesc, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDescError) as caught:
        validate(changed(desc, **changes), FeatureLevel.LEVEL_6_4)
    assert str(caught.value) == message


@pytest.mark.parametrize("nonsense", [None, 3, "desc", QUANTIZE.input_tensor, type(QUANTIZE), {}])
def test_what_is_not_a_desc_is_a_type_error(nonsense: Any) -> None:
    with pytest.raises(TypeError, match="expected an operator's desc"):
        validate(nonsense, FeatureLevel.LEVEL_6_4)
    with pytest.raises(TypeError, match="expected an operator's desc"):
        find_violation(nonsense)


def test_an_unknown_feature_level_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="FeatureLevel"):
        validate(QUANTIZE, 0x7000)  # type: ignore[arg-type]


class Hostile:
    """Raises whatever is done with it."""

    def refuse(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    __index__ = __int__ = __iter__ = __len__ = __eq__ = __hash__ = __bool__ = __repr__ = __str__ = refuse
    __lt__ = __gt__ = __le__ = __ge__ = __getitem__ = __contains__ = __and__ = __mul__ = refuse


NUMBERS = st.one_of(
    st.integers(-2, 9),
    st.sampled_from([15, 16, 24, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**40), 10**30]),
    # Too long to be printed, by hypothesis too.
    st.builds(pow, st.just(10), st.just(5000)),
    st.integers(0, 2**33),
)
ODDITIES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.builds(Hostile),
    st.builds(itertools.count),
    st.builds(iter, st.lists(NUMBERS, max_size=3)),
    st.sampled_from([np.uint8(3), np.float32(2), np.array(2), np.array([[1, 2]]), np.zeros(0), range(10**12), object]),
    st.builds(lambda: np.broadcast_to(np.int64(1), 10**9)),
    st.dictionaries(NUMBERS, NUMBERS, max_size=2),
    st.sets(NUMBERS, max_size=2),
)
SEQUENCES = st.lists(st.one_of(NUMBERS, NUMBERS, NUMBERS, ODDITIES), max_size=10)
ANYTHING = st.one_of(NUMBERS, ODDITIES, SEQUENCES, SEQUENCES.map(tuple))
DATA_TYPES = st.one_of(st.sampled_from(TensorDataType), st.sampled_from(TensorDataType), ANYTHING)
TENSORS: st.SearchStrategy[Any] = st.builds(
    TensorDesc,
    DATA_TYPES,
    st.one_of(SEQUENCES, ANYTHING),
    strides=st.one_of(st.none(), SEQUENCES, ANYTHING),
    flags=st.one_of(st.integers(-1, 2), ANYTHING),
    total_tensor_size_in_bytes=st.one_of(st.none(), ANYTHING),
    guaranteed_base_offset_alignment=st.one_of(st.just(0), ANYTHING),
)


def nearly(value: Any) -> st.SearchStrategy[Any]:
    """A tensor desc with one of its arguments replaced, or anything."""
    if not isinstance(value, TensorDesc):
        return st.one_of(ANYTHING, TENSORS)
    arguments = {field.name: getattr(value, field.name) for field in fields(value)}
    replaced = st.tuples(st.sampled_from(sorted(arguments)), ANYTHING).map(lambda change: arguments | dict([change]))
    return st.one_of(replaced.map(lambda changed_arguments: TensorDesc(**changed_arguments)), TENSORS, ANYTHING)


@st.composite
def nonsense_descs(draw: st.DrawFn) -> OperatorDesc:
    """A valid desc with some fields, often a few, seldom all, replaced by anything at all."""
    desc = draw(st.sampled_from(list(VALID_DESCS.values())))
    names = [field.name for field in fields(desc)]
    replaced = draw(st.one_of(st.lists(st.sampled_from(names), max_size=2), st.just(names)))
    return changed(desc, **{name: draw(nearly(getattr(desc, name))) for name in replaced})


@settings(max_examples=max(200, settings().max_examples))
@given(desc=nonsense_descs(), level=st.sampled_from(FeatureLevel))
def test_nonsense_is_refused_with_a_reason_and_never_anything_else(desc: OperatorDesc, level: FeatureLevel) -> None:
    refusal: InvalidDescError | UnsupportedFeatureLevelError
    try:
        validate(desc, level)
    except (InvalidDescError, UnsupportedFeatureLevelError) as error:
        refusal = error
    else:
        return
    names: list[str | None] = [field.name for field in OPERATORS[desc.operator_type].fields]
    assert refusal.operator is desc.operator_type
    assert refusal.field in (names if isinstance(refusal, InvalidDescError) else [None, *names])
    assert len(str(refusal)) < 400
