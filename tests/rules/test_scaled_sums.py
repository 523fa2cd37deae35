"""Convolutions whose results stay floats: one step, with the scale and the bias of each channel in it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import IMAGE, POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of

CHANNELS: Final = 4
SCALED: Final = "CONVOLUTION_INTEGER_TO_FLOAT"
THREE_PASSES: Final = ["CONVOLUTION_INTEGER", "CAST", "ELEMENT_WISE_BINARY", "ELEMENT_WISE_BINARY"]


def filter_codes(rng: np.random.Generator) -> Any:
    return codes(rng, "int8", (CHANNELS, IMAGE[1], 3, 3))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", ["none", "floats", "codes"])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_convolutions_of_codes(
    random_numbers: np.random.Generator, per_channel: bool, bias: str, operator: str
) -> None:
    """Nothing quantizes the result, and only the operands are of codes."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    count = CHANNELS if per_channel else 1
    scales = random_numbers.uniform(0.001, 0.01, count).astype(np.float32)
    of_filter = (scales, np.zeros(count, np.int8)) if per_channel else (scales[0], np.int8(0))
    w = filter_codes(random_numbers)
    if operator == "ConvTranspose":
        w = w.swapaxes(0, 1)
    weights = builder.dequantized(w, *of_filter, axis=int(operator == "ConvTranspose"))
    operands = [value, weights]
    biases = random_numbers.integers(-9999, 9999, CHANNELS, np.int32)
    unit = np.broadcast_to(np.float32(SCALE) * scales, CHANNELS)
    if bias == "floats":
        operands.append((biases * unit).astype(np.float32))
    elif bias == "codes":
        operands.append(builder.dequantized(biases, unit, np.zeros(CHANNELS, np.int32), axis=0))
    builder.output(builder.node("Relu", [builder.node(operator, operands)]), "float32")
    assert steps_of(builder) == [SCALED, "ELEMENT_WISE_UNARY"]
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)})


