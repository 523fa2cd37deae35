"""What the functions refuse: always an exception of dmlcpu that names what is wrong, and nothing is written."""

from __future__ import annotations

import decimal
import fractions
import itertools
from typing import Any

import numpy as np
import pytest

import dmlcpu
from argument_forms import Hostile, anything
from dmlcpu import BindingError, InvalidDescError, TensorDataType

X = np.float32([[1, 2, 3], [4, 5, 6]])
CODES = np.uint8([[1, 2, 3], [4, 5, 6]])
IMAGE = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
FILTER = np.ones((3, 2, 2, 2), np.int8)
READ_ONLY = np.zeros((2, 3), np.uint8)
READ_ONLY.flags.writeable = False
NONE = np.ones(0, np.float32)

GOOD: dict[str, dict[str, Any]] = {
    "quantize_linear": {"input": X, "scale": 0.5, "zero_point": 3},
    "dequantize_linear": {"input": CODES, "scale": 0.5, "zero_point": 3},
    "quantize": {"input": X, "scale": 0.5, "zero_point": 3},
    "dequantize": {"input": CODES, "scale": 0.5, "zero_point": 3},
    "dynamic_quantize_linear": {"input": X},
    "quantized_linear_add": {
        **{"a": CODES, "a_scale": 0.5, "a_zero_point": 1, "b": CODES, "b_scale": 0.5, "b_zero_point": 2},
        **{"output_scale": 0.5, "output_zero_point": 3},
    },
    "quantized_linear_convolution": {
        **{"input": IMAGE, "input_scale": 0.5, "input_zero_point": 1, "filter": FILTER, "filter_scale": 0.5},
        **{"filter_zero_point": 1, "bias": np.int32([1, 2, 3]), "output_scale": 9.0, "output_zero_point": 3},
    },
    "convolution_integer": {"input": IMAGE, "input_zero_point": 1, "filter": FILTER, "filter_zero_point": 1},
    "matrix_multiply_integer": {"a": CODES, "a_zero_point": 1, "b": CODES.T, "b_zero_point": 2},
    "quantized_linear_matrix_multiply": {
        **{"a": CODES, "a_scale": 0.5, "a_zero_point": 1, "b": CODES.T, "b_scale": 0.5, "b_zero_point": 2},
        **{"output_scale": 0.5, "output_zero_point": 3},
    },
    "matrix_multiply_integer_to_float": {
        **{"a": CODES, "a_scale": 0.5, "a_zero_point": 1, "b": CODES.T, "b_scale": 0.5, "b_zero_point": 2},
        **{"bias": np.float32([1, 2])},
    },
    "quantized_linear_average_pooling": {
        **{"input": IMAGE, "input_scale": 0.5, "input_zero_point": 1, "output_scale": 0.5, "output_zero_point": 3},
        "window_size": 2,
    },
}


def call(function: str, **changes: Any) -> Any:
    return getattr(dmlcpu, function)(**{**GOOD[function], **changes})


each_function = pytest.mark.parametrize("function", list(GOOD))


@each_function
def test_the_good_arguments_are_good(function: str) -> None:
    call(function)


