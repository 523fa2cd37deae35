"""Layer normalization in models: on codes, on floats, in one node or spelled out, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, steps_of
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]

SHAPE = (2, 5, 40)
POINT = {"uint8": np.uint8(121), "int8": np.int8(-7)}


def parameters(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return rng.normal(1, 0.3, shape).astype(np.float32), rng.normal(0, 0.3, shape).astype(np.float32)


@pytest.mark.parametrize(("x_type", "y_type"), [(x, y) for x in POINT for y in POINT])
@pytest.mark.parametrize("axis", [-1, 1, -3])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_of_codes(random_numbers: np.random.Generator, x_type: str, y_type: str, axis: int, is_quantized: bool) -> None:
    """Codes to codes, and the floats read besides."""
    shape = SHAPE[axis:]
    builder = Builder()
    value = builder.dequantized(builder.input(x_type, SHAPE), 0.043, POINT[x_type])
    others: list[Any] = list(parameters(random_numbers, shape))
    if is_quantized:
        others = [
            builder.dequantized(codes(random_numbers, "int8", shape), 0.01, np.int8(0)),
            builder.dequantized(random_numbers.integers(-999, 999, shape, np.int32), 0.001, np.int32(0)),
        ]
    result = builder.node("LayerNormalization", [value, *others], axis=axis, epsilon=1e-3)
    builder.output(builder.quantized(result, 0.02, POINT[y_type]), y_type)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, x_type, SHAPE)}, 1)


def test_codes_stay_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.043, np.uint8(9))
    result = builder.node("LayerNormalization", [value, *parameters(random_numbers, SHAPE[-1:])])
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    assert steps_of(builder.build()) == ["QUANTIZED_LAYER_NORMALIZATION"]


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_of_floats(random_numbers: np.random.Generator, axis: int, with_bias: bool) -> None:
    weight, bias = parameters(random_numbers, SHAPE[axis:])
    builder = Builder()
    operands = [builder.input("float32", SHAPE), weight, *([bias] if with_bias else [])]
    result = builder.node("LayerNormalization", operands, axis=axis)
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    builder.output(result, "float32")
    x = random_numbers.normal(1, 3, SHAPE).astype(np.float32)
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)


def test_of_a_function_of_codes(random_numbers: np.random.Generator) -> None:
    """Of a table that is no scale, and of one weight for all places."""
    builder = Builder()
    value = builder.node("Sigmoid", [builder.dequantized(builder.input("uint8", SHAPE), 0.043, np.uint8(99))])
    result = builder.node("LayerNormalization", [value, np.full(1, 1.5, np.float32)])
    builder.output(builder.quantized(result, 0.02, np.uint8(100)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


@pytest.mark.parametrize("case", ["mean", "computed weight", "FLOAT16"])
def test_others_run_elsewhere(random_numbers: np.random.Generator, case: str) -> None:
    weight, bias = parameters(random_numbers, SHAPE[-1:])
    builder = Builder()
    x = random_numbers.normal(1, 3, SHAPE).astype(np.float16 if case == "FLOAT16" else np.float32)
    feeds = {"x": x}
    operands: list[Any] = [builder.input(x.dtype, SHAPE), weight.astype(x.dtype), bias.astype(x.dtype)]
    if case == "computed weight":
        operands[1] = builder.input("float32", weight.shape, "w")
        feeds["w"] = weight
    results = builder.node("LayerNormalization", operands, count=2 if case == "mean" else 1)
    for result in [results] if isinstance(results, str) else results:
        builder.output(result, x.dtype)
    model = builder.build()
    assert_like_onnxruntime(model, feeds, native=False)
    session = dmlcpu.InferenceSession(model)
    session.run(None, feeds)
    assert [partition.provider for partition in session.partitions()] == ["onnxruntime"]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("form", ["floats", "codes", "quantized"])
def test_logarithms_of_softmax(random_numbers: np.random.Generator, axis: int, form: str) -> None:
    builder = Builder()
    x = builder.input("float32" if form == "floats" else "uint8", (2, 9, 30))
    value = x if form == "floats" else builder.dequantized(x, 0.1, np.uint8(128))
    result = builder.node("LogSoftmax", [value], axis=axis)
    if form == "quantized":
        builder.output(builder.quantized(result, 0.1, np.uint8(250)), "uint8")
    else:
        builder.output(result, "float32")
    feed = codes(random_numbers, "uint8", (2, 9, 30))
    feeds = {"x": (feed.astype(np.float32) - 99) if form == "floats" else feed}
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_logarithms_of_softmax_of_what_is_far_apart() -> None:
    """Shares that float32 has no number for have logarithms."""
    builder = Builder()
    builder.output(builder.node("LogSoftmax", [builder.input("float32", (1, 4))], axis=-1), "float32")
    feed = np.float32([[-2000, 0, 1000, 1000]])
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
    np.testing.assert_allclose(result, [[-3000 - np.log(2), -1000 - np.log(2), -np.log(2), -np.log(2)]], rtol=2e-7)


@pytest.mark.parametrize("shape", [(2, 6, 50), (1, 6, 7, 9), (3, 6, 2, 3, 4)])
@pytest.mark.parametrize("form", ["instances", "groups", "groups' weights", "codes"])
def test_normalization_of_channels(random_numbers: np.random.Generator, shape: tuple[int, ...], form: str) -> None:
    builder = Builder(18 if form == "groups' weights" else 21)
    x = builder.input("uint8" if form == "codes" else "float32", shape)
    value = builder.dequantized(x, 0.1, np.uint8(128)) if form == "codes" else x
    count = 3 if form == "groups' weights" else 6
    parameters = [random_numbers.normal(1, 1, count).astype(np.float32) for _ in range(2)]
    if form in ("instances", "codes"):
        result = builder.node("InstanceNormalization", [value, *parameters], epsilon=1e-3)
    else:
        result = builder.node("GroupNormalization", [value, *parameters], num_groups=3)
    builder.output(result, "float32")
    feed = codes(random_numbers, "uint8", shape)
    feeds = {"x": feed if form == "codes" else feed.astype(np.float32) / 64}
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("is_coded", [False, True])
@pytest.mark.parametrize("weights", [(1, 1, 1, 2), (2, 2, 2, 2)], ids=str)
def test_normalization_of_channels_of_any_length(weights: tuple[float, ...], is_coded: bool) -> None:
    """Such as those of sounds: one template is enough."""
    builder = Builder()
    x = builder.input("float32", ("N", 4, "T"))
    value = builder.dequantized(builder.quantized(x, 0.1, np.uint8(128)), 0.1, np.uint8(128)) if is_coded else x
    result = builder.node("InstanceNormalization", [value, np.float32(weights), np.full(4, 0.5, np.float32)])
    result = builder.quantized(result, 0.02, np.uint8(120)) if is_coded else result
    builder.output(result, "uint8" if is_coded else "float32")
    shapes = [{"x": (count, 4, length)} for count in (2, 3) for length in (5, 100, 111)]
    assert_templates_follow_the_rules(builder.build(), shapes, 1)


@pytest.mark.parametrize("shape", [(2, 6, 50), (1, 6, 7, 9), (3, 6, 2, 3, 4)])
@pytest.mark.parametrize("parameters", [(1, 0), (1.7, -0.3)])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_normalization_of_channels_alike(
    random_numbers: np.random.Generator, shape: tuple[int, ...], parameters: tuple[float, float], dtype: str
) -> None:
    """Exported group normalizations have no weights of their own; these follow. Codes are read and written."""
    builder = Builder()
    value = builder.dequantized(
        builder.input(dtype, shape), 0.1, np.array(-7, dtype) if dtype == "int8" else np.uint8(99)
    )
    grouped = builder.node("Reshape", [value, np.int64([0, 3, -1])])
    normalized = builder.node(
        "InstanceNormalization", [grouped, *(np.full(3, each, np.float32) for each in parameters)]
    )
    result = builder.node("Reshape", [normalized, np.int64(shape)])
    builder.output(builder.quantized(result, 0.02, np.uint8(120)), "uint8")
    model, feeds = builder.build(), {"x": codes(random_numbers, dtype, shape)}
    assert_like_onnxruntime(model, feeds, 1)
    [part] = dmlcpu.InferenceSession(model).partitions()
    assert {"QUANTIZED_GROUP_NORMALIZATION"} <= {step.type for step in part.steps}
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize("shape", [(2, 6, 50), (1, 6, 7, 9), (3, 6, 2, 3, 4)])
@pytest.mark.parametrize("groups", [6, 3, 1])
@pytest.mark.parametrize(("x_type", "y_type"), [(x, y) for x in POINT for y in POINT])
def test_normalization_of_channels_from_codes_to_codes(
    random_numbers: np.random.Generator, shape: tuple[int, ...], groups: int, x_type: str, y_type: str
) -> None:
    """A weight and a bias for each channel; the floats read besides."""
    builder = Builder(21)
    value = builder.dequantized(builder.input(x_type, shape), 0.043, POINT[x_type])
    operator = "InstanceNormalization" if groups == 6 else "GroupNormalization"
    attributes = {} if groups == 6 else {"num_groups": groups}
    result = builder.node(operator, [value, *parameters(random_numbers, (6,))], epsilon=1e-3, **attributes)
    builder.output(builder.quantized(result, 0.02, POINT[y_type]), y_type)
    feeds = {"x": codes(random_numbers, x_type, shape)}
    assert steps_of(builder.build()) == ["QUANTIZED_GROUP_NORMALIZATION"]
    assert_like_onnxruntime(builder.build(), feeds, 1)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_exported_groups_of_a_function_of_codes(random_numbers: np.random.Generator) -> None:
    """Groups are normalized where their channels lie: what is between the reshapes has the layout of the images."""
    shape = (1, 6, 7, 9)
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", shape), 0.05, np.uint8(99))
    pooled = builder.node("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    function = builder.node("Sigmoid", [pooled])
    grouped = builder.node("Reshape", [function, np.int64([0, 3, -1])])
    grouped = builder.dequantized(builder.quantized(grouped, 1 / 256, np.uint8(0)), 1 / 256, np.uint8(0))
    weights = np.float32([1.5, 0.5, 1]), np.float32([0, 0.5, -0.5])
    normalized = builder.node("InstanceNormalization", [grouped, *weights])
    codes_of_rows = builder.quantized(normalized, 0.03, np.uint8(120))
    result = builder.node("Reshape", [builder.dequantized(codes_of_rows, 0.03, np.uint8(120)), np.int64(shape)])
    again = builder.node("MaxPool", [result], kernel_shape=[1, 3])
    builder.output(builder.quantized(again, 0.03, np.uint8(120)), "uint8")
    model = builder.build()
    assert_like_onnxruntime(model, {"x": codes(random_numbers, "uint8", shape)}, 1)
    assert steps_of(model) == ["MAX_POOLING", "CODE_TABLE", "QUANTIZED_GROUP_NORMALIZATION", "MAX_POOLING"]


@pytest.mark.parametrize("shape", [(2, 6, 50), (1, 6, 7, 9), (3, 6, 2, 3, 4)])
@pytest.mark.parametrize(
    "form",
    [
        "scaled",
        "product",
        "sum",
        "difference",
        "of all",
        "no axis before",
        "negative",
        "sum before",
        "twice",
        "columns",
    ],
)
def test_exported_groups_of_floats(random_numbers: np.random.Generator, shape: tuple[int, ...], form: str) -> None:
    """Products and sums that follow are of the channels, with the bits that they have by themselves."""
    weight, bias = parameters(random_numbers, (6, *(1,) * (len(shape) - 2)))
    others = {
        "scaled": [("Mul", weight), ("Add", bias)],
        "product": [("Mul", weight)],
        "sum": [("Add", bias)],
        "difference": [("Sub", bias)],
        "of all": [("Mul", weight[0]), ("Add", bias[np.newaxis])],
        "no axis before": [("Mul", weight[:1]), ("Add", bias)],
        "negative": [("Mul", -weight), ("Add", bias)],
        "sum before": [("Add", bias), ("Mul", weight)],
        "twice": [("Mul", weight), ("Mul", weight)],
        "columns": [("Mul", np.broadcast_to(weight, (6, *shape[2:])).copy())],
    }[form]
    builder = Builder()
    grouped = builder.node("Reshape", [builder.input("float32", shape), np.int64([0, 3, -1])])
    normalized = builder.node("InstanceNormalization", [grouped, np.ones(3, np.float32), np.zeros(3, np.float32)])
    result = builder.node("Reshape", [normalized, np.int64(shape)])
    whole = result
    for operator, operand in others:
        result = builder.node(operator, [result, operand])
    builder.output(result, "float32")
    model, x = builder.build(), random_numbers.normal(3, 5, shape).astype(np.float32)
    x[:, :2] = 7  # a group that is its mean: zeros, which have a sign
    feeds = {"x": x}
    assert_like_onnxruntime(model, feeds)
    left = form in ("difference", "sum before", "twice", "columns")
    assert steps_of(model) == ["GROUP_NORMALIZATION", *["ELEMENT_WISE_BINARY"] * left]
    builder.output(whole, "float32")
    assert steps_of(builder) == ["GROUP_NORMALIZATION", *["ELEMENT_WISE_BINARY"] * len(others)]
    [together] = dmlcpu.InferenceSession(model).run(None, feeds)
    alone = dmlcpu.InferenceSession(builder.build()).run(None, feeds)[0]
    np.testing.assert_array_equal(together.view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("operator", ["Mul", "Add"])
def test_one_channel_that_becomes_several(random_numbers: np.random.Generator, operator: str) -> None:
    """What has a number for each of four channels is no weight of the one that is normalized."""
    builder = Builder()
    x = builder.input("float32", (2, 1, 24))
    normalized = builder.node("InstanceNormalization", [x, np.ones(1, np.float32), np.zeros(1, np.float32)])
    several = builder.node(operator, [normalized, np.float32([[1], [2], [3], [-4]])])
    builder.output(several, "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(3, 5, (2, 1, 24)).astype(np.float32)}, 1)


@pytest.mark.parametrize(("operator", "is_second"), [("Sub", False), ("Sub", True), ("Div", False), ("Max", False)])
def test_groups_before_what_is_no_weight_and_no_bias(
    random_numbers: np.random.Generator, operator: str, is_second: bool
) -> None:
    builder = Builder()
    x = builder.input("float32", (2, 3, 20))
    normalized = builder.node("InstanceNormalization", [x, np.ones(3, np.float32), np.zeros(3, np.float32)])
    operands = [normalized, random_numbers.uniform(1, 2, (3, 1)).astype(np.float32)]
    result = builder.node(operator, operands[::-1] if is_second else operands)
    builder.output(result, "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (2, 3, 20))})


def test_groups_in_a_shape_that_does_not_fit() -> None:
    """Found where the model is run, of lengths that are free: the node that asks for it is named."""
    builder = Builder()
    x = builder.node("Reshape", [builder.input("float32", (2, 8, "rows", "columns")), np.int64([0, 4, -1])])
    normalized = builder.node("InstanceNormalization", [x, np.ones(4, np.float32), np.zeros(4, np.float32)])
    builder.output(builder.node("Reshape", [normalized, np.int64([0, 8, -1, 3])]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    assert session.run(None, {"x": np.ones((2, 8, 3, 6), np.float32)})[0].shape == (2, 8, 6, 3)
    for rows in (1, 2):
        with pytest.raises(dmlcpu.BindingError, match="Reshape"):
            session.run(None, {"x": np.ones((2, 8, rows, rows), np.float32)})


def test_logarithms(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    builder.output(builder.node("Log", [builder.input("float32", (3, 50))]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.exp(random_numbers.normal(0, 9, (3, 50))).astype(np.float32)})


@pytest.mark.parametrize("operator", ["Sin", "Cos"])
def test_waves(random_numbers: np.random.Generator, operator: str) -> None:
    """As of positions times frequencies, and of anything else."""
    builder = Builder()
    builder.output(builder.node(operator, [builder.input("float32", (3, 50))]), "float32")
    angles = random_numbers.uniform(0, 4096, (3, 50)).astype(np.float32)
    angles[2] = random_numbers.integers(0, 2**32, 50, np.uint32).view(np.float32)
    angles[2, ~np.isfinite(angles[2])] = -3.5
    assert_like_onnxruntime(builder.build(), {"x": angles})


def test_a_norm_of_constants(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    rows, weight = (random_numbers.normal(0, 1, shape).astype(np.float32) for shape in ((5, 8), 8))
    norm = builder.node("LayerNormalization", [rows, weight, weight])
    builder.output(builder.node("Add", [builder.input("float32", (5, 8)), norm]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones((5, 8), np.float32)})


@pytest.mark.parametrize("is_branch", [False, True])
def test_a_bias_told_to_be_none_beside_nodes_without_kernels(is_branch: bool) -> None:
    """By itself onnxruntime ends the process on it, and normalizes where the bias is not named."""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    feeds = {"x": x, "d": np.full((2, 4), 3, np.float32), "t": np.array([False])}
    results = []
    for bias in (', ""', ""):
        node = f"n = LayerNormalization(m, s{bias})"
        if is_branch:
            node = f"n = If <then_branch = b () => (n) {{ {node} }}, else_branch = c () => (n) {{ n = Neg(m) }}> (u)"
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x, float[2,4] d, bool[1] t) => (float[2,4] y) '
            f"<float[4] s = {{1, 2, 3, 4}}> {{ u = Not(t) m = Mod <fmod = 1> (x, d) {node} y = Mod <fmod = 1> (n, d) }}"
        )
        results += dmlcpu.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(*results)
    assert np.abs(results[0]).max() > 0
