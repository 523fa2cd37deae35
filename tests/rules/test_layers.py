"""What networks are made of besides convolutions, as quantizers leave it: each node beside onnxruntime.

The same node is tried on codes with the same codes wanted again, on a function of codes that no codes stand for, and on
floats. Nodes that move or compare elements are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from onnx_cases import IMAGE, POINTS, SCALE, TYPES, Case, ints, qdq_of
from onnx_models import Builder, assert_like_onnxruntime, coded, codes

Array = NDArray[Any]
FLOATS: Final = np.random.default_rng((SEED, 1))


MOVED: Final = (
    Case("DepthToSpace", (2, 12, 3, 5), blocksize=2),
    Case("DepthToSpace", (2, 18, 3, 5), blocksize=3, mode="CRD"),
    Case("SpaceToDepth", (2, 3, 4, 6), blocksize=2),
    Case("Tile", IMAGE, [ints(1, 2, 1, 3)]),
    Case("Tile", (5,), [ints(3)]),
    Case("Gather", IMAGE, [ints(2, 0, 1, 1)], axis=1),
    Case("Gather", IMAGE, [ints(5, -1, 0)], axis=-1),
    Case("Gather", (2, 3, 40, 2), [ints(*(7 * i % 40 for i in range(60)))], axis=2),
    Case("Gather", (2, 3, 40), [ints(*(i * i % 40 for i in range(60)))], axis=2),
    Case("Gather", (2, 40, 3), [ints(*(7 * i % 40 for i in range(30)))], axis=1),
    Case("Gather", (1, 2, 40, 3, 2), [ints(*(7 * i % 40 for i in range(30)))], axis=2),
    Case("Gather", (40, 3), [ints(*(7 * i % 40 for i in range(30))).reshape(5, 6)], axis=0),
    Case("Slice", IMAGE, [ints(-1), ints(-99), ints(3), ints(-1)]),
    Case("Slice", (2, 30, 3), [ints(-1, 1), ints(-99, 3), ints(1, 2), ints(-2, 1)]),
    Case("Pad", IMAGE, [ints(0, 0, 1, 2, 0, 0, 3, 0)], mode="reflect"),
    Case("Pad", IMAGE, [ints(0, 2, 6, 2, 0, 0, 3, 5)], mode="reflect"),
    Case("Pad", IMAGE, [ints(1, 0, 1, 2, 0, 0, 3, 0)], mode="edge"),
    Case("Pad", IMAGE, [ints(0, 0, 1, 2, 0, 0, 3, 0)], mode="wrap", opset=19),
    Case("Pad", IMAGE, [ints(0, 0, -1, 2, 0, -1, 3, -2)]),
    Case("Pad", IMAGE, [ints(1, 2, 0, 1), np.float32(0.7), ints(-1, 1)], opset=18),
    Case("Pad", IMAGE, [ints(0, 0, 1, 2, 0, 0, 3, 0), np.float32(-100)]),
    Case("CenterCropPad", IMAGE, [ints(2, 3, 4, 3)], opset=18),
    Case("CenterCropPad", IMAGE, [ints(3, 3, 10, 11)], opset=18),
    Case("CenterCropPad", IMAGE, [ints(9, 3)], opset=18, axes=[-2, -1]),
    Case("CenterCropPad", IMAGE, [ints(7, 3, 6)], opset=18, axes=[2, 1, 3]),
    Case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    Case("MaxPool", (1, 2, 8, 9), kernel_shape=[2, 3], strides=[3, 4], pads=[1, 1, 0, 1], ceil_mode=1),
    Case("MaxPool", (2, 3, 10), kernel_shape=[3], strides=[2], ceil_mode=1),
    Case("MaxPool", IMAGE, kernel_shape=[9, 3], strides=[3, 2], ceil_mode=1),
    Case("GlobalMaxPool", IMAGE),
    Case("GlobalMaxPool", (2, 3, 9)),
    Case("ReduceMax", IMAGE, axes=[1]),
    Case("ReduceMax", IMAGE, axes=[-1, 2], keepdims=0),
    Case("ReduceMax", IMAGE, keepdims=0),
    Case("ReduceMax", (4, 7), [ints(-1)], opset=18),
    Case("ReduceMin", IMAGE, axes=[1]),
    Case("ReduceMin", IMAGE, axes=[-1, 2], keepdims=0),
    Case("ReduceMin", (4, 7), [ints(-1)], opset=18),
    Case(
        "Resize",
        IMAGE,
        ["", np.float32([1, 2, 3, 1])],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    Case("Reshape", IMAGE, [ints(2, 3, 42)]),
    Case("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    Case("Clip", IMAGE, [np.float32(0), np.float32(6)]),
    Case("Relu", IMAGE),
)

SUMMED: Final = (
    Case("AveragePool", IMAGE, most=1, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1),
    Case(
        "AveragePool",
        IMAGE,
        most=1,
        opset=19,
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
    ),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[50, 50], strides=[50, 50], ceil_mode=1, count_include_pad=1),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[9, 4], strides=[3, 4], pads=[1, 1, 0, 0], ceil_mode=1),
    Case("AveragePool", IMAGE, most=1, kernel_shape=[1, 5], pads=[0, 2, 0, 2]),
    Case("AveragePool", (2, 3, 9), most=1, kernel_shape=[3], strides=[2], pads=[1, 0]),
    Case("GlobalAveragePool", (2, 3, 9), most=1),
    Case("ReduceMean", IMAGE, most=1, axes=[1]),
    Case("ReduceMean", IMAGE, most=1, axes=[2]),
    Case("ReduceMean", IMAGE, most=1, axes=[3], keepdims=0),
    Case("ReduceMean", (2, 7, 6, 3), most=1, axes=[1, 2], keepdims=0),
    Case("ReduceMean", (2, 7, 6), [ints(1)], most=1, opset=18),
    Case("ReduceMean", (2, 7, 6), most=1, keepdims=0),
    Case("ReduceMean", (2, 3, 4, 5, 6), most=1, axes=[0, 2, 4]),
    Case("ReduceSum", IMAGE, [ints(2, 3)], 1, y_scale=2.0),
    Case("ReduceSum", IMAGE, [ints(1)], 1, keepdims=0),
    Case("ReduceSum", IMAGE, [ints()], 0, noop_with_empty_axes=1),
    Case("ReduceSumSquare", IMAGE, most=1, axes=[1], y_scale=0.3),
    Case("ReduceL1", IMAGE, most=1, axes=[1], y_scale=0.1),
    Case("ReduceL1", (2, 7, 6), most=1, keepdims=0, y_scale=1.7),
    Case("ReduceLogSumExp", IMAGE, most=1, axes=[-1]),
    Case("ReduceProd", (2, 3, 5), most=1, axes=[1], y_scale=0.3),
    Case("ReduceSumSquare", (2, 7, 6), most=1, axes=[1], keepdims=0, y_scale=0.3),
    Case("ReduceL2", IMAGE, most=1, axes=[-1]),
    Case("ReduceL2", IMAGE, most=1, axes=[2], keepdims=0),
    Case("ReduceL2", IMAGE, most=1, axes=[1, 3]),
    Case("BatchNormalization", IMAGE, [np.float32(row) for row in FLOATS.uniform(0.5, 2, (4, 3))], 1),
    Case("BatchNormalization", (5, 7), [np.float32(row) for row in FLOATS.uniform(0.5, 2, (4, 7))], 1),
    Case("BatchNormalization", (2, 3, 9), [np.float32([1, -2, 0.5]), *np.float32(FLOATS.uniform(1, 2, (3, 3)))], 1),
    Case("BatchNormalization", IMAGE, [np.float32([1, 0, 1e-30]), *np.float32(FLOATS.uniform(1, 2, (3, 3)))], 1),
    Case("Mul", IMAGE, [np.float32([0.3, -1.7, 2]).reshape(3, 1, 1)], 1),
    Case("Mul", IMAGE, [np.float32([0.3, 0, 2]).reshape(1, 3, 1, 1)], 1),
    Case("Add", IMAGE, [np.float32(FLOATS.normal(size=6))], 1),
    Case("Sub", IMAGE, [np.float32(FLOATS.normal(size=(7, 1)))], 1),
    Case("Div", IMAGE, [np.float32([0.7, -1.7, 2]).reshape(3, 1, 1)], 1),
    Case("PRelu", IMAGE, [np.float32([0.3, -0.25, 2]).reshape(3, 1, 1)], 1),
    Case("PRelu", IMAGE, [np.float32([0.3, 1, 1e-3]).reshape(3, 1, 1)], 1),
    Case("Max", IMAGE, [np.float32([0.3, -0.25, 2]).reshape(3, 1, 1), np.float32(0.1)], 1),
    Case("Sum", IMAGE, [np.float32([0.3, -0.25, 2]).reshape(3, 1, 1), np.float32(0.1)], 1),
    Case("Mean", IMAGE, [np.float32([0.3, -0.25, 2]).reshape(3, 1, 1), np.float32(0.1)], 1),
)


@pytest.mark.parametrize(("x_type", "y_type"), [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
@pytest.mark.parametrize("case", [*MOVED, *SUMMED], ids=repr)
def test_on_codes(random_numbers: np.random.Generator, case: Case, x_type: str, y_type: str) -> None:
    model = qdq_of(case.operator, x_type, y_type, case.shape, case.others, **case.options)
    assert_like_onnxruntime(model, {"x": codes(random_numbers, x_type, case.shape)}, case.most)


def chain_of(case: Case, first: Sequence[Any], dtype: str, quantize: bool) -> bytes:
    """A node behind another one, whose result no codes stand for; quantized behind it, or not."""
    options = {key: value for key, value in case.options.items() if key not in ("opset", "y_scale")}
    builder = Builder(case.options.get("opset", 17))
    value = builder.input(dtype, case.shape)
    if dtype != "float32":
        value = builder.dequantized(value, SCALE, POINTS[dtype])
    name, *others = first
    value = builder.node(name, [value, *others]) if name else value
    result = builder.node(case.operator, [value, *case.others], **options)
    if quantize:
        builder.output(builder.quantized(result, SCALE, POINTS["int8"]), "int8")
    else:
        builder.output(result, "float32")
    return builder.build()


def of_one_sign(case: Case, x: Array, zero: Any) -> Array:
    """Where one mean is the result, to which errors are in proportion: of both signs it might be next to nothing."""
    return np.maximum(x, zero) if case.operator == "ReduceMean" and case.options.keys() == {"keepdims"} else x


@pytest.mark.parametrize("first", [("Tanh",), ("HardSwish",), ("Neg",), ("Sub", np.float32(0.321))], ids=repr)
@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("case", [*MOVED, *SUMMED], ids=repr)
def test_on_functions_of_codes(
    random_numbers: np.random.Generator, case: Case, first: Sequence[Any], quantize: bool
) -> None:
    many = case.operator == "Gather" and case.others[0].size > 16
    backwards = case.operator == "Slice" and case.shape[1] == 30
    native = quantize or not (many or backwards)  # floats are not looked up one by one
    model = chain_of(case, first, "uint8", quantize)
    most = max(case.most, int(first[0] == "Tanh"))
    x = of_one_sign(case, codes(random_numbers, "uint8", case.shape), POINTS["uint8"])
    assert_like_onnxruntime(model, {"x": x}, most, native=native)


@pytest.mark.parametrize("case", [*MOVED, *SUMMED], ids=repr)
def test_on_floats(random_numbers: np.random.Generator, case: Case) -> None:
    many = case.operator == "Gather" and case.others[0].size > 16
    backwards = case.operator == "Slice" and case.shape[1] == 30
    x = of_one_sign(case, random_numbers.normal(size=case.shape).astype(np.float32), np.float32(0))
    assert_like_onnxruntime(chain_of(case, [""], "float32", False), {"x": x}, native=not (many or backwards))


GEMMS: Final = (
    ({"alpha": 0.5}, (5,)),
    ({"alpha": 0.5, "beta": 3.0, "transB": 1}, (5,)),
    ({"beta": 2.0}, (1, 5)),
    ({"beta": 2.0, "transA": 1}, ()),
    ({"transA": 1, "transB": 1}, (1,)),
)


@pytest.mark.parametrize(("attributes", "bias_shape"), GEMMS, ids=repr)
@pytest.mark.parametrize("on_codes", [False, True])
def test_products_with_factors(
    random_numbers: np.random.Generator, attributes: Mapping[str, float], bias_shape: tuple[int, ...], on_codes: bool
) -> None:
    shape = (8, 3) if attributes.get("transA") else (3, 8)
    matrix = codes(random_numbers, "int8", (5, 8) if attributes.get("transB") else (8, 5))
    builder, point = Builder(), POINTS["uint8"]
    x = builder.input("uint8", shape)
    if on_codes:
        plain = {key: value for key, value in attributes.items() if key != "beta"}
        operands = [x, np.float32(SCALE), point, matrix, np.float32(0.02), np.int8(0)]
        operands += [random_numbers.integers(-9999, 9999, 5, np.int32), np.float32(0.1), point]
        builder.output(builder.node("com.microsoft.QGemm", operands, **plain), "uint8")
    else:
        bias = random_numbers.normal(size=bias_shape).astype(np.float32)
        operands = [builder.dequantized(x, SCALE, point), builder.dequantized(matrix, 0.02, np.int8(0)), bias]
        builder.output(builder.quantized(builder.node("Gemm", operands, **attributes), 0.1, point), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)}, 1)


@pytest.mark.parametrize("operator", ["Pow", "PRelu", "Clip"])
def test_constants_that_are_dequantized(random_numbers: np.random.Generator, operator: str) -> None:
    """Quantizers take exponents, slopes and bounds for weights."""
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", IMAGE), SCALE, POINTS["uint8"])
    constants = [builder.dequantized(np.uint8(200), 0.01, np.uint8(0))]
    if operator == "Clip":
        constants.insert(0, builder.dequantized(np.uint8(20), 0.01, np.uint8(0)))
    if operator == "PRelu":
        constants = [builder.dequantized(np.uint8([[[200]]]), 0.01, np.uint8(0))]
    builder.output(builder.quantized(builder.node(operator, [value, *constants]), 0.1, np.uint8(3)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", IMAGE)}, 1)


@pytest.mark.parametrize("form", ["floats", "QDQ", "QOperator"])
@pytest.mark.parametrize("past", [0, 3])
def test_pasts_that_may_be_empty(random_numbers: np.random.Generator, form: str, past: int) -> None:
    """What a decoder's prompt has of the past is a constant without elements, in codes too."""
    builder = Builder()
    values = [builder.input("float32", (1, "past", 8), "past"), builder.input("float32", (1, 2, 8), "new")]
    points = [np.uint8(128), np.uint8(100)]
    if form != "floats":
        values = [builder.quantized(value, 0.05, point) for value, point in zip(values, points, strict=True)]
    if form == "QOperator":
        operands: list[Any] = [np.float32(0.05), points[0]]
        for value, point in zip(values, points, strict=True):
            operands += [value, np.float32(0.05), point]
        joined = builder.dequantized(builder.node("com.microsoft.QLinearConcat", operands, axis=1), 0.05, points[0])
    else:
        if form == "QDQ":
            values = [builder.dequantized(value, 0.05, point) for value, point in zip(values, points, strict=True)]
        joined = builder.node("Concat", values, axis=1)
    builder.output(joined, "float32")
    builder.output(builder.node("MatMul", [joined, np.ones((8, 3), np.float32)]), "float32")
    feeds = {"past": random_numbers.normal(size=(1, past, 8)), "new": random_numbers.normal(size=(1, 2, 8))}
    assert_like_onnxruntime(builder.build(), {name: array.astype(np.float32) for name, array in feeds.items()}, 0.051)


