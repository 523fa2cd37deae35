"""BatchNormalization behind a convolution of floats: its filter and bias, where these are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, steps_of

Array = NDArray[Any]


def statistics(rng: np.random.Generator, channels: int) -> list[Array]:
    """Scale, bias, mean and variance."""
    return [*(floats(rng, (channels,)) for _ in range(3)), rng.uniform(0.5, 2, channels).astype(np.float32)]


def operators_of(builder: Builder) -> list[str]:
    """The nodes that run in place of a model's."""
    return [node.operator for node in load_model(builder.build(), to_run=True).nodes]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    ("shape", "filter_shape", "groups"),
    [
        ((2, 6, 9, 7), (4, 6, 3, 3), 1),
        ((2, 6, 9, 7), (6, 1, 3, 3), 6),
        ((1, 6, 9), (4, 3, 5), 2),
        ((1, 3, 5, 6, 7), (4, 3, 1, 3, 2), 1),
    ],
    ids=["image", "depthwise", "sequence", "volume"],
)
def test_convolutions(
    random_numbers: np.random.Generator,
    shape: tuple[int, ...],
    filter_shape: tuple[int, ...],
    groups: int,
    has_bias: bool,
    num_threads: int,
    isa: str,
) -> None:
    """The same bits as of a convolution with the filter and the bias of both nodes."""
    channels = filter_shape[0]
    x, filters = floats(random_numbers, shape), floats(random_numbers, filter_shape)
    bias = floats(random_numbers, (channels,)) if has_bias else np.zeros(channels, np.float32)
    scale, shift, mean, variance = numbers = statistics(random_numbers, channels)
    factor = scale / np.sqrt(variance.astype(np.float64) + np.float32(0.01))
    whole = (filters * factor.reshape(-1, *(1,) * (len(shape) - 1))).astype(np.float32)
    results, device = [], dmlcpu.Device(isa=isa, num_threads=num_threads)
    for is_folded in (False, True):
        builder = Builder(17)
        name = builder.input("float32", ("batch", *shape[1:]))
        if is_folded:
            addends = ((bias.astype(np.float64) - mean) * factor + shift).astype(np.float32)
            result = builder.node("Conv", [name, whole, addends], group=groups)
        else:
            result = builder.node("Conv", [name, filters, *([bias] if has_bias else [])], group=groups)
            result = builder.node("BatchNormalization", [result, *numbers], epsilon=0.01)
        builder.output(builder.node("Relu", [result]), "float32")
        assert operators_of(builder) == ["Conv", "Relu"]
        results += dmlcpu.InferenceSession(builder.build(), device=device).run(None, {"x": x})
        if not is_folded:
            assert_like_onnxruntime(builder.build(), {"x": x})
    assert np.array_equal(*results)


def test_one_after_the_other(random_numbers: np.random.Generator) -> None:
    """The first is folded, and the second one follows."""
    builder = Builder(17)
    value = builder.node("Conv", [builder.input("float32", (1, 3, 8, 8)), floats(random_numbers, (4, 3, 3, 3))])
    for _ in range(2):
        value = builder.node("BatchNormalization", [value, *statistics(random_numbers, 4)])
    value = builder.node("Conv", [value, floats(random_numbers, (5, 4, 1, 1))])
    builder.output(builder.node("BatchNormalization", [value, *statistics(random_numbers, 5)]), "float32")
    assert operators_of(builder) == ["Conv", "BatchNormalization", "Conv"]
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 3, 8, 8))})


@pytest.mark.parametrize(
    "case", ["read twice", "output", "computed filter", "codes", "computed mean", "no number", "epsilon", "opset 7"]
)
def test_forms(random_numbers: np.random.Generator, case: str) -> None:
    builder = Builder(7 if case == "opset 7" else 17)
    x, filters = floats(random_numbers, (1, 3, 8, 8)), floats(random_numbers, (4, 3, 3, 3))
    numbers: list[Any] = statistics(random_numbers, 4)
    feeds = {"x": x}
    weights: Any = filters
    if case == "computed filter":
        weights, feeds["w"] = builder.input("float32", filters.shape, "w"), filters
    if case == "codes":
        weights = builder.dequantized(codes(random_numbers, "int8", filters.shape), 0.01, np.int8(0))
    if case == "computed mean":
        feeds["mean"], numbers[2] = numbers[2], builder.input("float32", (4,), "mean")
    if case == "no number":
        numbers[0][1], numbers[3][1] = 0, 0
    convolved = builder.node("Conv", [builder.input("float32", x.shape), weights])
    epsilon = 0.0 if case == "no number" else 0.25
    normalized = builder.node("BatchNormalization", [convolved, *numbers], epsilon=epsilon)
    if case == "read twice":
        normalized = builder.node("Add", [normalized, convolved])
    builder.output(normalized, "float32")
    if case == "output":
        builder.output(convolved, "float32")
    assert ("BatchNormalization" in operators_of(builder)) == (case != "epsilon")
    if case == "no number":  # of the channel whose variance is 0
        [result] = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
        assert np.isnan(result[:, 1]).all()
        assert np.isfinite(result[:, [0, 2, 3]]).all()
    else:
        assert_like_onnxruntime(builder.build(), feeds, native=case != "computed mean")


def test_channels_of_another_number(random_numbers: np.random.Generator) -> None:
    builder = Builder(17)
    value = builder.node("Conv", [builder.input("float32", (1, 3, 8, 8)), floats(random_numbers, (4, 3, 3, 3))])
    builder.output(builder.node("BatchNormalization", [value, *statistics(random_numbers, 5)]), "float32")
    assert "BatchNormalization" in operators_of(builder)
    with pytest.raises(dmlcpu.InvalidModelError, match="BatchNormalization"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((1, 3, 8, 8), np.float32)})


def test_steps(random_numbers: np.random.Generator) -> None:
    builder = Builder(17)
    value = builder.node("Conv", [builder.input("float32", (1, 3, 8, 8)), floats(random_numbers, (4, 3, 3, 3))])
    builder.output(builder.node("BatchNormalization", [value, *statistics(random_numbers, 4)]), "float32")
    assert steps_of(builder) == ["FLOAT_CONVOLUTION"]


@pytest.mark.parametrize("reader", [None, "convolution", "caller"])
def test_constants_that_are_left(random_numbers: np.random.Generator, reader: str | None) -> None:
    """Of filters the folded ones alone, and those that something else reads."""
    builder = Builder(17)
    x, filters = builder.input("float32", (1, 3, 8, 8)), floats(random_numbers, (4, 3, 3, 3))
    name = builder.constant(filters)
    convolved = builder.node("Conv", [x, name])
    builder.output(builder.node("BatchNormalization", [convolved, *statistics(random_numbers, 4)]), "float32")
    if reader == "convolution":
        builder.output(builder.node("Conv", [x, name], strides=[2, 2]), "float32")
    if reader == "caller":
        builder.output(name, "float32")
    left = [array for array in load_model(builder.build(), to_run=True).constants.values() if array.ndim == 4]
    assert len(left) == (1 if reader is None else 2)
