"""Nodes in the forms that they had from opset 10 on: attributes that became inputs, defaults that changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from conftest import SEED
from onnx_cases import ints
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

SHAPE: Final = (2, 4, 7, 6)
STATISTICS: Final = np.random.default_rng((SEED, 1)).uniform(0.5, 1.5, (4, 4)).astype(np.float32)


def over_axes(builder: Builder, operator: str, value: str, axes: Sequence[int], since: int, **options: Any) -> Any:
    """Axes are an attribute, and an input since a version."""
    if builder.opset >= since:
        return builder.node(operator, [value, ints(*axes)], **options)
    return builder.node(operator, [value], axes=list(axes), **options)


def padded(builder: Builder, value: str, mode: str) -> Any:
    pads = [0, 0, 1, 2, 0, 0, 0, 1]
    if builder.opset >= 11:
        return builder.node("Pad", [value, ints(*pads), np.float32(0)], mode=mode)
    return builder.node("Pad", [value], pads=pads, value=0.0, mode=mode)


def clipped(builder: Builder, value: str) -> Any:
    if builder.opset >= 11:
        return builder.node("Clip", [value, np.float32(0), np.float32(6)])
    return builder.node("Clip", [value], min=0.0, max=6.0)


def split(builder: Builder, value: str) -> Any:
    if builder.opset >= 13:
        return builder.node("Split", [value, ints(1, 3)], count=2, axis=1)[1]
    return builder.node("Split", [value], count=2, axis=1, split=[1, 3])[1]


def split_evenly(builder: Builder, value: str) -> Any:
    options = {"num_outputs": 2} if builder.opset >= 18 else {}
    return builder.node("Split", [value], count=2, axis=1, **options)[0]


def resized(builder: Builder, value: str, mode: str) -> Any:
    scales = np.float32([1, 1, 2, 2])
    if builder.opset == 10:
        return builder.node("Resize", [value, scales], mode=mode)
    return builder.node("Resize", [value, np.float32([]), scales], mode=mode)


def pooled(builder: Builder, value: str, operator: str, **options: Any) -> Any:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return builder.node(operator, [value], ceil_mode=1, **window, **options)


NODES: Final[Mapping[str, Callable[[Builder, str], Any]]] = {
    "padding": lambda builder, x: padded(builder, x, "constant"),
    "reflection": lambda builder, x: padded(builder, x, "reflect"),
    "mean of planes": lambda builder, x: over_axes(builder, "ReduceMean", x, (2, 3), 18, keepdims=0),
    "mean of channels": lambda builder, x: over_axes(builder, "ReduceMean", x, (1,), 18),
    "maximum": lambda builder, x: over_axes(builder, "ReduceMax", x, (-1,), 18),
    "sum": lambda builder, x: over_axes(builder, "ReduceSum", x, (2,), 13),
    "length": lambda builder, x: over_axes(builder, "ReduceL2", x, (1,), 18),
    "axes more": lambda builder, x: over_axes(builder, "Unsqueeze", x, (1,), 13),
    "axes less": lambda builder, x: over_axes(
        builder, "Squeeze", over_axes(builder, "ReduceMean", x, (2, 3), 18), (2, 3), 13
    ),
    "bounds": clipped,
    "parts": split,
    "equal parts": split_evenly,
    "nearest": lambda builder, x: resized(builder, x, "nearest"),
    "linear": lambda builder, x: resized(builder, x, "linear"),
    "averages": lambda builder, x: pooled(builder, x, "AveragePool"),
    "averages with padding": lambda builder, x: pooled(builder, x, "AveragePool", count_include_pad=1),
    "maxima": lambda builder, x: pooled(builder, x, "MaxPool"),
    "slice": lambda builder, x: builder.node("Slice", [x, ints(1), ints(5), ints(2)]),
    "blocks": lambda builder, x: builder.node("DepthToSpace", [x], blocksize=2),
    "normalization": lambda builder, x: builder.node("BatchNormalization", [x, *STATISTICS]),
    "repetition": lambda builder, x: builder.node("Tile", [x, ints(1, 1, 2, 1)]),
    "slopes": lambda builder, x: builder.node("PRelu", [x, STATISTICS[0].reshape(4, 1, 1)]),
    "square": lambda builder, x: builder.node("Pow", [x, np.float32(2)]),
    "dropout": lambda builder, x: builder.node("Dropout", [x]),
    "indices": lambda builder, x: builder.node("Gather", [x, ints(3, 0, 1)], axis=1),
    "sum of three": lambda builder, x: builder.node("Sum", [x, x, builder.node("Relu", [x])]),
    "softmax": lambda builder, x: builder.node("Softmax", [x], axis=3),
}


@pytest.mark.parametrize("opset", range(10, 22))
@pytest.mark.parametrize("name", NODES)
def test_node(random_numbers: np.random.Generator, name: str, opset: int) -> None:
    builder = Builder(opset)
    value = builder.dequantized(builder.input("uint8", SHAPE), 0.05, np.uint8(120))
    builder.output(builder.quantized(NODES[name](builder, value), 0.06, np.uint8(110)), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("is_branch", [False, True])
def test_domain_that_is_not_imported(random_numbers: np.random.Generator, is_branch: bool, is_native: bool) -> None:
    """Tools write nodes of com.microsoft and no import, as where they quantize branches."""
    builder = Builder()
    x = builder.input("float32", (3, 4))
    operators = ("com.microsoft.Gelu", "com.microsoft.Trilu" if not is_native else "com.microsoft.QuickGelu")
    if is_branch:
        branches = []
        for name, operator in zip(("then", "else"), operators, strict=True):
            branch = Builder(prefix=name)
            branch.output(branch.node(operator, [x]), "float32")
            branches.append(branch.graph())
        condition = builder.input("bool", (), "condition")
        builder.output(builder.node("If", [condition], then_branch=branches[0], else_branch=branches[1]), "float32")
    else:
        value = x
        for operator in operators:
            value = builder.node(operator, [value])
        builder.output(value, "float32")
    proto = builder.proto()
    [imported] = (entry for entry in proto.opset_import if entry.domain == "com.microsoft")
    proto.opset_import.remove(imported)
    feeds = {"x": random_numbers.normal(0, 1, (3, 4)).astype(np.float32)}
    session = dmlcpu.InferenceSession(proto.SerializeToString())
    for condition in (False, True) if is_branch else (None,):
        if condition is not None:
            feeds["condition"] = np.array(condition)
        [result] = session.run(None, feeds)
        [expected] = results_of_onnxruntime(proto.SerializeToString(), feeds)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        is_foreign = not is_native and condition is not True
        assert {part.provider for part in session.partitions()} >= ({"onnxruntime"} if is_foreign else {"dmlcpu"})


@pytest.mark.parametrize(("precision", "is_native"), [(0, True), (1, True), (11, False)])
def test_the_precision_of_quantization(precision: int, is_native: bool) -> None:
    """Which opset 23 introduced: of FLOAT, or of another type."""
    builder = Builder(23)
    x = builder.input("float32", (4, 6))
    builder.output(builder.node("QuantizeLinear", [x, np.float32(0.1), np.uint8(3)], precision=precision), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    assert ({part.provider for part in session.partitions()} == {"dmlcpu"}) is is_native