@pytest.mark.parametrize("is_coded", [False, True])
def test_nothing_but_pasts_that_are_empty(random_numbers: np.random.Generator, is_coded: bool) -> None:
    """A Concat of one past alone, as caches are exported, and then of it and what is new."""
    builder = Builder()
    past, new = builder.input("float32", (1, "past", 8), "past"), builder.input("float32", (1, 2, 8), "new")
    point = np.uint8(128)
    if is_coded:
        past, new = (builder.dequantized(builder.quantized(x, 0.05, point), 0.05, point) for x in (past, new))
    cache = builder.node("Concat", [past], axis=1)
    cache = builder.dequantized(builder.quantized(cache, 0.05, point), 0.05, point) if is_coded else cache
    builder.output(builder.node("Concat", [cache, new], axis=1), "float32")
    model = builder.build()
    for length in (0, 3):
        feeds = {"past": random_numbers.normal(size=(1, length, 8)), "new": random_numbers.normal(size=(1, 2, 8))}
        assert_like_onnxruntime(model, {name: array.astype(np.float32) for name, array in feeds.items()}, 1e-6)
        session = dmlcpu.InferenceSession(model)
        session.run(None, {name: array.astype(np.float32) for name, array in feeds.items()})
        assert all(partition.provider == "dmlcpu" for partition in session.partitions()), length


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_padding_of_integers(random_numbers: np.random.Generator, dtype: str) -> None:
    """Numbers that no float32 is, too."""
    builder = Builder()
    x = builder.input(dtype, (3, 5))
    fill = np.array(2**30 + 1, dtype)
    builder.output(builder.node("Pad", [x, ints(1, 0, 0, 2), fill]), dtype)
    builder.output(builder.node("Pad", [x, ints(0, -2, 1, 3)]), dtype)
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.integers(-9, 9, (3, 5)).astype(dtype)}, equal=True)


