"""What no level accepts: a desc of each operator with one thing wrong is refused, by the field and the check."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import FeatureLevel, TensorDataType, TensorFlags
from dmlcpu.errors import InvalidDescError
from dmlcpu.schema import Check
from dmlcpu.tensor import TensorDesc
from dmlcpu.validation import find_violation, validate
from operator_samples import (
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
    changed,
    tensor,
)

U8, I8, F32, I32 = "UINT8", "INT8", "FLOAT32", "INT32"
SIZES = (2, 3, 4, 5)

# A desc, its changes, and the field and the check that refuse it.
REFUSED: list[tuple[OperatorDesc, dict[str, Any], str, Check]] = [
    # Every tensor on its own.
    (DYNAMIC, {"input_tensor": None}, "input_tensor", Check.PRESENCE),
    (DYNAMIC, {"output_zero_point_tensor": None}, "output_zero_point_tensor", Check.PRESENCE),
    (DYNAMIC, {"input_tensor": "FLOAT32"}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": np.zeros((4, 5), np.float32)}, "input_tensor", Check.FORM),
    (DYNAMIC, {"input_tensor": TensorDesc(99, (4, 5))}, "input_tensor", Check.DATA_TYPE),
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
