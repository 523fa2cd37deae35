"""ELEMENT_WISE_BINARY, ELEMENT_WISE_UNARY and CAST on random layouts and adversarial values, against the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, expected_storage, inside
from filled_tensors import filled
from fills import INPUT_FLOATS, SCALES, input_fills
from laid_out import packed
from native_operator import run_native
from reference.arithmetic import FloatArray
from reference.float_functions import BINARY, UNARY
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = dict[str, "StridedTensor | None"]

SIGMOID, TANH, EXPONENTIAL, ERROR_FUNCTION, LOGARITHM, SINE, COSINE = 1, 2, 3, 6, 13, 19, 20
QUANTIZED_TO_16_BITS, QUANTIZED_TO_FLOAT8_E4M3, QUANTIZED_TO_FLOAT8_E5M2 = 21, 22, 23
ARCTANGENT, ARCSINE, ARCCOSINE, HYPERBOLIC_SINE, HYPERBOLIC_COSINE = 30, 31, 32, 33, 34


def bits_of(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def assert_unary(
    devices: Devices, x: StridedTensor, output: StridedTensor, function: int, alpha: float = 0.2, beta: float = 0.5
) -> None:
    with np.errstate(all="ignore"):
        values = UNARY[function](x.logical(), np.float32(alpha), np.float32(beta))
    expected = expected_storage(output, values)
    attributes = {"function": [function], "alpha": [bits_of(alpha)], "beta": [bits_of(beta)]}
    for label, device in devices.items():
        tensors = {"input_tensor": x, "output_tensor": output}
        result = run_native(device, "ELEMENT_WISE_UNARY", tensors, attributes)["output_tensor"]
        assert_equal(result, expected, label)


def assert_binary(devices: Devices, tensors: Tensors, function: int) -> None:
    a, b, output = tensors.values()
    assert a is not None
    assert b is not None
    assert output is not None
    with np.errstate(all="ignore"):
        expected = expected_storage(output, BINARY[function](a.logical(), b.logical()))
    for label, device in devices.items():
        result = run_native(device, "ELEMENT_WISE_BINARY", tensors, {"function": [function]})["output_tensor"]
        assert_equal(result, expected, label)


@given(st.sampled_from(range(len(BINARY))), st.data())
def test_binary_on_any_layout(devices: Devices, function: int, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    tensors: Tensors = {
        "a_tensor": data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        "b_tensor": data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        "output_tensor": data.draw(output_tensors("FLOAT32", sizes)),
    }
    assert_binary(devices, tensors, function)


@given(st.sampled_from(range(len(UNARY))), st.data())
def test_unary_on_any_layout(devices: Devices, function: int, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    x = data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS))
    alpha, beta = data.draw(input_tensors("FLOAT32", (2,), SCALES)).buffer[:2].repeat(2)[[0, -1]]
    assert_unary(devices, x, data.draw(output_tensors("FLOAT32", sizes)), function, float(alpha), float(beta))


@pytest.mark.parametrize("function", range(len(UNARY)))
def test_unary_of_all_magnitudes(devices: Devices, random_numbers: np.random.Generator, function: int) -> None:
    """Every exponent, and the bits around the places where a function changes its sequence; more than one task."""
    anything = random_numbers.integers(0, 2**32, 100_001, np.uint32).view(np.float32)
    near = random_numbers.uniform(-110, 110, 30_000).astype(np.float32)
    edges = np.float32(
        [0.625, 0.9375, 4, 10, 88.72284, 87.33655, 89, 89.416, 89.5, 103.97208, 104, 0, 1, 0.5, 1.5, 2.5, 2**22, 2**23]
    )
    # Where quarter turns begin and end, and where angles are reduced otherwise.
    edges = np.append(edges, np.float32([*np.arange(1, 12) * np.pi / 4, 2**17, 2**18, 3.4e38, 1e-45, 10]))
    steps = (edges.view(np.uint32)[:, None] + np.arange(-20, 21, dtype=np.int64)).astype(np.uint32).view(np.float32)
    x = packed(np.concatenate([anything, near, steps.reshape(-1), -steps.reshape(-1)]))
    assert_unary(devices, x, blank_tensor("FLOAT32", x.sizes, None), function)


@pytest.mark.parametrize("lowest", [-65535, -32768, -40000, 0])
@pytest.mark.parametrize("scale", [1, 0.0123, 3.1e-5, 1e-45, 1.1e-38, 3e38, -0.5, 0, np.inf, np.nan])
def test_quantized_to_16_bits(devices: Devices, random_numbers: np.random.Generator, scale: float, lowest: int) -> None:
    """Quotients around the ends and the middles between codes, and any others; by scales that are none as well."""
    codes = np.append(np.arange(-70000, 70000, 7), [lowest, lowest + 65535]) + np.float32([[0], [0.5], [-0.5]])
    with np.errstate(all="ignore"):
        near = (codes.astype(np.float32) * np.float32(scale)).reshape(-1)
    steps = (near.view(np.uint32) + np.arange(-1, 2, dtype=np.int64)[:, None]).astype(np.uint32).view(np.float32)
    anything = random_numbers.integers(0, 2**32, 10_001, np.uint32).view(np.float32)
    x = packed(np.concatenate([anything, steps.reshape(-1), np.float32([0, -0.0, np.nan, np.inf, -np.inf])]))
    assert_unary(devices, x, blank_tensor("FLOAT32", x.sizes, None), QUANTIZED_TO_16_BITS, scale, lowest)


@pytest.mark.parametrize("function", [QUANTIZED_TO_FLOAT8_E4M3, QUANTIZED_TO_FLOAT8_E5M2])
@pytest.mark.parametrize("scale", [1, 0.0123, 3.1e-5, 1e-45, 1.1e-38, 3e38, -0.5, 0, np.inf, np.nan])
def test_quantized_to_float8(
    devices: Devices, random_numbers: np.random.Generator, scale: float, function: int
) -> None:
    """Quotients of all exponents at the numbers of the type and the middles between them, beside these, and any."""
    middles = (np.arange(1 << 13, dtype=np.uint32) << 19).view(np.float32)
    with np.errstate(all="ignore"):
        near = middles * np.float32(scale)
    steps = (near.view(np.uint32) + np.arange(-1, 2, dtype=np.int64)[:, None]).astype(np.uint32).view(np.float32)
    anything = random_numbers.integers(0, 2**32, 10_001, np.uint32).view(np.float32)
    x = packed(np.concatenate([anything, steps.reshape(-1)]))
    assert_unary(devices, x, blank_tensor("FLOAT32", x.sizes, None), function, scale)


@pytest.mark.parametrize("planes", [15, 16, 700, 30_001])
@pytest.mark.parametrize("output_gap", [0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (1, 5), (8, 8), (13, 5)])
def test_binary_of_short_planes(
    devices: Devices, random_numbers: np.random.Generator, planes: int, output_gap: int, rows: int, columns: int
) -> None:
    """Brought together up to 64 elements; points by matrices, and a result whose planes are apart or are not."""
    sizes, plane = (2, planes, rows, columns), rows * columns + output_gap
    points = random_numbers.normal(0, 1, planes * rows).astype(np.float32)
    matrices = random_numbers.normal(0, 1, 2 * rows * columns).astype(np.float32)
    tensors: Tensors = {
        "a_tensor": StridedTensor("FLOAT32", sizes, (0, rows, 1, 0), points),
        "b_tensor": StridedTensor("FLOAT32", sizes, (rows * columns, 0, 1, rows), matrices),
        "output_tensor": blank_tensor("FLOAT32", sizes, (planes * plane, plane, columns, 1)),
    }
    assert_binary(devices, tensors, 1)


@pytest.mark.parametrize("columns", [15, 16, 17, 33, 128])
@pytest.mark.parametrize("strides_of_b", [(0, 0, 1), (0, 1, 0), (7, 1, 0), (0, 0, 0), (0, 300, 1)])
def test_binary_of_rows_in_place(
    devices: Devices, random_numbers: np.random.Generator, columns: int, strides_of_b: tuple[int, int, int]
) -> None:
    """One row or column for all, an element for each row; either input; results with gaps; more than one task."""
    sizes = (3, 300, columns)
    a = packed(random_numbers.normal(size=sizes).astype(np.float32))
    b = StridedTensor("FLOAT32", sizes, strides_of_b, random_numbers.normal(size=300 * 300).astype(np.float32))
    for output in ((300 * columns, columns, 1), (300 * (columns + 3), columns + 3, 1)):
        for left, right in ((a, b), (b, a)):
            of_output = blank_tensor("FLOAT32", sizes, output)
            assert_binary(devices, {"a_tensor": left, "b_tensor": right, "output_tensor": of_output}, 1)


@pytest.mark.parametrize("function", range(len(BINARY)))
@pytest.mark.parametrize("repeating", ["neither", "a", "b", "both"])
def test_binary_of_long_runs(
    devices: Devices, random_numbers: np.random.Generator, function: int, repeating: str
) -> None:
    """Longer than a task, where one operand may be a single value."""
    sizes = (70_003,)

    def operand(name: str) -> StridedTensor:
        if repeating in (name, "both"):
            return StridedTensor("FLOAT32", sizes, (0,), random_numbers.normal(0, 3, 1).astype(np.float32))
        return packed(random_numbers.integers(0, 2**32, sizes, np.uint32).view(np.float32))

    tensors: Tensors = {
        "a_tensor": operand("a"),
        "b_tensor": operand("b"),
        "output_tensor": blank_tensor("FLOAT32", sizes, None),
    }
    assert_binary(devices, tensors, function)


def strides_for(layout: str, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of {planes, rows, columns}."""
    _, rows, columns = sizes
    return {
        "packed": None,
        "transposed": (rows * columns, 1, rows),
        "in slots": (rows * (columns + 5), columns + 5, 1),
        "apart": (rows * columns * 3, columns * 3, 3),
        "repeated rows": (columns, 0, 1),
        "a number for each row": (rows, 1, 0),
        "one number": (0, 0, 0),
    }[layout]


