"""The steps that models become: what is computed once, in one step, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.lowering import quantize
from dmlcpu.onnx.parameters import Parameters
from onnx_cases import IMAGE, POINTS, SCALE, TYPES, ints, small_convolution
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of


def test_what_several_nodes_read_is_computed_once(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    result = small_convolution(builder, "x", IMAGE, random_numbers)
    activated = builder.node("Relu", [result])
    for value in (result, result, activated, activated):
        builder.output(builder.quantized(value, 0.1, np.uint8(3)), "uint8")
    steps = steps_of(builder.build())
    assert steps.count("QUANTIZED_LINEAR_CONVOLUTION") == 1
    assert steps.count("CODE_TABLE") <= 1
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


def test_pixels_of_photographs(random_numbers: np.random.Generator) -> None:
    """UINT8 pixels, normalized in the model, channels behind; the first convolution's codes."""
    builder = Builder()
    floats = builder.node("Cast", [builder.input("uint8", (2, 7, 6, 3))], to=1)
    floats = builder.node("Div", [floats, np.float32(255)])
    floats = builder.node("Sub", [floats, np.float32([0.485, 0.456, 0.406])])
    floats = builder.node("Div", [floats, np.float32([0.229, 0.224, 0.225])])
    quantized = builder.quantized(builder.node("Transpose", [floats], perm=[0, 3, 1, 2]), 0.019, np.uint8(114))
    builder.output(quantized, "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (2, 7, 6, 3))}, 1)
    steps = steps_of(builder.build())
    assert "ELEMENT_WISE_BINARY" not in steps


@pytest.mark.parametrize("operator", ["shuffle", "DepthToSpace", "SpaceToDepth"])
def test_what_moves_between_convolutions_is_copied_once(random_numbers: np.random.Generator, operator: str) -> None:
    """To where the second one reads it, not over a layout of neither."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 8, 6, 6)), SCALE, POINTS["uint8"])
    filters = [builder.dequantized(codes(random_numbers, "int8", (8, 8, 1, 1)), 0.01, np.int8(0))]
    value = builder.dequantized(
        builder.quantized(builder.node("Conv", [value, *filters]), 0.3, np.uint8(9)), 0.3, np.uint8(9)
    )
    if operator == "shuffle":
        value = builder.node("Reshape", [value, ints(1, 2, 4, 6, 6)])
        value = builder.node("Transpose", [value], perm=[0, 2, 1, 3, 4])
        value = builder.node("Reshape", [value, ints(1, 8, 6, 6)])
        channels = 8
    else:
        value = builder.node(operator, [value], blocksize=2)
        channels = 2 if operator == "DepthToSpace" else 32
    filters = [builder.dequantized(codes(random_numbers, "int8", (8, channels, 1, 1)), 0.01, np.int8(0))]
    builder.output(builder.quantized(builder.node("Conv", [value, *filters]), 0.3, np.uint8(9)), "uint8")
    steps = steps_of(builder.build())
    assert steps == ["QUANTIZED_LINEAR_CONVOLUTION", "COPY", "QUANTIZED_LINEAR_CONVOLUTION"]
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 8, 6, 6))}, 1)


def gated(builder: Builder, codes_in: str, gate: str, dtype: str) -> str:
    """A value times its sigmoid, or its hard sigmoid in four nodes, each result quantized."""
    point = POINTS[dtype]
    value = builder.dequantized(codes_in, 0.04, point)
    if gate == "Sigmoid":
        result = builder.dequantized(
            builder.quantized(builder.node("Sigmoid", [value]), 1 / 256, point), 1 / 256, point
        )
    else:
        result = builder.node("Clip", [builder.node("Add", [value, np.float32(3)]), np.float32(0), np.float32(6)])
        result = builder.dequantized(builder.quantized(result, 0.025, point), 0.025, point)
        result = builder.node("Div", [result, np.float32(6)])
        result = builder.dequantized(builder.quantized(result, 1 / 256, point), 1 / 256, point)
    name: str = builder.quantized(builder.node("Mul", [value, result]), 0.035, point)
    return name


def gated_on_codes(builder: Builder, codes_in: str, dtype: str) -> str:
    point, scales = POINTS[dtype], np.float32([0.04, 1 / 256, 0.035])
    sigmoid = builder.node("com.microsoft.QLinearSigmoid", [codes_in, scales[0], point, scales[1], point])
    operands = [codes_in, scales[0], point, sigmoid, scales[1], point, scales[2], point]
    name: str = builder.node("com.microsoft.QLinearMul", operands)
    return name


@pytest.mark.parametrize("gate", ["Sigmoid", "HardSigmoid", "QLinearSigmoid"])
@pytest.mark.parametrize("dtype", TYPES)
def test_gates_of_the_same_codes_are_one_table(random_numbers: np.random.Generator, gate: str, dtype: str) -> None:
    """The steps between are gone."""
    builder = Builder()
    value = builder.dequantized(builder.input(dtype, IMAGE), SCALE, POINTS[dtype])
    weights = builder.dequantized(codes(random_numbers, "int8", (4, 3, 1, 1)), 0.01, np.int8(0))
    convolved = builder.quantized(builder.node("Conv", [value, weights]), 0.04, POINTS[dtype])
    on_codes = gate.startswith("QLinear")
    result = gated_on_codes(builder, convolved, dtype) if on_codes else gated(builder, convolved, gate, dtype)
    builder.output(result, dtype)
    steps = steps_of(builder.build())
    assert steps == ["QUANTIZED_LINEAR_CONVOLUTION", "CODE_TABLE"]
    feeds = {"x": codes(random_numbers, dtype, IMAGE)}
    assert_like_onnxruntime(builder.build(), feeds, 1)
    builder.output(convolved, dtype)  # and where the convolution's codes are wanted too
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_codes_that_stay_what_they_are(random_numbers: np.random.Generator) -> None:
    """Where codes are known to become themselves again, they do, next to the limits of that knowledge too."""
    limits = [2.0**-100, 2.0**100]
    scales = [*np.nextafter(np.float32(limits), np.float32(1)), *np.float32(limits)]
    scales += [*np.exp2(random_numbers.uniform(-149, 128, 300)), 0, np.inf, np.nan]
    kept = 0
    for scale in np.float32(scales):
        for dtype, zero_point in (("uint8", 0), ("uint8", 255), ("int8", -128), ("int8", 127), ("uint8", 131)):
            for signed in (scale, -scale):
                parameters = Parameters(signed, zero_point, np.dtype(dtype))
                every = np.arange(256, dtype=np.uint8).view(dtype)
                if parameters.keeps_codes:
                    np.testing.assert_array_equal(quantize(parameters.floats(), parameters), every)
                    kept += 1
    assert kept > 1000
    assert not any(Parameters(scale, 0, np.dtype("uint8")).keeps_codes for scale in np.float32([*limits, 0, np.inf]))


@pytest.mark.parametrize("scale", [0.1, 0.0, 3e38])
def test_scales_that_keep_no_codes(random_numbers: np.random.Generator, scale: float) -> None:
    """Codes that are dequantized, moved and quantized again by a scale of 0, or one too large, are not their own."""
    builder = Builder()
    floats = builder.dequantized(builder.input("uint8", (2, 3)), scale, np.uint8(7))
    builder.output(builder.quantized(builder.node("Transpose", [floats]), scale, np.uint8(7)), "uint8")
    x = codes(random_numbers, "uint8", (2, 3))
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    parameters = Parameters(np.float32(scale), 7, np.dtype("uint8"))
    np.testing.assert_array_equal(result, quantize(parameters.floats(), parameters)[x.T])
    assert (scale == 0.1) == np.array_equal(result, x.T)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_lengths_of_transposed_codes(random_numbers: np.random.Generator, keepdims: int) -> None:
    """The second axis is none of channels: the floats are computed once, row by row, for length and quotient."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 49, 4, 8)), 0.02, np.uint8(121))
    value = builder.node("Transpose", [value], perm=[0, 2, 3, 1])
    length = builder.node("ReduceL2", [value], axes=[-1], keepdims=keepdims)
    if not keepdims:
        length = builder.node("Unsqueeze", [length, np.int64([-1])])
    quotient = builder.node("Div", [value, length])
    builder.output(builder.quantized(quotient, 0.005, np.uint8(128)), "uint8")
    steps = steps_of(builder.build())
    assert steps.count("ELEMENT_WISE_DEQUANTIZE_LINEAR") == steps.count("REDUCE_SUM") == 1
    assert not {"COPY", "FLOAT_POOLING", "FLOAT_TABLE"} & set(steps)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 49, 4, 8))}, 1)


