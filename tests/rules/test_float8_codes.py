"""FLOAT8 between a QuantizeLinear and a DequantizeLinear, beside onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_cases import ints
from onnx_models import POINT, Builder, steps_of
from template_checks import assert_traced_like_lowered

Array = NDArray[Any]
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
TYPES: Final = pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3", "e5m2"])
SCALES: Final = (1, 0.0123, 3.0518044e-05, 77, 1e-45, 1.1e-38, 3e38, -0.5, 0, np.inf, np.nan)
SCALE: Final = np.float32(0.0123)


def rounded(builder: Builder, value: Any, dtype: Any, scale: Any = SCALE, **attributes: Any) -> str:
    """Quantize and dequantize; returns the floats."""
    parameters = [np.float32(scale), np.zeros(np.shape(scale), dtype)]
    name: str = builder.node(
        "DequantizeLinear", [builder.node("QuantizeLinear", [value, *parameters], **attributes), *parameters]
    )
    return name


def numbers(rng: np.random.Generator, dtype: Any, scale: float) -> Array:
    """At all numbers of a type and the middles between neighbours, just beside these, beyond the ends, and any."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    ordered = np.unique(values[np.isfinite(values)])
    beyond = ordered[-1] * np.float32([1.01, 1.0625, 1.125, 1.25, 2])
    exact = np.concatenate([ordered, (ordered[1:] + ordered[:-1]) / 2, beyond, -beyond])
    steps = (exact.view(np.uint32) + np.arange(-2, 3, dtype=np.int64)[:, None]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        near = steps.reshape(-1) * np.float32(scale)
    anything = rng.integers(0, 2**32, 20_003, np.uint32).view(np.float32)
    return np.concatenate([near, exact, anything, np.float32([0, -0.0, np.nan, np.inf, -np.inf])])


def results_of_reference(builder: Builder, feeds: Mapping[str, Array]) -> list[Array]:
    with np.errstate(all="ignore"):
        results: list[Array] = onnx.reference.ReferenceEvaluator(builder.proto()).run(None, dict(feeds))
    return results


def assert_equal_bits(
    builder: Builder,
    feeds: Mapping[str, Array],
    devices: Sequence[dmlcpu.Device | None] = (None,),
    providers: Sequence[str] = ("dmlcpu",),
) -> None:
    """No number is like any other that is none."""
    expected = results_of_reference(builder, feeds)
    for device in devices:
        session = dmlcpu.InferenceSession(builder.build(), device=device)
        results = session.run(None, feeds)
        shapes = {name: array.shape for name, array in feeds.items()}
        assert [part.provider for part in session.partitions(shapes)] == [*providers]
        for result, other in zip(results, expected, strict=True):
            assert (result.dtype, result.shape) == (other.dtype, other.shape)
            none = np.isnan(other)
            assert np.array_equal(np.isnan(result), none)
            unsigned = f"u{result.dtype.itemsize}"
            assert np.array_equal(result[~none].view(unsigned), other[~none].view(unsigned))


@TYPES
@pytest.mark.parametrize("scale", SCALES)
def test_bits(random_numbers: np.random.Generator, isa: str, dtype: Any, scale: float) -> None:
    x = numbers(random_numbers, dtype, scale)
    builder = Builder(19)
    builder.output(rounded(builder, builder.input("float32", x.shape), dtype, scale), "float32")
    assert_equal_bits(builder, {"x": x}, [dmlcpu.Device(isa=isa, num_threads=threads) for threads in (1, 2)])
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@TYPES
def test_types_that_attributes_tell(random_numbers: np.random.Generator, dtype: Any) -> None:
    """Without zero points."""
    builder = Builder(21)
    x = builder.input("float32", (3, 50))
    told = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    quantized = builder.node("QuantizeLinear", [x, SCALE], output_dtype=told)
    builder.output(builder.node("DequantizeLinear", [quantized, SCALE]), "float32")
    assert_equal_bits(builder, {"x": random_numbers.normal(size=(3, 50)).astype(np.float32)})


@TYPES
@pytest.mark.parametrize("scale", SCALES)
def test_of_functions_of_codes(dtype: Any, scale: float) -> None:
    """They stay functions of codes: tables."""
    builder = Builder(19)
    value = builder.dequantized(builder.input("uint8", (256,)), 77.7, POINT)
    builder.output(rounded(builder, value, dtype, scale), "float32")
    assert_equal_bits(builder, {"x": np.arange(256, dtype=np.uint8)})
    assert steps_of(builder) == ["FLOAT_TABLE"]


@TYPES
@pytest.mark.parametrize("scale", SCALES)
def test_of_constants(random_numbers: np.random.Generator, dtype: Any, scale: float) -> None:
    """Known when the model is planned; of scalars as of others."""
    builder = Builder(19)
    arrays = (numbers(random_numbers, dtype, scale), np.float32(-scale))
    feeds = {}
    for index, array in enumerate(arrays):
        one = builder.input("float32", array.shape, f"x{index}")
        builder.output(builder.node("Mul", [one, rounded(builder, array, dtype, scale)]), "float32")
        feeds[f"x{index}"] = np.ones(array.shape, np.float32)
    assert_equal_bits(builder, feeds)
    assert steps_of(builder) == ["ELEMENT_WISE_BINARY"] * 2


@TYPES
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("is_coded", [False, True])
def test_weights_by_columns(random_numbers: np.random.Generator, dtype: Any, axis: int, is_coded: bool) -> None:
    """As floats that are quantized, and as codes, which tools save instead."""
    builder = Builder(19)
    weights = random_numbers.normal(size=(40, 30)).astype(np.float32)
    scales = random_numbers.uniform(1e-3, 1e-2, weights.shape[axis]).astype(np.float32)
    parameters = [scales, np.zeros(scales.shape, dtype)]
    quantized: Any = weights.astype(dtype)
    if not is_coded:
        quantized = builder.node("QuantizeLinear", [weights, *parameters], axis=axis)
    floats = builder.node("DequantizeLinear", [quantized, *parameters], axis=axis)
    builder.output(builder.node("Mul", [builder.input("float32", (40, 30)), floats]), "float32")
    assert_equal_bits(builder, {"x": np.ones((40, 30), np.float32)})
    assert steps_of(builder) == ["ELEMENT_WISE_BINARY"]


SHAPE: Final = (2, 4, 6)
# From the name of codes to the names of moved ones.
MOVES: Final[dict[str, Callable[[Builder, str], Sequence[str]]]] = {
    "Transpose": lambda builder, codes: [builder.node("Transpose", [codes], perm=[2, 0, 1])],
    "Reshape": lambda builder, codes: [builder.node("Reshape", [codes, ints(8, -1)])],
    "Split": lambda builder, codes: builder.node("Split", [codes, ints(1, 3)], count=2, axis=1),
    "Slice": lambda builder, codes: [builder.node("Slice", [codes, ints(1, 5), ints(3, 0), ints(1, 2), ints(1, -2)])],
    "Gather": lambda builder, codes: [builder.node("Gather", [codes, ints(3, 0, 3)], axis=1)],
    "Concat": lambda builder, codes: [builder.node("Concat", [codes, codes], axis=1)],
    "several": lambda builder, codes: [
        builder.node("Concat", [builder.node("Transpose", [part], perm=[1, 0, 2]) for part in parts], axis=0)
        for parts in [builder.node("Split", [codes, ints(1, 3)], count=2, axis=1)]
    ],
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("is_constant", [False, True])
def test_that_are_moved(random_numbers: np.random.Generator, move: str, is_constant: bool) -> None:
    """Floats are moved."""
    builder = Builder(19)
    array = random_numbers.normal(size=SHAPE).astype(np.float32)
    x = builder.input("float32", (1,) if is_constant else SHAPE)
    value = builder.constant(array) if is_constant else builder.node("Neg", [x])
    codes = builder.quantized(value, SCALE, np.zeros((), E4M3))
    for moved in MOVES[move](builder, codes):
        floats = builder.dequantized(moved, SCALE, np.zeros((), E4M3))
        builder.output(builder.node("Mul", [x, floats]) if is_constant else floats, "float32")
    assert_equal_bits(builder, {"x": np.ones(1, np.float32) if is_constant else array})


def test_several_that_are_joined(random_numbers: np.random.Generator) -> None:
    builder = Builder(19)
    inputs = [builder.node("Neg", [builder.input("float32", (3, 4), name)]) for name in "xy"]
    parts = [builder.quantized(value, SCALE, np.zeros((), E4M3)) for value in inputs]
    joined = builder.node("Concat", parts, axis=0)
    builder.output(builder.node("Neg", [builder.dequantized(joined, SCALE, np.zeros((), E4M3))]), "float32")
    assert_equal_bits(builder, {name: random_numbers.normal(size=(3, 4)).astype(np.float32) for name in "xy"})


def add_caller(builder: Builder, quantized: str) -> None:
    builder.output(quantized, E4M3)


def add_cast(builder: Builder, quantized: str) -> None:
    builder.output(builder.node("Cast", [builder.node("Transpose", [quantized])], to=1), "float32")


def add_other_scale(builder: Builder, quantized: str) -> None:
    builder.output(builder.dequantized(quantized, 2 * SCALE, np.zeros((), E4M3)), "float32")


@pytest.mark.parametrize("add", [add_caller, add_cast, add_other_scale])
def test_that_others_read(random_numbers: np.random.Generator, add: Callable[[Builder, str], None]) -> None:
    """Whoever computes these computes the codes as well."""
    builder = Builder(21)
    x = builder.node("Neg", [builder.input("float32", (5, 6))])
    quantized = builder.quantized(x, SCALE, np.zeros((), E4M3))
    builder.output(builder.node("Neg", [builder.dequantized(quantized, SCALE, np.zeros((), E4M3))]), "float32")
    builder.output(rounded(builder, x, E4M3, 3 * SCALE), "float32")
    add(builder, quantized)
    feeds = {"x": random_numbers.normal(size=(5, 6)).astype(np.float32)}
    session = dmlcpu.InferenceSession(builder.build())
    for result, expected in zip(session.run(None, feeds), results_of_reference(builder, feeds), strict=True):
        assert result.dtype == expected.dtype
        assert np.array_equal(result, expected)
    assert {part.provider for part in session.partitions()} == {"dmlcpu", "onnx.reference"}


def _of_columns(builder: Builder, x: str) -> str:
    return rounded(builder, x, E4M3, np.float32([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))


def _unsaturated(builder: Builder, x: str) -> str:
    return rounded(builder, x, E5M2, SCALE, saturate=0)


def _of_other_type(builder: Builder, x: str) -> str:
    return rounded(builder, x, ml_dtypes.float8_e4m3fnuz)


@pytest.mark.parametrize("add", [_of_columns, _unsaturated, _of_other_type])
def test_others_are_left_to_the_reference(
    random_numbers: np.random.Generator, add: Callable[[Builder, str], str]
) -> None:
    builder = Builder(19)
    builder.output(add(builder, builder.input("float32", (5, 6))), "float32")
    feeds = {"x": random_numbers.normal(size=(5, 6)).astype(np.float32)}
    assert_equal_bits(builder, feeds, providers=["onnx.reference"] * 2)


def test_of_free_lengths(random_numbers: np.random.Generator) -> None:
    """Of floats that have such lengths, and of the lengths."""
    builder = Builder(19)
    x = builder.input("float32", ("count", 2))
    lengths = rounded(builder, builder.node("Cast", [builder.node("Shape", [x])], to=1), E4M3)
    builder.output(builder.node("Mul", [rounded(builder, x, E4M3), lengths]), "float32")
    for count in (1, 7, 30):
        feeds = {"x": random_numbers.normal(size=(count, 2)).astype(np.float32)}
        assert_equal_bits(builder, feeds)
        assert_traced_like_lowered(builder.build(), {"x": (count, 2)})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_networks(random_numbers: np.random.Generator, dtype: str) -> None:
    """As ModelOpt writes them: scales of the activations' type, weights of floats that are quantized by channels."""
    builder = Builder(19)
    number = np.dtype(dtype).type

    def pair(value: Any, scale: Any, axis: int = 1) -> str:
        parameters = [np.asarray(scale, dtype), np.zeros(np.shape(scale), E4M3)]
        quantized = builder.node("QuantizeLinear", [value, *parameters], axis=axis)
        name: str = builder.node("DequantizeLinear", [quantized, *parameters], axis=axis)
        return name

    value = builder.input(dtype, (1, 3, 9, 8))
    for channels, others in ((3, 8), (8, 6)):
        filters = random_numbers.normal(size=(others, channels, 3, 3)).astype(dtype)
        weights = pair(filters, random_numbers.uniform(0.02, 0.03, others), 0)
        bias = random_numbers.normal(size=others).astype(dtype)
        value = builder.node("Conv", [pair(value, 0.0625), weights, bias], pads=[1, 1, 1, 1])
        value = builder.node("Relu", [value])
    value = builder.node("Flatten", [builder.node("GlobalAveragePool", [value])])
    product = random_numbers.normal(size=(6, 5)).astype(dtype)
    weights = pair(product, random_numbers.uniform(0.02, 0.03, 5), 1)
    value = builder.node("MatMul", [pair(value, 0.25), weights])
    builder.output(builder.node("Mul", [value, number(0.5)]), dtype)
    feeds = {"x": random_numbers.normal(size=(1, 3, 9, 8)).astype(dtype)}
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    [result], [expected] = session.run(None, feeds), results_of_reference(builder, feeds)
    assert result.dtype == expected.dtype
    # Where a sum is near the middle between two numbers of 4 bits, the other one is as near.
    np.testing.assert_allclose(result, expected, rtol=0, atol=0.06 * float(np.abs(expected).max()))


def test_around_nodes_without_a_kernel(random_numbers: np.random.Generator) -> None:
    """Onnxruntime takes those alone, and neither codes nor the pairs."""
    builder = Builder(19)
    value = rounded(builder, builder.input("float32", (5, 6)), E4M3)
    value = builder.node("Atanh", [builder.node("Mul", [value, np.float32(0.1)])])
    builder.output(builder.node("Neg", [rounded(builder, value, E5M2)]), "float32")
    feeds = {"x": random_numbers.uniform(-4, 4, (5, 6)).astype(np.float32)}
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu", "onnxruntime", "dmlcpu"]
    assert [len(part.nodes) for part in session.partitions()][1] == 1
    [result], [expected] = session.run(None, feeds), results_of_reference(builder, feeds)
    np.testing.assert_allclose(result, expected, rtol=0.26, atol=0)  # an Atanh near a middle