# More than a block of rows, and more than a task.
ROWS = [(2, 30_011, 3), (3, 1033, 33), (2, 521, 127), (2, 331, 130), (1, 5000, 16)]


@pytest.mark.parametrize("sizes", ROWS, ids=str)
@pytest.mark.parametrize("output", ["packed", "transposed", "in slots", "apart"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("packed", "repeated rows"),
        ("a number for each row", "packed"),
        ("in slots", "one number"),
        ("transposed", "packed"),
        ("apart", "transposed"),
        ("repeated rows", "a number for each row"),
    ],
)
def test_binary_of_many_rows(
    devices: Devices, random_numbers: np.random.Generator, a: str, b: str, output: str, sizes: tuple[int, ...]
) -> None:
    def operand(layout: str) -> StridedTensor:
        return filled(
            random_numbers, "FLOAT32", sizes, input_fills(NUMPY_TYPES["FLOAT32"])[0], strides_for(layout, sizes)
        )

    tensors: Tensors = {"a_tensor": operand(a), "b_tensor": operand(b)}
    assert_binary(devices, {**tensors, "output_tensor": blank_tensor("FLOAT32", sizes, strides_for(output, sizes))}, 1)


@pytest.mark.parametrize("sizes", ROWS, ids=str)
@pytest.mark.parametrize("output", ["packed", "transposed", "in slots", "apart"])
@pytest.mark.parametrize("x", ["packed", "transposed", "in slots", "apart", "repeated rows", "a number for each row"])
def test_unary_and_cast_of_many_rows(
    devices: Devices, random_numbers: np.random.Generator, x: str, output: str, sizes: tuple[int, ...]
) -> None:
    given = filled(random_numbers, "FLOAT32", sizes, input_fills(NUMPY_TYPES["FLOAT32"])[0], strides_for(x, sizes))
    assert_unary(devices, given, blank_tensor("FLOAT32", sizes, strides_for(output, sizes)), 11)
    assert_cast(devices, given, blank_tensor("INT32", sizes, strides_for(output, sizes)))