def split_attention(builder: Builder, rng: np.random.Generator, parts: int, y_type: str) -> tuple[str, str]:
    """The quantized mean of all parts of a convolution's channels, and their weighted sum."""
    point = POINTS["uint8"]
    value = small_convolution(builder, "x", (2, 5, 9, 7), rng)  # to four channels
    value = builder.dequantized(builder.quantized(value, 0.05, point), 0.05, point)
    value = builder.node("Reshape", [value, np.int64([2, parts, 4 // parts, 9, 7])])
    value = builder.dequantized(builder.quantized(value, 0.05, point), 0.05, point)
    total = builder.node("ReduceSum", [value, np.int64([1])], keepdims=0)
    mean = builder.quantized(builder.node("ReduceMean", [total], axes=[2, 3]), 0.02, POINTS[y_type])
    weights = builder.dequantized(builder.input("uint8", (2, parts, 4 // parts, 1, 1), "w"), 0.004, np.uint8(0))
    weighted = builder.quantized(builder.node("Mul", [value, weights]), 0.04, point)
    return mean, builder.node("ReduceSum", [builder.dequantized(weighted, 0.04, point), np.int64([1])], keepdims=0)


@pytest.mark.parametrize("y_type", TYPES)
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("include", [0, 1])
def test_split_attention(random_numbers: np.random.Generator, y_type: str, parts: int, include: int) -> None:
    """Sums of parts of channels, their means and poolings, are of codes, where these lie; or of floats, if read so."""
    builder = Builder()
    mean, total = split_attention(builder, random_numbers, parts, y_type)
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": include}
    pooled = builder.node("AveragePool", [total], **attributes)
    builder.output(mean, y_type)
    builder.output(builder.quantized(pooled, 0.03, POINTS[y_type]), y_type)
    builder.output(builder.quantized(total, 0.05, POINTS[y_type]), y_type)
    feeds = {
        "x": codes(random_numbers, "uint8", (2, 5, 9, 7)),
        "w": codes(random_numbers, "uint8", (2, parts, 4 // parts, 1, 1)),
    }
    steps = steps_of(builder.build())
    assert not {"ELEMENT_WISE_DEQUANTIZE_LINEAR", "FLOAT_POOLING", "REDUCE_MEAN", "REDUCE_SUM"} & set(steps)
    assert steps.count("COPY") == (2 if parts == 2 else 3)  # of what was pooled, to outputs
    assert_like_onnxruntime(builder.build(), feeds, 1)
    builder.output(total, "float32")
    builder.output(pooled, "float32")
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize(
    ("image", "shape", "other"),
    [
        ((1, 6, 5, 4), (1, 2, 3, 5, 4), (2, 1, 1, 1)),  # some of the joined axes alone
        ((1, 6, 5, 4), (1, 2, 3, 5, 4), (1, 2, 3, 1, 4)),
        ((1, 6, 5, 4), (1, 2, 3, 5, 4), (3, 5, 4)),
        ((6, 5, 4), (1, 2, 3, 5, 1, 4), (2, 3, 1, 1, 1)),
        ((6, 20), (2, 3, 4, 5), (2, 3, 4, 5)),
        ((6, 20), (4, 5, 2, 3), (4, 5, 2, 3)),  # of no axes joined
        ((8, 15), (2, 3, 4, 5), (4, 5)),
    ],
)
@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_axes_that_were_split(
    random_numbers: np.random.Generator,
    image: tuple[int, ...],
    shape: tuple[int, ...],
    other: tuple[int, ...],
    operator: str,
    is_constant: bool,
) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", image), 0.05, np.uint8(99))
    x = builder.node("Reshape", [x, np.int64(shape)])
    feeds = {"x": codes(random_numbers, "uint8", image)}
    given = codes(random_numbers, "int8", other)
    if not is_constant:
        feeds["w"] = given
    operand = builder.dequantized(given if is_constant else builder.input("int8", other, "w"), 0.02, np.int8(3))
    for inputs in ([x, operand], [operand, x]):
        builder.output(builder.quantized(builder.node(operator, inputs), 0.04, np.uint8(120)), "uint8")
    assert_like_onnxruntime(builder.build(), feeds, 1)


# Who reads codes beside a node that dequantizes them, and the steps that this takes.
READERS = {
    "nobody": [],
    "another dequantization": ["ELEMENT_WISE_DEQUANTIZE_LINEAR"],
    "one by a scale that is fed": ["CODE_TABLE", "ELEMENT_WISE_DEQUANTIZE_LINEAR"],
    "the caller": [],
    "MaxPool": ["MAX_POOLING"],
}
UNIT = 0.25  # of those that are dequantized; exact


def two_convolutions(builder: Builder, dtype: str, filters: Sequence[NDArray[np.int8]], reader: str) -> None:
    """With zero points of the same place in both types."""
    offset = 128 if dtype == "uint8" else 0

    def point(of_signed: int) -> np.generic:
        return np.dtype(dtype).type(of_signed + offset)

    value = builder.dequantized(builder.input(dtype, (1, 64, 5, 4)), 0.02, point(-5))
    first, second = (builder.dequantized(array, 0.01, np.int8(0)) for array in filters)
    between = builder.quantized(builder.node("Conv", [value, first]), 0.3, point(7))
    value = builder.dequantized(between, 0.3, point(7))
    builder.output(builder.quantized(builder.node("Conv", [value, second]), 2.0, point(-9)), dtype)
    if reader == "another dequantization":
        builder.output(builder.dequantized(between, UNIT, point(11)), "float32")
    elif reader == "one by a scale that is fed":
        scale = builder.input("float32", (), "scale")
        builder.output(builder.node("DequantizeLinear", [between, scale, point(11)]), "float32")
    elif reader == "the caller":
        builder.output(between, dtype)
    elif reader == "MaxPool":
        builder.output(builder.node("MaxPool", [between], kernel_shape=[2, 2]), dtype)


@pytest.mark.parametrize("reader", READERS)
def test_int8_codes_that_are_only_dequantized_are_computed_as_uint8(
    random_numbers: np.random.Generator, isa: str, reader: str
) -> None:
    """With the same results; INT8 for all who read them as such."""
    filters = [codes(random_numbers, "int8", (64, 64, 1, 1)) for _ in range(2)]
    given = codes(random_numbers, "int8", (1, 64, 5, 4))
    results = {}
    for dtype, x in (("int8", given), ("uint8", given.view(np.uint8) ^ 0x80)):
        builder = Builder()
        two_convolutions(builder, dtype, filters, reader)
        session = dmlcpu.InferenceSession(builder.build(), device=dmlcpu.Device(isa=isa))
        feeds = {"x": x, "scale": np.array(UNIT, np.float32)}
        fed = {value.name: feeds[value.name] for value in session.get_inputs()}
        results[dtype] = session.run(None, fed)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
        if dtype == "int8":
            steps = [step for part in session.partitions() for step in part.steps]
            others = [step.type for step in steps if step.type != "QUANTIZED_LINEAR_CONVOLUTION"]
            assert sorted(others) == sorted(READERS[reader])
            assert_like_onnxruntime(builder.build(), fed, 1, equal=True, unit=UNIT)
    for signed, unsigned in zip(results["int8"], results["uint8"], strict=True):
        if signed.dtype == np.int8:
            assert np.array_equal(signed.view(np.uint8) ^ 0x80, unsigned)
        else:
            assert np.array_equal(signed, unsigned)


@pytest.mark.parametrize("is_first_signed", [False, True])
def test_codes_in_both_signs_are_of_one_convolution(
    random_numbers: np.random.Generator, *, is_first_signed: bool
) -> None:
    """Quantized twice: to be dequantized, and for who reads INT8."""
    builder = Builder()
    result = small_convolution(builder, "x", IMAGE, random_numbers)
    quantized = [builder.quantized(result, 0.1, np.int8(3)) for _ in range(2)]
    builder.output(builder.dequantized(quantized[is_first_signed], 0.1, np.int8(3)), "float32")
    builder.output(builder.node("MaxPool", [quantized[not is_first_signed]], kernel_shape=[2, 2]), "int8")
    assert steps_of(builder.build()).count("QUANTIZED_LINEAR_CONVOLUTION") == 1
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


@pytest.mark.parametrize("axis", [2, 3])
def test_factors_of_rows_and_columns_of_a_convolution(random_numbers: np.random.Generator, axis: int) -> None:
    """As many as it has channels, and not theirs."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 3, 4, 4)), SCALE, POINTS["uint8"])
    weights = builder.dequantized(codes(random_numbers, "int8", (4, 3, 1, 1)), 0.004, np.int8(0))
    factors = random_numbers.uniform(0.5, 2, 4).astype(np.float32).reshape(np.where(np.arange(4) == axis, 4, 1))
    result = builder.node("Mul", [builder.node("Conv", [value, weights]), factors])
    builder.output(builder.quantized(result, 0.02, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 3, 4, 4))}, 1)


def test_factors_and_addends_along_two_axes(random_numbers: np.random.Generator) -> None:
    """Of one length, and not of one axis."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 4, 4, 4)), SCALE, POINTS["uint8"])
    factors = random_numbers.uniform(0.5, 2, (1, 4, 1, 1)).astype(np.float32)
    addends = random_numbers.uniform(-3, 3, (1, 1, 1, 4)).astype(np.float32)
    result = builder.node("Add", [builder.node("Mul", [value, factors]), addends])
    builder.output(builder.quantized(result, 0.05, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 4, 4, 4))}, 1)


def test_a_factor_of_more_axes_than_a_convolution(random_numbers: np.random.Generator) -> None:
    """It gives the result its axes."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (2, 5, 9)), SCALE, POINTS["uint8"])
    weights = builder.dequantized(codes(random_numbers, "int8", (4, 5, 3)), 0.004, np.int8(0))
    result = builder.node("Mul", [builder.node("Conv", [value, weights]), np.full((1, 1, 1, 1), 0.5, np.float32)])
    builder.output(builder.quantized(result, 0.05, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (2, 5, 9))}, 1)


@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_constants_of_more_channels_than_codes(random_numbers: np.random.Generator, operator: str) -> None:
    """They give the result its channels."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 1, 4, 5)), SCALE, POINTS["uint8"])
    numbers = random_numbers.uniform(0.5, 2, (1, 3, 1, 1)).astype(np.float32)
    builder.output(builder.quantized(builder.node(operator, [value, numbers]), 0.05, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (1, 1, 4, 5))}, 1)
