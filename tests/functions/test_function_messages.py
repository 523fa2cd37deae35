"""What the messages of functions say that refuse arguments: they are to lead a newcomer to the right call."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import TensorDataType, TensorDesc

IMAGE = np.zeros((1, 2, 4, 4), np.uint8)
FILTER = np.zeros((3, 2, 2, 2), np.int8)


def convolved(**changes: Any) -> Any:
    arguments: dict[str, Any] = {"input": IMAGE, "input_zero_point": 0, "filter": FILTER, "filter_zero_point": 0}
    return dmlcpu.convolution_integer(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"start_padding": (1, 2, 3, 4)},
            "convolution_integer: start_padding: got 4 entries, expected 2, one for each spatial axis of the input, "
            "or one number for all; ONNX's pads are those of start_padding and then those of end_padding",
        ),
        (
            {"strides": (1, 1, 1)},
            "convolution_integer: strides: got 3 entries, expected 2, one for each spatial axis of the input, "
            "or one number for all",
        ),
        (
            {"input": IMAGE[0], "filter": FILTER[0], "dilations": (1, 1)},
            "convolution_integer: dilations: got 2 entries, expected 1, for the input's spatial axis, "
            "or one number for all",
        ),
        (
            {"strides": [1]},
            "convolution_integer: strides: got 1 entry, expected 2, one for each spatial axis of the input, "
            "or one number for all",
        ),
    ],
)
def test_attributes_have_an_entry_for_each_spatial_axis(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        convolved(**attributes)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1.0"), ("a", "'a'"), (2**32, "4294967296"), (-1, "-1"), ([1.0, 1], "(1.0, 1)")]
)
@pytest.mark.parametrize("name", ["strides", "start_padding"])
def test_attributes_may_be_one_number_and_are_shown_as_they_came(name: str, value: Any, shown: str) -> None:
    expected = "an unsigned 32-bit integer for all spatial axes, or a sequence with one for each"
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        convolved(**{name: value})
    assert str(raised.value) == (
        f"convolution_integer: {name}: got {shown}, expected {expected} (CONVOLUTION_INTEGER: {name})"
    )


X = np.zeros((2, 2), np.float32)
CODES = np.zeros((2, 3), np.uint8)
PHOTOGRAPH = np.zeros((1, 8, 8, 6), np.uint8)  # N, H, W, C
BYTE_SWAPPED = X.astype(X.dtype.newbyteorder())
READ_ONLY = np.zeros((1, 1), np.uint8)
READ_ONLY.flags.writeable = False
LAST = "if its channels come last, pass input.transpose"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            "quantize",
            (X, np.ones((2, 3), np.float32)),
            "quantize: scale: got shape (2, 3), expected divisors of (2, 2), the shape of input "
            "(QUANTIZE: quantization_tensors[0])",
        ),
        (
            "quantize_linear",
            (X, None),
            "quantize_linear: scale: got None, expected an array or a number (the operator is not defined without it) "
            "(ELEMENT_WISE_QUANTIZE_LINEAR: scale_tensor)",
        ),
        (
            "quantize_linear",
            ([1.0, 2.0], 1.0),
            "quantize_linear: input: got data type FLOAT64, expected FLOAT32 or FLOAT16 or INT32; nothing is cast: "
            "np.asarray(input, np.float32) is of this type (ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor)",
        ),
        (
            "quantize_linear",
            (X, 0.5, np.array(128)),
            "quantize_linear: zero_point: got data type INT64, expected INT8 or UINT8; nothing is cast, but numbers "
            "take the type that is wanted, here uint8: np.asarray(zero_point).tolist() "
            "(ELEMENT_WISE_QUANTIZE_LINEAR: zero_point_tensor)",
        ),
        (
            "convolution_integer",
            (IMAGE, 0, FILTER, np.array([1, 2, 3])),
            "convolution_integer: filter_zero_point: got data type INT64, expected INT8 or UINT8; nothing is cast, but "
            "numbers take the type that is wanted, here int8: np.asarray(filter_zero_point).tolist() "
            "(CONVOLUTION_INTEGER: filter_zero_point_tensor)",
        ),
        (
            "dequantize",
            (CODES, np.float64([0.5])),
            "dequantize: scale: got data type FLOAT64, expected FLOAT32 or FLOAT16; nothing is cast, but numbers take "
            "the type that is wanted: np.asarray(scale).tolist() (DEQUANTIZE: quantization_tensors[0])",
        ),
        (
            "quantize_linear",
            (X, [[[[[[[[[1.0]]]]]]]]]),
            "quantize_linear: scale: got data type FLOAT64, expected FLOAT32 or FLOAT16; nothing is cast, but numbers "
            "take the type that is wanted: np.asarray(scale).tolist() (ELEMENT_WISE_QUANTIZE_LINEAR: scale_tensor)",
        ),
        (
            "matrix_multiply_integer",
            ([[200, 250]], 0, np.ones((2, 1)), 0),
            "matrix_multiply_integer: a: got data type INT64, expected INT8 or UINT8; nothing is cast: make it "
            "np.uint8 or np.int8, whichever holds the values (MATRIX_MULTIPLY_INTEGER: a_tensor)",
        ),
        (
            "matrix_multiply_integer",
            (CODES, 0, np.ones((3, 1)), 0),
            "matrix_multiply_integer: b: got data type FLOAT64, expected INT8 or UINT8 "
            "(MATRIX_MULTIPLY_INTEGER: b_tensor)",
        ),
        (
            "convolution_integer",
            (IMAGE[0], 0, FILTER, 0),
            "convolution_integer: filter: got dimension count 4, expected 3, as input; the axes of the input are "
            "N, C, H, W: input[np.newaxis] adds the batch (CONVOLUTION_INTEGER: filter_tensor)",
        ),
        (
            "convolution_integer",
            (np.zeros((1, 6, 4, 4), np.uint8), 0, np.zeros((6, 2, 3, 3), np.int8), 0),
            "convolution_integer: filter: got shape[1] = 2, expected 6, input.shape[1] / group_count; group_count=3 is "
            "a convolution by filters of as many channels (CONVOLUTION_INTEGER: filter_tensor)",
        ),
        (
            "convolution_integer",
            (np.zeros((1, 6, 4, 4), np.uint8), 0, np.zeros((4, 2, 3, 3), np.int8), 0),
            "convolution_integer: filter: got shape[1] = 2, expected 6, input.shape[1] / group_count "
            "(CONVOLUTION_INTEGER: filter_tensor)",
        ),
        (
            "convolution_integer",
            (IMAGE[0, 0], 0, FILTER[:, 0], 0),
            "convolution_integer: input: got dimension count 2, expected 3 to 4; the axes of the input are "
            "N, C, W: input[np.newaxis] adds the batch (CONVOLUTION_INTEGER: input_tensor)",
        ),
        (
            "quantize_linear",
            (None, 1.0),
            "quantize_linear: input: got None, expected an array of float32 or float16 or int32",
        ),
        (
            "quantize_linear",
            (BYTE_SWAPPED, 1.0),
            f"quantize_linear: input: got elements of {BYTE_SWAPPED.dtype!r}, expected float32 or float16 or int32, "
            f"in the machine's byte order; nothing is cast: np.asarray(input, np.{BYTE_SWAPPED.dtype.name})",
        ),
        (
            "quantize_linear",
            (X, np.array([0.5], object)),
            "quantize_linear: scale: got elements of dtype('O'), expected float32 or float16; nothing is cast: "
            "np.asarray(scale, np.float32)",
        ),
        (
            "dequantize",
            (X > 0, 1.0),
            "dequantize: input: got elements of dtype('bool'), expected int8 or uint8 or int4 or uint4",
        ),
        (
            "matrix_multiply_integer",
            (CODES, None, np.zeros((4, 5), np.uint8), None),
            "matrix_multiply_integer: b: got shape (4, 5), expected (3, 5): the batch of a, and as many rows as it has "
            "columns (MATRIX_MULTIPLY_INTEGER: b_tensor)",
        ),
        (
            "convolution_integer",
            (PHOTOGRAPH, None, np.zeros((4, 6, 3, 3), np.int8), None),
            "convolution_integer: filter: got shape[1] = 6, expected 8, input.shape[1] / group_count; the axes of the "
            f"input are N, C, H, W: {LAST}(0, 3, 1, 2) (CONVOLUTION_INTEGER: filter_tensor)",
        ),
        (
            "convolution_integer",
            (PHOTOGRAPH[0], None, np.zeros((4, 6, 3), np.int8), None),
            "convolution_integer: filter: got shape[1] = 6, expected 8, input.shape[1] / group_count; the axes of the "
            f"input are N, C, W: {LAST}(0, 2, 1) (CONVOLUTION_INTEGER: filter_tensor)",
        ),
        (
            "convolution_integer",
            (PHOTOGRAPH, None, np.zeros((4, 5, 3, 3), np.int8), None),
            "convolution_integer: filter: got shape[1] = 5, expected 8, input.shape[1] / group_count "
            "(CONVOLUTION_INTEGER: filter_tensor)",
        ),
    ],
)
def test_functions_name_arguments(function: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((dmlcpu.InvalidDescError, dmlcpu.BindingError)) as raised:
        getattr(dmlcpu, function)(*arguments)
    assert str(raised.value) == message
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            "quantized_linear_convolution",
            (IMAGE, 1.0, 0, FILTER, 1.0, 0, [1], 1.0, 0),
            "bias: got one element, expected one for each channel: (3,) or (1, 3, 1, 1)",
        ),
        (
            "quantized_linear_convolution",
            (IMAGE, 1.0, 0, FILTER, 1.0, 0, 5, 1.0, 0),
            "bias: got one element, expected one for each channel: (3,) or (1, 3, 1, 1)",
        ),
        (
            "quantized_linear_convolution",
            (IMAGE, 1.0, 0, FILTER, [1.0, 2.0], 0, None, 1.0, 0),
            "filter_scale: got shape (2,), expected one element, or one for each channel: (3,) or (1, 3, 1, 1)",
        ),
        (
            "quantized_linear_matrix_multiply",
            (CODES, 1.0, 0, CODES.T, [1.0, 2.0, 3.0], 0, 1.0, 0),
            "b_scale: got shape (3,), expected one element, or one for each column: (2,)",
        ),
        (
            "quantized_linear_matrix_multiply",
            (CODES, [1.0, 2.0, 3.0], 0, CODES.T, 1.0, 0, 1.0, 0),
            "a_scale: got shape (3,), expected one element, or one for each row: (2,) or (2, 1)",
        ),
    ],
)
def test_shapes_that_are_taken_are_told_once(function: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(dmlcpu.BindingError) as raised:
        getattr(dmlcpu, function)(*arguments)
    assert str(raised.value) == f"{function}: {message}"


@pytest.mark.parametrize(
    ("zero_point", "shown"),
    [([[1, 2]], "a list of length 1"), ((1, 2), "(1, 2)"), (np.int64([1]), "an array of int64")],
)
def test_zero_points_of_four_bits_are_numbers_or_arrays(zero_point: Any, shown: str) -> None:
    with pytest.raises(dmlcpu.BindingError) as raised:
        dmlcpu.quantize(X, 1.0, zero_point, output_data_type=TensorDataType.INT4)
    expected = "a number, an array of ml_dtypes.int4, or packed bytes"
    assert str(raised.value) == f"quantize: zero_point: got {shown}, expected {expected}"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("quantize_linear", {"out": np.zeros((2, 2), np.int64)}, "out: got an array of int64, expected int8 or uint8"),
        (
            "quantize_linear",
            {"out": np.zeros((2, 2), np.int8), "output_data_type": 5},
            "out: got an array of int8, expected uint8, the output_data_type",
        ),
        (
            "quantize_linear",
            {"zero_point": np.int64(3)},
            "zero_point: got a number of type int64, expected uint8; int(zero_point) takes the type that is wanted",
        ),
        (
            "quantize_linear",
            {"scale": 10**400},
            "scale: got an integer of 1329 bits, expected a number that float32 holds",
        ),
        (
            "quantize",
            {"zero_point": np.zeros((1, 1), np.uint8), "output_data_type": TensorDataType.INT4},
            "zero_point: got uint8 of shape (1, 1), expected (1,): the packed bytes of int4 elements in the scale's "
            "shape (1, 1)",
        ),
        ("quantize_linear", {"axis": 2}, "axis: got 2, expected an integer from -2 to 1"),
        ("quantize_linear", {"axis": "1"}, "axis: got '1', expected an integer from -2 to 1"),
        ("quantize_linear", {"axis": 1.5}, "axis: got 1.5, expected an integer from -2 to 1"),
        (
            "quantize_linear",
            {"scale": np.ones(1, np.float32)[:0]},
            "scale: got 0 elements, expected one, or one for each along axis 1 of shape (2, 2)",
        ),
        (
            "quantize_linear",
            {"scale": np.ones(3, np.float32), "input": X[:, :1]},
            "scale: got 3 elements, expected one, or one for each along axis 1 of shape (2, 1)",
        ),
        (
            "dequantize",
            {"input": CODES[0, :1], "sizes": (3,), "input_data_type": TensorDataType.INT4},
            "input: got 1 packed byte, expected 2, for 3 elements",
        ),
        (
            "dequantize",
            {"input": CODES, "sizes": (1,), "input_data_type": TensorDataType.INT4},
            "input: got 6 packed bytes, expected 1, for 1 element",
        ),
        (
            "dequantize",
            {"input": CODES.view(np.int8), "input_data_type": TensorDataType.INT4},
            "input_data_type: got INT4, expected INT8, as the input is; INT4 and UINT4 are of packed bytes, which are "
            "uint8",
        ),
    ],
)
def test_arrays_and_counts_are_told_in_words(function: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dmlcpu.BindingError) as raised:
        getattr(dmlcpu, function)(**{"input": X, "scale": 1.0, **arguments})
    assert str(raised.value) == f"{function}: {message}"


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ((None, np.zeros(()), None), "out[1]: got data type FLOAT64, expected FLOAT32"),
        ((None, np.zeros((), ">f4"), None), "out[1]: got elements of dtype('>f4'), expected float32, in the machine's"),
        ((np.zeros((3, 2), np.uint8), None, None), "out[0]: got shape (3, 2), expected (2, 2)"),
        ((None, None, READ_ONLY), "out[2]: got uint8 of shape (1, 1), read-only"),
    ],
)
def test_one_of_several_outputs_has_one_name(out: tuple[Any, ...], told: str) -> None:
    """Whoever refuses it: as it was passed, in the tuple."""
    with pytest.raises(dmlcpu.DmlError) as raised:
        dmlcpu.dynamic_quantize_linear(X, out=out)
    assert str(raised.value).startswith(f"dynamic_quantize_linear: {told}"), raised.value


def test_an_output_tuple_is_counted() -> None:
    with pytest.raises(dmlcpu.BindingError, match=r"^dynamic_quantize_linear: out: got 1 entry, expected a tuple of"):
        dmlcpu.dynamic_quantize_linear(X, out=(None,))  # type: ignore[arg-type]


def test_sizes_that_are_not_needed_are_shown() -> None:
    with pytest.raises(dmlcpu.BindingError, match=r"^dequantize: sizes: got \(2, 3\), expected None: only packed"):
        dmlcpu.dequantize(CODES, 1.0, sizes=[2, 3])


def test_an_array_to_write_is_named_out_and_a_new_one_output() -> None:
    out = np.zeros((2, 3), np.uint8)
    with pytest.raises(dmlcpu.InvalidDescError, match=r"^quantize_linear: out: got shape \(2, 3\)"):
        dmlcpu.quantize_linear(X, 1.0, out=out)
    with pytest.raises(dmlcpu.BindingError, match=r"^quantize_linear: out: got an object of type list"):
        dmlcpu.quantize_linear(X, 1.0, out=[1])  # type: ignore[arg-type]
    out.flags.writeable = False
    with pytest.raises(dmlcpu.BindingError, match=r"^quantized_linear_add: out: got uint8 .* read-only"):
        dmlcpu.quantized_linear_add(CODES, 1.0, 0, CODES, 1.0, 0, 1.0, 0, out=out)
    with pytest.raises(dmlcpu.InvalidDescError, match=r"^convolution_integer: output: got .*"):
        convolved(start_padding=2**32 - 1)


def test_levels_and_graphs_name_arguments_too() -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as raised:
        dmlcpu.quantize_linear(X, 1.0, device=dmlcpu.Device(dmlcpu.FeatureLevel.LEVEL_6_0))
    assert raised.value.required_level is dmlcpu.FeatureLevel.LEVEL_6_2
    assert str(raised.value).startswith("quantize_linear: zero_point: got None, expected an array or a number at LEVEL")
    builder = dmlcpu.GraphBuilder(dmlcpu.Device())
    codes = dmlcpu.input_tensor(builder, 0, TensorDesc(TensorDataType.UINT8, CODES.shape))
    with pytest.raises(dmlcpu.InvalidDescError, match=r"^matrix_multiply_integer: b: got shape \(2, 3\)"):
        dmlcpu.matrix_multiply_integer(codes, None, CODES, None)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (np.int8, "numpy.int8"),
        ("INT8", "'INT8'"),
        (np.dtype("int8"), "numpy's dtype int8"),
        ([], "a list of length 0"),
    ],
)
def test_an_output_data_type_is_no_type_of_numpy(given: Any, shown: str) -> None:
    expected = "expected TensorDataType.UINT8 or TensorDataType.INT8, no name and no type of numpy's"
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.quantize_linear(X, 1.0, output_data_type=given)
    assert str(raised.value) == f"quantize_linear: output_data_type: got {shown}, {expected}"