def exact_sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@pytest.mark.parametrize(
    ("function", "exact", "largest", "units"),
    [
        (EXPONENTIAL, math.exp, 88.7, 1.0),
        (SIGMOID, exact_sigmoid, 104, 2.5),
        (TANH, math.tanh, 12, 1.5),
        (ERROR_FUNCTION, math.erf, 5, 1.25),
        (SINE, math.sin, 7, 1.6),
        (COSINE, math.cos, 7, 1.6),
        (SINE, math.sin, 2.0**17, 1.6),
        (COSINE, math.cos, 2.0**17, 1.6),
        (SINE, math.sin, 3e38, 1.6),
        (COSINE, math.cos, 3e38, 1.6),
        (ARCTANGENT, math.atan, 7, 1.6),
        (ARCTANGENT, math.atan, 3e38, 1.6),
        (ARCSINE, math.asin, 1, 1.25),
        (ARCCOSINE, math.acos, 1, 1.25),
        (HYPERBOLIC_SINE, math.sinh, 89.4, 1.75),
        (HYPERBOLIC_SINE, math.sinh, 2, 1.75),
        (HYPERBOLIC_COSINE, math.cosh, 89.4, 1.5),
        (HYPERBOLIC_COSINE, math.cosh, 2, 1.5),
    ],
)
def test_transcendentals_are_accurate(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    exact: Callable[[float], float],
    largest: float,
    units: float,
) -> None:
    """Within so many units in the last place of the exact value; below the smallest normal float, of that one's."""
    x: FloatArray = random_numbers.uniform(-largest, largest, 100_000).astype(np.float32)
    x[:20_000] = random_numbers.choice([-1, 1], 20_000) * 2.0 ** random_numbers.uniform(-30, math.log2(largest), 20_000)
    tensors = {"input_tensor": packed(x), "output_tensor": blank_tensor("FLOAT32", x.shape, None)}
    device = next(iter(devices.values()))
    storage = run_native(device, "ELEMENT_WISE_UNARY", tensors, {"function": [function]})["output_tensor"]
    values = np.array([exact(float(number)) for number in x])
    unit = np.spacing(np.abs(values).astype(np.float32)).astype(np.float64)
    errors = np.abs(inside(storage) - values) / unit
    assert errors.max() <= units, x[errors.argmax()]
    assert errors.max() > units / 3


