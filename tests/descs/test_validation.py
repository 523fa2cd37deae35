"""The checker of descs: what looks odd and is accepted, what a refusal says, and what is no desc at all."""

from __future__ import annotations

from typing import Any

import pytest

from dmlcpu.coercion import coerce_member
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import ExecutionFlags, FeatureLevel, TensorDataType
from dmlcpu.errors import InvalidDescError
from dmlcpu.tensor import TensorDesc
from dmlcpu.validation import find_violation, validate
from operator_samples import (
    BLOCK_DEQUANTIZE,
    CONVOLUTION,
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
            "(1,), a value for each channel, output_tensor.sizes[1] = 4",
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
            QUANTIZE,
            {"input_tensor": TensorDesc(TensorDataType.INT8, (-4,))},
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got sizes (-4,), expected a sequence of integers from 1 to "
            "2**32 - 1",
        ),
        (
            QUANTIZE,
            {"input_tensor": TensorDesc(TensorDataType.FLOAT32, (4,), strides=(1, 1))},
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got strides (1, 1), expected None or 1 integer from 0 to "
            "2**32 - 1, one for each size",
        ),
        (
            QUANTIZE,
            {"input_tensor": TensorDesc(TensorDataType.INT8, [1] * 5000)},
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got sizes a list of length 5000, expected a sequence of "
            "integers from 1 to 2**32 - 1",
        ),
        (
            QUANTIZE,
            {"input_tensor": [0] * 4},
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got a sequence of length 4, expected a TensorDesc",
        ),
        (
            POOLING,
            {"include_padding": "yes"},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: include_padding: got 'yes', expected a boolean, 0 or 1",
        ),
        (
            POOLING,
            {"strides": (1, 0)},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: strides: got 0 along spatial axis 1, expected at least 1 "
            "(the size of the output would not be defined)",
        ),
        (
            POOLING,
            {"window_size": (1,)},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: window_size: got 1 entry, expected 2, one for each spatial axis of "
            "input_tensor",
        ),
        (
            BLOCK_DEQUANTIZE,
            {"quantization_type": 2, "quantization_tensors": BLOCK_DEQUANTIZE.quantization_tensors[:1]},
            "DEQUANTIZE: quantization_tensors: got 1 tensor, expected 2, as quantization_type says",
        ),
        (
            POOLING,
            {"strides": (-1, 1)},
            "QUANTIZED_LINEAR_AVERAGE_POOLING: strides: got (-1, 1), expected a sequence of unsigned 32-bit integers",
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


def test_a_desc_of_no_known_operator_is_a_type_error() -> None:
    class UnknownOperatorDesc(OperatorDesc):
        operator_type = 1000  # type: ignore[assignment]

    with pytest.raises(TypeError, match="UnknownOperatorDesc"):
        find_violation(UnknownOperatorDesc())


@pytest.mark.parametrize("nonsense", [None, 3, "desc", QUANTIZE.input_tensor, type(QUANTIZE), {}])
def test_what_is_not_a_desc_is_a_type_error(nonsense: Any) -> None:
    with pytest.raises(TypeError, match="expected an operator's desc"):
        validate(nonsense, FeatureLevel.LEVEL_6_4)
    with pytest.raises(TypeError, match="expected an operator's desc"):
        find_violation(nonsense)


def test_an_unknown_feature_level_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="FeatureLevel"):
        validate(QUANTIZE, 0x7000)  # type: ignore[arg-type]


def test_combinations_of_flags_are_flags() -> None:
    """Whatever number they are given as; a number of others stays one."""
    for number in range(sum(ExecutionFlags) + 1):
        assert type(coerce_member(ExecutionFlags, number)) is ExecutionFlags
    assert type(coerce_member(ExecutionFlags, sum(ExecutionFlags) + 1)) is int