def dynamic(builder: Builder, rng: np.random.Generator, scale_shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Sums, the same as floats, and these scaled, as dynamic quantization writes a convolution."""
    x, scale, point = builder.node("DynamicQuantizeLinear", [builder.input("float32", IMAGE)], 3)
    sums = builder.node("ConvInteger", [x, filter_codes(rng), point, np.int8(0)])
    scales = builder.node("Mul", [scale, rng.uniform(0.001, 0.01, scale_shape).astype(np.float32)])
    floats = builder.node("Cast", [sums], to=1)
    return sums, floats, builder.node("Mul", [floats, scales])


@pytest.mark.parametrize("scale_shape", [(), (1,), (CHANNELS, 1, 1), (1, CHANNELS, 1, 1)], ids=str)
@pytest.mark.parametrize("bias_shape", [None, (), (CHANNELS, 1, 1), (1, CHANNELS, 1, 1)], ids=str)
def test_dynamic_quantization(random_numbers: np.random.Generator, scale_shape: Any, bias_shape: Any) -> None:
    """The scale is computed."""
    builder = Builder()
    *_, result = dynamic(builder, random_numbers, scale_shape)
    if bias_shape is not None:
        result = builder.node("Add", [result, random_numbers.normal(0, 3, bias_shape).astype(np.float32)])
    builder.output(result, "float32")
    steps = steps_of(builder)
    assert steps.count(SCALED) == 1
    assert not {"CONVOLUTION_INTEGER", "CAST"} & set(steps)
    assert steps.count("ELEMENT_WISE_BINARY") == 1  # of the scales
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal(IMAGE, np.float32)})


@pytest.mark.parametrize("read", [0, 1, 2])
def test_what_others_read_is_computed(random_numbers: np.random.Generator, read: int) -> None:
    """The sums, their floats, or the floats before the bias: whatever is read besides is a result of its own."""
    builder = Builder()
    results = dynamic(builder, random_numbers, ())
    addend = random_numbers.normal(0, 3, (CHANNELS, 1, 1)).astype(np.float32)
    builder.output(builder.node("Add", [results[2], addend]), "float32")
    builder.output(results[read], "float32" if read else "int32")
    steps = steps_of(builder)
    assert (SCALED in steps) == (read == 2)
    assert ("CAST" in steps) == (read != 2)
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal(IMAGE, np.float32)})


@pytest.mark.parametrize("scale_shape", [(5,), (2, 1, 1, 1), (CHANNELS, 5, 1), (1, 1, 1, 1, 1)], ids=str)
def test_scales_along_other_axes(random_numbers: np.random.Generator, scale_shape: tuple[int, ...]) -> None:
    """They are multiplied by themselves."""
    builder = Builder()
    x, _, point = builder.node("DynamicQuantizeLinear", [builder.input("float32", (2, 3, 7, 7))], 3)
    sums = builder.node("ConvInteger", [x, filter_codes(random_numbers), point])
    scales = random_numbers.uniform(0.001, 0.01, scale_shape).astype(np.float32)
    builder.output(builder.node("Mul", [builder.node("Cast", [sums], to=1), scales]), "float32")
    assert SCALED not in steps_of(builder)
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal((2, 3, 7, 7), np.float32)})


def test_bits_are_those_of_three_passes(random_numbers: np.random.Generator) -> None:
    """Reading the floats between makes the passes steps of their own."""
    operands = random_numbers.bit_generator.state
    results = []
    for reads_between in (False, True):
        random_numbers.bit_generator.state = operands
        builder = Builder()
        _, floats, scaled = dynamic(builder, random_numbers, (CHANNELS, 1, 1))
        addend = random_numbers.normal(0, 3, (CHANNELS, 1, 1)).astype(np.float32)
        builder.output(builder.node("Add", [scaled, addend]), "float32")
        if reads_between:
            builder.output(floats, "float32")
        steps = steps_of(builder)
        assert [step for step in steps if step in {SCALED, *THREE_PASSES[:2]}] == (
            THREE_PASSES[:2] if reads_between else [SCALED]
        )
        feeds = {"x": random_numbers.standard_normal(IMAGE, np.float32)}
        results.append(dmlcpu.InferenceSession(builder.build()).run(None, feeds)[0])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("length", [7, "H"])
def test_an_image_of_constants(random_numbers: np.random.Generator, length: int | str) -> None:
    """Positions follow from lengths alone, and so do their codes, scale and zero point."""
    builder = Builder()
    x = builder.input("float32", (2, CHANNELS, length, 7))
    lengths = builder.node("Concat", [np.int64([1, 3]), builder.node("Shape", [x], start=2)], axis=0)
    places = builder.node("ConstantOfShape", [lengths])
    places = builder.node("CumSum", [builder.node("Add", [places, np.float32(0.3)]), np.int64(2)])
    codes_of_places, scale, point = builder.node("DynamicQuantizeLinear", [places], 3)
    weights = codes(random_numbers, "int8", (CHANNELS, 3, 1, 1))
    sums = builder.node("Cast", [builder.node("ConvInteger", [codes_of_places, weights, point, np.int8(0)])], to=1)
    builder.output(builder.node("Add", [x, builder.node("Mul", [sums, scale])]), "float32")
    feeds = {"x": random_numbers.standard_normal((2, CHANNELS, 7, 7), np.float32)}
    assert_like_onnxruntime(builder.build(), feeds)
    session = dmlcpu.InferenceSession(builder.build())
    session.run(None, feeds)
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]


@pytest.mark.parametrize("operator", ["ConvInteger", "MatMulInteger"])
@pytest.mark.parametrize("reader", ["Add", "Sub", "Max", "ReduceSum"])
def test_sums_that_stay_integers(random_numbers: np.random.Generator, operator: str, reader: str) -> None:
    """Whatever reads them takes them as integers, in the same graph."""
    shape = IMAGE if operator == "ConvInteger" else (3, 8)
    builder = Builder()
    x = builder.input("uint8", shape)
    filters = [filter_codes(random_numbers) if operator == "ConvInteger" else codes(random_numbers, "int8", (8, 5))] * 2
    a, b = (builder.node(operator, [x, w]) for w in filters)
    result = builder.node("ReduceSum", [a, np.int64([1])]) if reader == "ReduceSum" else builder.node(reader, [a, b])
    builder.output(result, "int32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)}, 1)
