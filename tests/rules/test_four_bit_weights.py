"""Constant weights of 4 bits with scales of channels or of all: beside 8-bit codes they are 8-bit codes themselves."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, steps_of

Array = NDArray[Any]

_TYPES: Final = {"int4": (-8, 7, np.int8), "uint4": (0, 15, np.uint8)}
_SCALE: Final = np.float32(0.021)
_FORMS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = {
    "MatMul": ((3, 24), (24, 9), {}),
    "MatMul of batches": ((2, 3, 24), (24, 9), {}),
    "Gemm": ((3, 24), (24, 9), {"alpha": 0.5}),
    "Gemm transposed": ((3, 24), (9, 24), {"transB": 1}),
    "Conv": ((2, 5, 6, 7), (9, 5, 3, 3), {}),
    "Conv of signals": ((2, 5, 17), (9, 5, 3), {"strides": [2]}),
    "Conv of channels": ((2, 8, 6, 7), (8, 1, 3, 3), {"group": 8}),
    "Conv of volumes": ((1, 3, 5, 6, 4), (4, 3, 2, 3, 2), {}),
    "ConvTranspose": ((2, 5, 6, 7), (5, 9, 3, 3), {"strides": [2, 2]}),
    "ConvTranspose of blocks": ((2, 5, 6, 7), (5, 9, 2, 2), {"strides": [2, 2]}),
}


class _Weights:
    """Codes of 4 bits with scales along an axis or of all, and the 8-bit codes that have the same floats."""

    def __init__(self, rng: np.random.Generator, dtype: str, shape: tuple[int, ...], axis: int | None) -> None:
        least, most, wide = _TYPES[dtype]
        count = () if axis is None else (shape[axis],)
        self._axis = {} if axis is None else {"axis": axis}
        self.scale = rng.uniform(0.1, 0.2, count).astype(np.float32)
        nibbles, points = (rng.integers(least, most, size, np.int8, endpoint=True) for size in (shape, count))
        nibbles.reshape(-1)[:2] = least, most
        self._nibbles, self._points = (np.asarray(a).astype(getattr(ml_dtypes, dtype)) for a in (nibbles, points))
        self._bytes, self._byte_points = ((np.asarray(array) * 16).astype(wide) for array in (nibbles, points))
        along = (slice(None), *(None,) * (len(shape) - 1 - (axis or 0))) if count else ()
        self.floats = (nibbles - points.astype(np.float32)[along]) * self.scale[along]

    def of_nibbles(self, builder: Builder) -> str:
        return builder.dequantized(self._nibbles, self.scale, self._points, **self._axis)

    def of_bytes(self, builder: Builder) -> str:
        return builder.dequantized(self._bytes, self.scale / 16, self._byte_points, **self._axis)


def _axis_of_outputs(form: str) -> int:
    return 0 if form == "Gemm transposed" or form.partition(" ")[0] == "Conv" else 1


@pytest.mark.parametrize("dtype", [*_TYPES])
@pytest.mark.parametrize(
    ("form", "bias"),
    [(form, bias) for form in _FORMS for bias in ("none", "codes", "floats") if bias == "none" or "MatMul" not in form],
)
@pytest.mark.parametrize("by_channels", [False, True])
def test_products(random_numbers: np.random.Generator, dtype: str, form: str, by_channels: bool, bias: str) -> None:
    """The operators of 8-bit weights, and their bits, at most 1 code from onnxruntime's floats."""
    x_shape, w_shape, options = _FORMS[form]
    operator, axis = form.partition(" ")[0], _axis_of_outputs(form)
    weights = _Weights(random_numbers, dtype, w_shape, axis if by_channels else None)
    outputs = w_shape[axis]
    unit = np.broadcast_to(_SCALE * weights.scale * np.float32(options.get("alpha", 1)), outputs)
    codes_of_bias = random_numbers.integers(-900, 900, outputs, np.int32)
    floats_of_bias = random_numbers.normal(0, 3, outputs).astype(np.float32)
    models = []
    for dequantized in (weights.of_nibbles, weights.of_bytes):
        builder = Builder(21)
        inputs = [builder.dequantized(builder.input("uint8", x_shape), _SCALE, POINT), dequantized(builder)]
        if bias == "codes":
            inputs.append(builder.dequantized(codes_of_bias, unit, np.zeros(outputs, np.int32), axis=0))
        elif bias == "floats":
            inputs.append(builder.constant(floats_of_bias))
        builder.output(builder.quantized(builder.node(operator, inputs, **options), 0.3, POINT), "uint8")
        models.append(builder.build())
    feeds = {"x": codes(random_numbers, "uint8", x_shape)}
    assert_like_onnxruntime(models[0], feeds, 1)
    steps = steps_of(models[0])
    assert steps == steps_of(models[1])
    assert not {"FLOAT_CONVOLUTION", "DEQUANTIZED_PRODUCT", "FLOAT_PRODUCT"}.intersection(steps)
    [ours], [of_bytes] = (dmlcpu.InferenceSession(model).run(None, feeds) for model in models)
    assert len(np.unique(ours)) > 9
    assert np.array_equal(ours, of_bytes)


