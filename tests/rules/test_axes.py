"""Axes count from the front or from the end, and one that a value has not is refused, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, results_of_onnxruntime

SHAPE: Final = (2, 4, 4)
RANK: Final = len(SHAPE)
HALVES: Final = np.int64([2, 2])
INDICES: Final = np.zeros(SHAPE, np.int64)

Made = tuple[list[Any], dict[str, Any]]
# By operator, its operands besides the first, and its attributes, for an axis.
OF_AXIS: Final[dict[str, Callable[[int], Made]]] = {
    "ReduceMean": lambda axis: ([np.int64([axis])], {}),
    "ReduceMax": lambda axis: ([np.int64([axis])], {}),
    "Concat": lambda axis: ([np.ones(SHAPE, np.float32)], {"axis": axis}),
    "Gather": lambda axis: ([np.int64([1, 0])], {"axis": axis}),
    "GatherElements": lambda axis: ([INDICES], {"axis": axis}),
    "ScatterElements": lambda axis: ([INDICES[:1, :1, :1], np.ones((1, 1, 1), np.float32)], {"axis": axis}),
    "Softmax": lambda axis: ([], {"axis": axis}),
    "LogSoftmax": lambda axis: ([], {"axis": axis}),
    "Hardmax": lambda axis: ([], {"axis": axis}),
    "LpNormalization": lambda axis: ([], {"axis": axis}),
    "Flatten": lambda axis: ([], {"axis": axis}),
    "CumSum": lambda axis: ([np.int64(axis)], {}),
    "Pad": lambda axis: ([np.int64([0, 1]), np.float32(0), np.int64([axis])], {}),
    "Resize": lambda axis: (["", np.float32([2]), ""], {"axes": [axis], "mode": "nearest"}),
}


def model(operator: str, operands: list[Any], **attributes: Any) -> bytes:
    builder = Builder(18)
    x = builder.input("float32", SHAPE)
    builder.output(builder.node(operator, [x, *operands], **attributes), "float32")
    return builder.build()


def of_axis(operator: str, axis: int) -> bytes:
    operands, attributes = OF_AXIS[operator](axis)
    return model(operator, operands, **attributes)


@pytest.mark.parametrize("operator", OF_AXIS)
@pytest.mark.parametrize("axis", [-1, 2])
def test_axes_count_from_the_front_or_from_the_end(
    random_numbers: np.random.Generator, operator: str, axis: int
) -> None:
    feeds = {"x": random_numbers.normal(size=SHAPE).astype(np.float32)}
    assert_like_onnxruntime(of_axis(operator, axis), feeds)


@pytest.mark.parametrize("operator", OF_AXIS)
@pytest.mark.parametrize("axis", [-RANK - 1, RANK + 1])
def test_axes_that_there_are_not_are_refused(operator: str, axis: int) -> None:
    """When a model is opened or, by some kernels of onnxruntime's, when it runs."""
    with pytest.raises((dmlcpu.InvalidModelError, dmlcpu.BindingError)):
        dmlcpu.InferenceSession(of_axis(operator, axis)).run(None, {"x": np.zeros(SHAPE, np.float32)})


@pytest.mark.parametrize("axis", [-RANK - 2, RANK + 1])
def test_unsqueezed_axes_are_those_of_the_result(random_numbers: np.random.Generator, axis: int) -> None:
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(model("Unsqueeze", [np.int64([axis])]))
    feeds = {"x": random_numbers.normal(size=SHAPE).astype(np.float32)}
    assert_like_onnxruntime(model("Unsqueeze", [np.int64([np.sign(axis) * RANK])]), feeds)


@pytest.mark.parametrize("axis", [-RANK - 1, RANK])
def test_a_value_is_split_along_an_axis_of_its_own(axis: int) -> None:
    builder = Builder(18)
    for part in builder.node("Split", [builder.input("float32", SHAPE), HALVES], 2, axis=axis):
        builder.output(part, "float32")
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build())


def test_axes_that_are_named_twice_are_reduced_once(random_numbers: np.random.Generator) -> None:
    x = random_numbers.normal(size=SHAPE).astype(np.float32)
    twice, once = (model("ReduceMean", [np.int64(axes)]) for axes in ([1, -2, 1], [1]))
    [result] = dmlcpu.InferenceSession(twice).run(None, {"x": x})
    [expected] = dmlcpu.InferenceSession(once).run(None, {"x": x})
    assert (result == expected).all()
    [other] = results_of_onnxruntime(twice, {"x": x})
    assert result.shape == other.shape