WRONG: list[tuple[str, dict[str, Any], type[dmlcpu.DmlError], str]] = [
    # No arrays.
    ("quantize_linear", {"input": "1"}, BindingError, "input_tensor"),
    ("quantize_linear", {"input": b"1"}, BindingError, "input_tensor"),
    ("quantize_linear", {"input": [[1, 2], [3]]}, BindingError, "input_tensor"),
    ("quantize_linear", {"input": X.astype(object)}, BindingError, "input_tensor"),
    ("quantize_linear", {"input": X.astype(">f4")}, BindingError, "input_tensor"),
    ("quantize_linear", {"input": X > 1}, BindingError, "input_tensor"),
    ("quantize_linear", {"scale": X.astype(complex)}, BindingError, "scale_tensor"),
    ("dequantize_linear", {"scale": 1j}, BindingError, "scale_tensor"),
    ("dequantize_linear", {"scale": np.array(True)}, BindingError, "scale_tensor"),
    ("dequantize_linear", {"zero_point": "3"}, BindingError, "zero_point_tensor"),
    ("quantized_linear_add", {"b": {}}, BindingError, "b_tensor"),
    ("quantized_linear_add", {"b_scale": decimal.Decimal("0.5")}, BindingError, "b_scale_tensor"),
    ("quantized_linear_add", {"b_scale": fractions.Fraction(1, 2)}, BindingError, "b_scale_tensor"),
    ("quantized_linear_convolution", {"bias": Hostile()}, BindingError, "bias_tensor"),
    ("quantized_linear_convolution", {"filter": ["a"]}, BindingError, "filter_tensor"),
    # Other types: nothing is cast.
    ("quantize_linear", {"input": [[1.0, 2.0]]}, InvalidDescError, "input_tensor"),
    ("quantize_linear", {"input": X.astype(np.float64)}, InvalidDescError, "input_tensor"),
    ("quantize_linear", {"input": CODES, "scale": 0.1, "zero_point": 0}, InvalidDescError, "input_tensor"),
    ("quantize_linear", {"input": CODES.astype(np.int64), "scale": 0.1}, InvalidDescError, "input_tensor"),
    ("quantize_linear", {"scale": np.float64(0.5)}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": [np.float64(0.5)]}, InvalidDescError, "scale_tensor"),
    ("quantize_linear", {"scale": np.float16([0.5])}, InvalidDescError, "scale_tensor"),
    ("quantize_linear", {"zero_point": np.int16(3)}, BindingError, "zero_point_tensor"),
    ("dequantize_linear", {"input": X}, InvalidDescError, "input_tensor"),
    ("dequantize_linear", {"scale": np.float64(0.5)}, BindingError, "scale_tensor"),
    ("dequantize_linear", {"zero_point": np.int8(3)}, BindingError, "zero_point_tensor"),
    ("dynamic_quantize_linear", {"input": CODES}, InvalidDescError, "input_tensor"),
    ("quantized_linear_add", {"a": X}, InvalidDescError, "a_tensor"),
    ("quantized_linear_add", {"a_zero_point": np.int8(1)}, BindingError, "a_zero_point_tensor"),
    ("quantized_linear_convolution", {"input": IMAGE.astype(np.int16)}, InvalidDescError, "input_tensor"),
    ("quantized_linear_convolution", {"bias": np.float32([1, 2, 3])}, InvalidDescError, "bias_tensor"),
    # Absent ones that are required.
    *(
        (function, {name: None}, InvalidDescError, f"{name}_tensor")
        for function, arguments in GOOD.items()
        for name in ("input", "filter", "a", "b")
        if name in arguments
    ),
    ("quantize_linear", {"scale": None}, InvalidDescError, "scale_tensor"),
    ("quantized_linear_add", {"output_scale": None}, InvalidDescError, "output_scale_tensor"),
    ("quantized_linear_convolution", {"filter_scale": None}, InvalidDescError, "filter_scale_tensor"),
    ("quantize", {"scale": None}, InvalidDescError, "quantization_tensors[0]"),
    ("dequantize", {"scale": None, "zero_point": None}, InvalidDescError, "quantization_tensors[0]"),
    # Numbers out of range.
    ("quantize_linear", {"zero_point": 256}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": -1}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": 3.0}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": float("nan")}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": float("inf")}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": 10**5000}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"scale": 10**5000}, BindingError, "scale_tensor"),
    ("dequantize_linear", {"zero_point": 256}, BindingError, "zero_point_tensor"),
    ("quantized_linear_convolution", {"bias": 2**31}, BindingError, "bias_tensor"),
    ("quantize_linear", {"scale": 1e39}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": 10**39}, BindingError, "scale_tensor"),
    ("quantize_linear", {"input": X.astype(np.float16), "scale": 65520.0}, BindingError, "scale_tensor"),
    ("quantize_linear", {"input": X.astype(np.float16), "scale": [1, 2, 65520]}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": [1, 1e39, 2]}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": 1e-46}, BindingError, "scale_tensor"),
    ("quantize_linear", {"input": X.astype(np.float16), "scale": 1e-8}, BindingError, "scale_tensor"),
    ("quantize_linear", {"input": X.astype(np.float16), "scale": [1, -2e-8, 2]}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": (1, 10**5000, 2)}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": [[1, 2], [3]]}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": []}, BindingError, "scale_tensor"),
    ("quantize_linear", {"zero_point": [1, 2, 256]}, BindingError, "zero_point_tensor"),
    ("quantize_linear", {"zero_point": [1, 2.0, 3]}, BindingError, "zero_point_tensor"),
    ("quantized_linear_convolution", {"bias": [1, 2, 2**31]}, BindingError, "bias_tensor"),
    (
        "quantize",
        {"zero_point": [3], "output_data_type": TensorDataType.UINT4},
        BindingError,
        "quantization_tensors[1]",
    ),
    # Shapes.
    ("quantize_linear", {"scale": np.float32([1, 2])}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": 0}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": 2}, BindingError, "axis"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": -3}, BindingError, "axis"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": "1"}, BindingError, "axis"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": 1.0}, BindingError, "axis"),
    ("quantize_linear", {"scale": np.float32([1, 2, 3]), "axis": None}, BindingError, "axis"),
    ("quantize_linear", {"axis": 99}, BindingError, "axis"),
    ("quantize_linear", {"axis": -3}, BindingError, "axis"),
    ("quantize_linear", {"axis": 10**5000}, BindingError, "axis"),
    ("quantize_linear", {"axis": Hostile()}, BindingError, "axis"),
    ("dequantize_linear", {"axis": "x"}, BindingError, "axis"),
    ("dequantize_linear", {"axis": 2, "input": CODES[0]}, BindingError, "axis"),
    ("dequantize_linear", {"axis": 0, "input": CODES[0, 0]}, BindingError, "axis"),
    ("quantize_linear", {"scale": np.ones((2, 2), np.float32)}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": np.ones((1, 2, 3), np.float32)}, BindingError, "scale_tensor"),
    ("quantize_linear", {"scale": np.ones((0,), np.float32)}, BindingError, "scale_tensor"),
    ("quantize_linear", {"input": np.ones((2, 0), np.float32)}, InvalidDescError, "input_tensor"),
    ("quantize_linear", {"input": np.ones((1,) * 9, np.float32)}, InvalidDescError, "input_tensor"),
    ("dynamic_quantize_linear", {"input": np.ones((0,), np.float32)}, InvalidDescError, "input_tensor"),
    ("dynamic_quantize_linear", {"input": np.ones((1,) * 9, np.float32)}, InvalidDescError, "input_tensor"),
    ("quantized_linear_add", {"b": CODES[:, :2]}, BindingError, "b_tensor"),
    ("quantized_linear_add", {"a_scale": np.float32([1, 2])}, BindingError, "a_scale_tensor"),
    ("quantized_linear_add", {"output_zero_point": np.zeros((0,), np.uint8)}, BindingError, "output_zero_point_tensor"),
    ("quantized_linear_convolution", {"input_scale": np.float32([1, 2])}, BindingError, "input_scale_tensor"),
    ("quantized_linear_convolution", {"filter_scale": np.float32([1, 2])}, BindingError, "filter_scale_tensor"),
    ("quantized_linear_convolution", {"filter_zero_point": np.int8([1, 2])}, BindingError, "filter_zero_point_tensor"),
    ("quantized_linear_convolution", {"bias": np.int32([1, 2, 3, 4])}, BindingError, "bias_tensor"),
    ("quantized_linear_convolution", {"bias": np.int32([[1, 2, 3]])}, BindingError, "bias_tensor"),
    (
        "quantized_linear_convolution",
        {"filter_scale": np.ones((1, 1, 3, 1), np.float32)},
        BindingError,
        "filter_scale_tensor",
    ),
    ("quantized_linear_convolution", {"bias": 5}, BindingError, "bias_tensor"),
    ("quantized_linear_convolution", {"input": CODES}, InvalidDescError, "input_tensor"),
    ("quantized_linear_convolution", {"input": np.uint8(3)}, InvalidDescError, "input_tensor"),
    ("quantized_linear_convolution", {"filter": FILTER[0], "bias": None}, InvalidDescError, "filter_tensor"),
    (
        "quantized_linear_convolution",
        {"filter": np.ones((0, 2, 2, 2), np.int8), "bias": None},
        InvalidDescError,
        "filter_tensor",
    ),
    ("quantized_linear_convolution", {"filter": np.ones((3, 1, 2, 2), np.int8)}, InvalidDescError, "filter_tensor"),
    ("quantized_linear_convolution", {"filter": np.ones((3, 2, 5, 2), np.int8)}, InvalidDescError, "filter_tensor"),
    # Neither rows, columns nor channels, and as few parameters for each.
    ("quantized_linear_matrix_multiply", {"a": CODES[:0], "a_scale": NONE}, InvalidDescError, "a_tensor"),
    ("quantized_linear_matrix_multiply", {"b": CODES.T[:, :0], "b_scale": NONE}, InvalidDescError, "b_tensor"),
    ("quantized_linear_matrix_multiply", {"b_scale": NONE}, BindingError, "b_scale_tensor"),
    ("matrix_multiply_integer_to_float", {"a": CODES[:0], "a_scale": NONE}, InvalidDescError, "a_tensor"),
    (
        "quantized_linear_convolution",
        {"filter": FILTER[:0], "filter_scale": NONE, "bias": None},
        InvalidDescError,
        "filter_tensor",
    ),
    (
        "quantized_linear_average_pooling",
        {"input": IMAGE[:, :0], "input_scale": NONE},
        InvalidDescError,
        "input_tensor",
    ),
    (
        "quantized_linear_average_pooling",
        {"input": IMAGE[:, :0], "output_scale": NONE},
        InvalidDescError,
        "input_tensor",
    ),
    # Attributes.
    ("quantized_linear_convolution", {"strides": 0}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": -1}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": (1,)}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": ()}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": None}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": 1.0}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": (1.0, 1.0)}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": "11"}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": {1}}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": itertools.repeat(1)}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"strides": (1, 1, 1), "dilations": (1, 1)}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"start_padding": (1, 2, 3, 4)}, InvalidDescError, "start_padding"),
    ("quantized_linear_convolution", {"input": CODES, "strides": (1, 1)}, InvalidDescError, "input_tensor"),
    ("convolution_integer", {"dilations": (1, 1, 1)}, InvalidDescError, "dilations"),
    ("quantized_linear_convolution", {"strides": ((1,), (1,))}, InvalidDescError, "strides"),
    ("quantized_linear_convolution", {"dilations": 0}, InvalidDescError, "dilations"),
    ("quantized_linear_convolution", {"dilations": 4}, InvalidDescError, "filter_tensor"),
    ("quantized_linear_convolution", {"dilations": 2**32 - 1}, InvalidDescError, "filter_tensor"),
    ("quantized_linear_convolution", {"start_padding": 2**32 - 1}, InvalidDescError, "output_tensor"),
    ("quantized_linear_convolution", {"start_padding": 2**31}, InvalidDescError, "output_tensor"),
    ("quantized_linear_convolution", {"start_padding": 2**32}, InvalidDescError, "start_padding"),
    ("quantized_linear_convolution", {"end_padding": 10**5000}, InvalidDescError, "end_padding"),
    ("quantized_linear_convolution", {"end_padding": -1}, InvalidDescError, "end_padding"),
    ("quantized_linear_convolution", {"group_count": 0}, InvalidDescError, "group_count"),
    ("quantized_linear_convolution", {"group_count": 2}, InvalidDescError, "group_count"),
    ("quantized_linear_convolution", {"group_count": 1.0}, InvalidDescError, "group_count"),
    ("quantized_linear_convolution", {"group_count": [1]}, InvalidDescError, "group_count"),
    ("quantized_linear_convolution", {"group_count": {}}, InvalidDescError, "group_count"),
    # The type of the output.
    ("quantize_linear", {"output_data_type": TensorDataType.UNKNOWN}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": TensorDataType.FLOAT32}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": 99}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": 10**5000}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": "UINT8"}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": np.uint8}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"output_data_type": []}, InvalidDescError, "output_tensor"),
    ("dequantize_linear", {"output_data_type": TensorDataType.FLOAT64}, InvalidDescError, "output_tensor"),
    ("dynamic_quantize_linear", {"output_data_type": TensorDataType.INT16}, InvalidDescError, "output_tensor"),
    # Outputs.
    ("quantize_linear", {"out": [[0] * 3] * 2}, BindingError, "output_tensor"),
    ("quantize_linear", {"out": np.zeros((2, 3), np.int32)}, BindingError, "output_tensor"),
    ("quantize_linear", {"out": np.zeros((3, 2), np.uint8)}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"out": np.zeros((2, 3), np.uint8)[::-1]}, BindingError, "output_tensor"),
    ("quantize_linear", {"out": np.broadcast_to(np.uint8(0), (2, 3))}, InvalidDescError, "output_tensor"),
    ("quantize_linear", {"out": READ_ONLY}, BindingError, "output_tensor"),
    ("quantize_linear", {"out": X.view(np.uint8)[:, :3]}, BindingError, "output_tensor"),
    ("quantize_linear", {"out": CODES > 3}, BindingError, "output_tensor"),
    ("dequantize_linear", {"out": 5}, BindingError, "output_tensor"),
    ("dequantize_linear", {"out": np.zeros((2, 3), ">f4")}, BindingError, "output_tensor"),
    (
        "dequantize_linear",
        {"out": np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)},
        BindingError,
        "output_tensor",
    ),
    ("dynamic_quantize_linear", {"out": np.zeros((2, 3), np.uint8)}, BindingError, "out"),
    ("dynamic_quantize_linear", {"out": 5}, BindingError, "out"),
    ("dynamic_quantize_linear", {"out": (None, None)}, BindingError, "out"),
    ("dynamic_quantize_linear", {"out": (None, 0.5, None)}, BindingError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (None, np.float32(0), None)}, BindingError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (None, np.zeros(2, np.float32), None)}, BindingError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (None, np.zeros(1), None)}, InvalidDescError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (None, np.zeros((), np.complex64), None)}, BindingError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (None, np.zeros((), ">f4"), None)}, BindingError, "output_scale_tensor"),
    ("dynamic_quantize_linear", {"out": (np.zeros((2, 3), np.uint8)[::-1], None, None)}, BindingError, "output_tensor"),
    ("dynamic_quantize_linear", {"out": (None, None, READ_ONLY[:1, :1])}, BindingError, "output_zero_point_tensor"),
    ("dynamic_quantize_linear", {"out": (None, None, [0])}, BindingError, "output_zero_point_tensor"),
    ("dynamic_quantize_linear", {"out": (READ_ONLY, None, np.int8([0]))}, InvalidDescError, "output_zero_point_tensor"),
    ("quantized_linear_convolution", {"out": 5}, BindingError, "output_tensor"),
    ("quantized_linear_convolution", {"out": np.uint8(5)}, BindingError, "output_tensor"),
    ("quantized_linear_convolution", {"out": np.zeros((1, 3, 4, 4), np.uint8)}, InvalidDescError, "output_tensor"),
    ("quantized_linear_convolution", {"out": np.zeros((1, 2, 3, 3), np.uint8)}, InvalidDescError, "output_tensor"),
    *(
        ("quantized_linear_average_pooling", changes, error, field)
        for changes, error, field in (
            ({"input": {}}, BindingError, "input_tensor"),
            ({"input": CODES}, InvalidDescError, "input_tensor"),
            ({"input": IMAGE.astype(np.int16)}, InvalidDescError, "input_tensor"),
            ({"input_scale": None}, InvalidDescError, "input_scale_tensor"),
            ({"input_scale": np.float32([1, 2, 3])}, BindingError, "input_scale_tensor"),
            ({"input_scale": np.ones((2, 1, 1, 1), np.float32)}, BindingError, "input_scale_tensor"),
            ({"input_scale": np.ones((1, 2), np.float32)}, BindingError, "input_scale_tensor"),
            ({"input_zero_point": np.int8([1, 2])}, InvalidDescError, "input_zero_point_tensor"),
            ({"input_zero_point": 256}, BindingError, "input_zero_point_tensor"),
            ({"output_zero_point": np.int8([1])}, InvalidDescError, "output_zero_point_tensor"),
            ({"output_data_type": 8}, InvalidDescError, "output_zero_point_tensor"),
            ({"window_size": None}, InvalidDescError, "window_size"),
            ({"window_size": 0}, InvalidDescError, "window_size"),
            ({"window_size": 5}, InvalidDescError, "window_size"),
            ({"window_size": 2.0}, InvalidDescError, "window_size"),
            ({"window_size": (2,)}, InvalidDescError, "window_size"),
            ({"window_size": (2, 2, 2)}, InvalidDescError, "window_size"),
            ({"end_padding": (1, 1, 1, 1)}, InvalidDescError, "end_padding"),
            ({"strides": 0}, InvalidDescError, "strides"),
            ({"dilations": 4}, InvalidDescError, "window_size"),
            ({"start_padding": 2**32 - 1}, InvalidDescError, "output_tensor"),
            ({"end_padding": -1}, InvalidDescError, "end_padding"),
            ({"include_padding": 2}, InvalidDescError, "include_padding"),
            ({"include_padding": None}, InvalidDescError, "include_padding"),
            ({"out": np.zeros((1, 2, 4, 4), np.uint8)}, InvalidDescError, "output_tensor"),
            ({"out": np.zeros((1, 2, 3, 3), np.int8)}, InvalidDescError, "output_zero_point_tensor"),
        )
    ),
    # Too large for any desc, and not allocated.
    ("quantize_linear", {"input": np.broadcast_to(X[:1, :1], (2**20, 2**21))}, InvalidDescError, "input_tensor"),
    ("dynamic_quantize_linear", {"input": np.broadcast_to(X[0, 0], (2**40,))}, InvalidDescError, "input_tensor"),
    # Matrix products.
    ("matrix_multiply_integer", {"b": CODES}, InvalidDescError, "b_tensor"),
    ("matrix_multiply_integer", {"a": CODES[0]}, InvalidDescError, "a_tensor"),
    ("matrix_multiply_integer", {"a": X}, InvalidDescError, "a_tensor"),
    ("matrix_multiply_integer", {"a": CODES.reshape(1, 1, 1, 2, 3)}, InvalidDescError, "a_tensor"),
    ("matrix_multiply_integer", {"a": np.stack([CODES] * 2), "b": np.stack([CODES.T] * 3)}, BindingError, "b_tensor"),
    ("matrix_multiply_integer", {"a_zero_point": np.uint8([1, 2, 3])}, BindingError, "a_zero_point_tensor"),
    ("matrix_multiply_integer", {"a_zero_point": np.uint8([[1, 2]])}, BindingError, "a_zero_point_tensor"),
    ("matrix_multiply_integer", {"b_zero_point": np.uint8([[1], [2]])}, BindingError, "b_zero_point_tensor"),
    ("matrix_multiply_integer", {"b_zero_point": np.int8([1, 2])}, InvalidDescError, "b_zero_point_tensor"),
    ("matrix_multiply_integer", {"out": np.zeros((2, 2), np.uint8)}, InvalidDescError, "output_tensor"),
    ("matrix_multiply_integer", {"out": np.zeros((2, 3), np.int32)}, InvalidDescError, "output_tensor"),
    ("quantized_linear_matrix_multiply", {"a_scale": np.float16(1)}, BindingError, "a_scale_tensor"),
    ("quantized_linear_matrix_multiply", {"b_scale": None}, InvalidDescError, "b_scale_tensor"),
    ("quantized_linear_matrix_multiply", {"output_scale": np.float32([1, 2, 3])}, BindingError, "output_scale_tensor"),
    ("matrix_multiply_integer_to_float", {"bias": np.float32([1, 2, 3])}, BindingError, "bias_tensor"),
    (
        "matrix_multiply_integer_to_float",
        {"a_scale": np.float32([1]), "bias": np.float16([1, 2])},
        InvalidDescError,
        "bias_tensor",
    ),
    ("matrix_multiply_integer_to_float", {"a_scale": np.float16([1])}, InvalidDescError, "bias_tensor"),
    (
        "quantized_linear_add",
        {"a": np.broadcast_to(CODES[0, 0], (2**40, 1)), "b": np.broadcast_to(CODES[0, 0], (2**40,))},
        *(BindingError, "b_tensor"),
    ),
]