WINDOW: Final[Mapping[str, Sequence[int]]] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
CHANNELS_LAST: Final[Mapping[str, Mapping[str, Any]]] = {
    "NhwcMaxPool": WINDOW,
    "QLinearConv": {"channels_last": 1, **WINDOW},
    "QLinearAveragePool": {"channels_last": 1, **WINDOW},
    "QLinearGlobalAveragePool": {"channels_last": 1},
}


@pytest.mark.parametrize("operator", CHANNELS_LAST)
@pytest.mark.parametrize("dtype", TYPES)
def test_channels_last(random_numbers: np.random.Generator, operator: str, dtype: str) -> None:
    """As onnxruntime writes a model that it has optimized."""
    builder, point, shape = Builder(), POINTS[dtype], (2, 7, 6, 4)
    operands = [builder.input(dtype, shape)]
    if operator == "QLinearConv":
        operands += [
            np.float32(SCALE),
            point,
            codes(random_numbers, "int8", (5, 4, 3, 2)),
            np.float32(0.01),
            np.int8(0),
        ]
        operands += [np.float32(0.3), point]
    elif operator != "NhwcMaxPool":
        operands += [np.float32(SCALE), point, np.float32(0.03), point]
    builder.output(builder.node(f"com.microsoft.{operator}", operands, **CHANNELS_LAST[operator]), dtype)
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, dtype, shape)}, 1)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("spatial", [(3, 5), (7, 8)])
def test_poolings_of_no_images(operator: str, spatial: tuple[int, int]) -> None:
    """Are of the shape that those of one image are, but for the first length."""
    builder = Builder()
    window = {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1}
    builder.output(builder.node(operator, [builder.input("float32", ("N", 4, *spatial))], **window), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    shapes = [session.run(None, {"x": np.zeros((count, 4, *spatial), np.float32)})[0].shape for count in (0, 1, 0)]
    assert shapes == [(count, *shapes[1][1:]) for count in (0, 1, 0)]


@pytest.mark.parametrize("of_codes", [False, True])
@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("is_free", [False, True])
def test_poolings_of_images_without_pixels(operator: str, of_codes: bool, is_free: bool) -> None:
    """Have no result, where they have one."""
    builder = Builder()
    x = builder.input("float32", (2, 3, *(("rows", "columns") if is_free else (0, 4))))
    window = {} if operator.startswith("Global") else {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}
    builder.output(builder.node(operator, [coded(builder, x) if of_codes else x], **window), "float32")
    with pytest.raises(dmlcpu.DmlError, match=operator):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((2, 3, 0, 4), np.float32)})


@pytest.mark.parametrize("order", [(0, 0), (0, 2), (-1, 0)], ids=str)
def test_transpositions_that_are_none(order: tuple[int, ...]) -> None:
    builder = Builder()
    x = builder.node("Relu", [builder.input("float32", (2, 3))])
    builder.output(builder.node("Transpose", [x], perm=order), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"^(?!.*graph: ).*Transpose"):
        dmlcpu.InferenceSession(builder.build())
