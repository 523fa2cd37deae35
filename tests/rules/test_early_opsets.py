"""Operators as they were before version 7, of which onnxruntime has most no longer: as their versions' texts say."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, reasons_of

SHAPE: Final = (2, 3, 3, 3)
FUNCTIONS: Final[dict[str, Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Less": np.less,
    "Greater": np.greater,
}


def opened(builder: Builder) -> dmlcpu.InferenceSession:
    return dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize(("axis", "shape"), [(0, (2,)), (1, (3,)), (2, (3,)), (1, (3, 3)), (-3, (3,)), (3, (3,))])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("opset", [1, 6])
def test_operands_along_an_axis(
    random_numbers: np.random.Generator,
    operator: str,
    axis: int,
    shape: tuple[int, ...],
    is_constant: bool,
    opset: int,
) -> None:
    a, b = (random_numbers.uniform(0.5, 2, lengths).astype(np.float32) for lengths in (SHAPE, shape))
    builder = Builder(opset)
    other = b if is_constant else builder.input(np.float32, shape, "b")
    attributes = {"broadcast": 1, "axis": axis}
    result = builder.node(operator, [builder.input(np.float32, SHAPE), other], **attributes)
    expected = FUNCTIONS[operator](a, b.reshape(*b.shape, *(1,) * (4 - axis % 4 - b.ndim)))
    builder.output(result, expected.dtype)
    [found] = opened(builder).run(None, {"x": a} if is_constant else {"x": a, "b": b})
    np.testing.assert_array_equal(found, expected)


def test_constants_along_an_axis() -> None:
    builder = Builder(6)
    a, b = np.arange(9, dtype=np.float32).reshape(3, 3), np.float32([10, 20, 30])
    total = builder.node("Add", [a, b], broadcast=1, axis=0)
    builder.output(builder.node("Mul", [builder.input(np.float32, (3, 3)), total]), np.float32)
    [found] = opened(builder).run(None, {"x": np.ones((3, 3), np.float32)})
    np.testing.assert_array_equal(found, a + b[:, None])


@pytest.mark.parametrize(("axis", "dtype"), [(0, "float64"), (2, "float32"), (1.5, "float32"), ("x", "float32")])
def test_axes_that_nothing_takes(axis: Any, dtype: str) -> None:
    """Onnx's evaluator passes over the axis."""
    builder = Builder(6)
    operands = [builder.input(dtype, (3, 3)), builder.input(dtype, (3,), "b")]
    builder.output(builder.node("Add", operands, broadcast=1, axis=axis), dtype)
    with pytest.raises(dmlcpu.InvalidModelError, match="attribute 'axis'"):
        opened(builder)


def reasons_of_refusal(builder: Builder) -> list[str]:
    """Why nodes are not native, whether another runtime takes them or not."""
    try:
        return reasons_of(builder)
    except dmlcpu.InvalidModelError as error:
        return [word for word in ("training",) if word in str(error)]


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("operator", ["Dropout", "BatchNormalization"])
def test_training(operator: str, opset: int) -> None:
    """Is what nodes do that do not say otherwise."""
    statistics = [np.full(3, number, np.float32) for number in (2, 1, 0.5, 4)]
    x = np.arange(54, dtype=np.float32).reshape(SHAPE)
    for attributes in ({"is_test": 1}, {"is_test": 0}, {}):
        builder = Builder(opset)
        is_norm = operator == "BatchNormalization"
        operands = [builder.input(np.float32, SHAPE), *(statistics if is_norm else [])]
        needed = {"consumed_inputs": [0, 0, 0, 1, 1]} if is_norm and opset == 1 else {}
        builder.output(builder.node(operator, operands, **attributes, **needed), np.float32)
        if attributes.get("is_test"):
            [found] = opened(builder).run(None, {"x": x})
            np.testing.assert_allclose(found, x if operator == "Dropout" else (x - 0.5) + 1, rtol=1e-5)
            continue
        assert reasons_of_refusal(builder) == ["training"]


@pytest.mark.parametrize("opset", [1, 6, 10])
def test_bounds_of_their_own(opset: int) -> None:
    largest = np.finfo(np.float32).max
    x = np.float32([np.inf, -np.inf, 1, -1])
    for attributes, expected in (
        ({}, [largest, -largest, 1, -1]),
        ({"min": 0.0}, [largest, 0, 1, 0]),
        ({"max": 0.0}, [0, -largest, 0, -1]),
    ):
        builder = Builder(opset)
        builder.output(builder.node("Clip", [builder.input(np.float32, (4,))], **attributes), np.float32)
        [found] = opened(builder).run(None, {"x": x})
        np.testing.assert_array_equal(found, np.float32(expected))