def test_the_logarithm_is_accurate(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Within 0.9 units in the last place of the exact value, for numbers of any size; few units are more than 0.8."""
    anything = random_numbers.integers(1, 0x7F800000, 300_000, np.uint32).view(np.float32)
    near_1 = random_numbers.uniform(0.6, 1.6, 300_000).astype(np.float32)
    x = np.concatenate([anything, near_1, random_numbers.integers(1, 1 << 23, 9000, np.uint32).view(np.float32)])
    tensors = {"input_tensor": packed(x), "output_tensor": blank_tensor("FLOAT32", x.shape, None)}
    device = next(iter(devices.values()))
    storage = run_native(device, "ELEMENT_WISE_UNARY", tensors, {"function": [LOGARITHM]})["output_tensor"]
    values = np.log(x.astype(np.float64))
    errors = np.abs(inside(storage) - values) / np.spacing(np.abs(values).astype(np.float32)).astype(np.float64)
    assert errors.max() <= 0.9, x[errors.argmax()]
    assert errors.max() > 0.6


CASTS = [
    *[(source, "FLOAT32") for source in ("INT32", "UINT8", "INT8", "FLOAT16")],
    ("FLOAT32", "FLOAT16"),
    *[(source, "INT32") for source in ("FLOAT32", "UINT8", "INT8", "INT64")],
    *[(source, "INT64") for source in ("FLOAT32", "UINT8", "INT8", "INT32")],
    ("INT64", "FLOAT32"),
]


def cast(x: NDArray[Any], output_type: str) -> NDArray[Any]:
    dtype = NUMPY_TYPES[output_type]
    if x.dtype.kind == dtype.kind == "f":
        unsigned = f"u{dtype.itemsize}"
        quiet = np.array(1 << (9 if dtype == np.float16 else 22), unsigned)
        with np.errstate(over="ignore"):
            bits = x.astype(dtype).view(unsigned)
        if dtype == np.float16:  # of a NaN the upper bits, which numpy does not quieten
            payload = ((x.view(np.uint32) >> 13) & 0x3FF).astype(np.uint16)
            bits = np.where(np.isnan(x), bits & np.uint16(0x8000) | np.uint16(0x7C00) | payload, bits)
        return np.where(np.isnan(x), bits | quiet, bits).view(dtype)
    if x.dtype.kind == "f":
        truncated = np.trunc(np.where(np.isnan(x), np.float32(0), x).astype(np.float64))
        limits = np.iinfo(NUMPY_TYPES[output_type])
        # Of INT64's largest number the float64 is 2^63, which is none: it is set where it is reached.
        inside_limits = np.clip(truncated, limits.min, np.nextafter(-float(limits.min), 0))
        whole = inside_limits.astype(limits.dtype)
        return np.where(truncated >= -float(limits.min), limits.dtype.type(limits.max), whole)
    return x.astype(NUMPY_TYPES[output_type])


def assert_cast(devices: Devices, x: StridedTensor, output: StridedTensor) -> None:
    expected = expected_storage(output, cast(x.logical(), output.data_type))
    for label, device in devices.items():
        tensors = {"input_tensor": x, "output_tensor": output}
        result = run_native(device, "CAST", tensors, {})["output_tensor"]
        assert_equal(result, expected, label)


@given(st.sampled_from(CASTS), st.data())
def test_cast_on_any_layout(devices: Devices, types: tuple[str, str], data: st.DataObject) -> None:
    input_type, output_type = types
    sizes = data.draw(tensor_sizes())
    x = data.draw(input_tensors(input_type, sizes, input_fills(NUMPY_TYPES[input_type])))
    assert_cast(devices, x, data.draw(output_tensors(output_type, sizes)))


@pytest.mark.parametrize(("input_type", "output_type"), CASTS)
def test_cast_of_all_bits(
    devices: Devices, random_numbers: np.random.Generator, input_type: str, output_type: str
) -> None:
    anything = random_numbers.integers(0, 2**32, 90_002, np.uint32)
    edges = np.float32(
        [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**24, 1, -1, 0.99, -0.99, np.nan, np.inf, -np.inf]
    ).view(np.uint32)
    steps = (edges[:, None] + np.arange(-3, 4, dtype=np.int64)).astype(np.uint32).reshape(-1)
    x = packed(np.concatenate([anything, steps]).view(NUMPY_TYPES[input_type]))
    assert_cast(devices, x, blank_tensor(output_type, x.sizes, None))


ZEROS, OUTPUT = packed(np.zeros((3, 5), np.float32)), blank_tensor("FLOAT32", (3, 5), None)


@pytest.mark.parametrize(
    ("operator", "tensors", "attributes"),
    [
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {"function": [len(UNARY)]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {"function": [-1]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {}),
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {"function": [8], "alpha": [0]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {"function": [9], "alpha": [2**32]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, OUTPUT], {"function": [9], "alpha": [-1]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, None], {"function": [0]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, blank_tensor("FLOAT32", (5, 3), None)], {"function": [0]}),
        ("ELEMENT_WISE_UNARY", [ZEROS, blank_tensor("INT32", (3, 5), None)], {"function": [0]}),
        ("ELEMENT_WISE_BINARY", [ZEROS, ZEROS, OUTPUT], {"function": [len(BINARY)]}),
        ("ELEMENT_WISE_BINARY", [ZEROS, packed(np.zeros(5, np.float32)), OUTPUT], {"function": [0]}),
        ("ELEMENT_WISE_BINARY", [ZEROS, None, OUTPUT], {"function": [0]}),
        ("CAST", [ZEROS, OUTPUT], {}),
        ("CAST", [ZEROS, blank_tensor("UINT8", (3, 5), None)], {}),
        ("CAST", [packed(np.zeros((3, 5), np.float16)), blank_tensor("INT32", (3, 5), None)], {}),
        ("CAST", [packed(np.zeros((3, 5), np.float16)), blank_tensor("INT64", (3, 5), None)], {}),
        ("CAST", [packed(np.zeros((3, 5), np.int64)), blank_tensor("FLOAT16", (3, 5), None)], {}),
        ("CAST", [ZEROS, blank_tensor("INT32", (3, 4), None)], {}),
        ("CAST", [packed(np.zeros((3, 5), np.int32)), blank_tensor("INT32", (3, 5), None)], {}),
    ],
)
def test_refuses(
    devices: Devices, operator: str, tensors: list[StridedTensor | None], attributes: dict[str, list[int]]
) -> None:
    names = ["input_tensor", "output_tensor"] if len(tensors) == 2 else ["a_tensor", "b_tensor", "output_tensor"]
    with pytest.raises(ValueError, match=rf"{operator}|differ in sizes"):
        run_native(next(iter(devices.values())), operator, dict(zip(names, tensors, strict=True)), attributes)