@pytest.mark.parametrize("dtype", [*_TYPES])
def test_one_weight_of_several_nodes(random_numbers: np.random.Generator, dtype: str) -> None:
    """Products of codes, products of floats, and the caller, who reads what the model says, bit for bit."""
    weights, builder = _Weights(random_numbers, dtype, (24, 24), 1), Builder(21)
    name = weights.of_nibbles(builder)
    x = builder.dequantized(builder.input("uint8", (3, 24)), _SCALE, POINT)
    of_floats = builder.node("MatMul", [builder.input("float32", (3, 24), "floats"), name])
    turned = builder.node("Gemm", [x, builder.node("Transpose", [name], perm=[1, 0])], transB=1)
    for product in (builder.node("MatMul", [x, name]), turned):
        builder.output(builder.quantized(product, 0.3, POINT), "uint8")
    builder.output(of_floats, "float32")
    builder.output(name, "float32")
    model = builder.build()
    floats = random_numbers.normal(0, 1, (3, 24)).astype(np.float32)
    feeds = {"x": codes(random_numbers, "uint8", (3, 24)), "floats": floats}
    results = dmlcpu.InferenceSession(model).run(None, feeds)
    assert_like_onnxruntime(model, feeds, 1)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[3], weights.floats)
    [partition] = dmlcpu.InferenceSession(model).partitions()
    products = [step for step in partition.steps if "PRODUCT" in step.type]
    assert [step.type for step in products] == ["DEQUANTIZED_PRODUCT"]
    assert "b of 4 bits" in products[0].plan


@pytest.mark.parametrize("dtype", [*_TYPES])
@pytest.mark.parametrize("by_columns", [False, True])
def test_beside_codes_of_16_bits(random_numbers: np.random.Generator, dtype: str, by_columns: bool) -> None:
    """They stay codes of 4 bits: what they are multiplied by is floats."""
    weights, builder = _Weights(random_numbers, dtype, (24, 9), 1 if by_columns else None), Builder(21)
    wide = builder.quantized(builder.input("float32", (3, 24)), 1e-4, np.uint16(30000))
    x = builder.dequantized(wide, 1e-4, np.uint16(30000))
    builder.output(builder.node("MatMul", [x, weights.of_nibbles(builder)]), "float32")
    # Beside which codes of 16 bits are rounded natively.
    for name in ("first", "second"):
        builder.output(builder.quantized(builder.input("float32", (4,), name), 0.1, POINT), "uint8")
    model = builder.build()
    [partition] = dmlcpu.InferenceSession(model).partitions()
    plans = [step.plan for step in partition.steps if step.type == "DEQUANTIZED_PRODUCT"]
    assert len(plans) == 1
    assert "b of 4 bits" in plans[0]
    feeds = {name: random_numbers.normal(0, 1, shape).astype(np.float32) for name, shape in
             (("x", (3, 24)), ("first", (4,)), ("second", (4,)))}  # fmt: skip
    assert_like_onnxruntime(model, feeds)


@pytest.mark.parametrize("dtype", [*_TYPES])
def test_rows_chosen_by_numbers(random_numbers: np.random.Generator, dtype: str) -> None:
    """An embedding by one scale: its rows are chosen as codes."""
    weights, builder = _Weights(random_numbers, dtype, (30, 8), None), Builder(21)
    builder.output(builder.node("Gather", [weights.of_nibbles(builder), builder.input("int64", (5,))]), "float32")
    model = builder.build()
    places = random_numbers.integers(0, 30, 5)
    [rows] = dmlcpu.InferenceSession(model).run(None, {"x": places})
    assert np.array_equal(rows, weights.floats[places])
    assert "GATHER" in steps_of(model)
    assert "ELEMENT_WISE_DEQUANTIZE_LINEAR" in steps_of(model)


@pytest.mark.parametrize("dtype", [*_TYPES])
def test_constants_quantized_to_4_bits(random_numbers: np.random.Generator, dtype: str) -> None:
    """A pair of nodes behind weights that are floats in the file."""
    least, most, _ = _TYPES[dtype]
    builder = Builder(21)
    scale, point = np.float32(0.15), np.asarray((least + most) // 2).astype(getattr(ml_dtypes, dtype))
    floats = random_numbers.uniform(-1, 1, (24, 9)).astype(np.float32)
    nibbles = builder.node("QuantizeLinear", [builder.constant(floats), scale, point])
    x = builder.dequantized(builder.input("uint8", (3, 24)), _SCALE, POINT)
    product = builder.node("MatMul", [x, builder.node("DequantizeLinear", [nibbles, scale, point])])
    builder.output(builder.quantized(product, 0.05, POINT), "uint8")
    model = builder.build()
    assert steps_of(model) == ["QUANTIZED_LINEAR_MATRIX_MULTIPLY"]
    assert_like_onnxruntime(model, {"x": codes(random_numbers, "uint8", (3, 24))}, 1)