@pytest.mark.parametrize(
    ("function", "changes", "error", "field"),
    WRONG,
    ids=[f"{number}-{function}-{'-'.join(changes)}" for number, (function, changes, *_) in enumerate(WRONG)],
)
def test_wrong_arguments(function: str, changes: dict[str, Any], error: type[dmlcpu.DmlError], field: str) -> None:
    out = changes.get("out")
    before = out.copy() if isinstance(out, np.ndarray) else None
    # Twice: compiled operators are kept, refusals are not.
    for _ in range(2):
        with pytest.raises(error) as raised:
            call(function, **changes)
        assert type(raised.value) is error
        assert raised.value.field == field  # type: ignore[attr-defined]
        assert str(raised.value)
    if before is not None:
        assert (out == before).all()


@each_function
def test_masked_elements(function: str) -> None:
    expected = call(function)
    for name, value in GOOD[function].items():
        if isinstance(value, np.ndarray):
            results = call(function, **{name: np.ma.masked_array(value)})
            assert all((result == wanted).all() for result, wanted in zip(results, expected, strict=True))
            masked = np.ma.masked_array(value, np.arange(value.size).reshape(value.shape) == 1)
            with pytest.raises(BindingError, match=f"^{function}: {name}: got an array with masked elements, expected"):
                call(function, **{name: masked})


@each_function
def test_anything_for_any_argument(function: str) -> None:
    """It is accepted, or refused by an exception of dmlcpu; numpy's and Python's own never come out."""
    names = [*GOOD[function], "out"]
    names += [] if function.endswith("_integer") else ["output_data_type"]
    names += ["axis"] if function.startswith(("quantize_", "dequantize_")) else []
    names += ["input_data_type", "sizes"] if function == "dequantize" else []
    names += ["strides", "start_padding", "group_count"] if "convolution" in function else []
    names += ["strides", "start_padding", "include_padding"] if "pooling" in function else []
    refusals = 0
    for name in names:
        for value in anything():
            try:
                call(function, **{name: value})
            except dmlcpu.DmlError:
                refusals += 1
    assert refusals > 300 * len(GOOD[function])
