"""Element-wise operators on layouts that are cut, folded, gathered, transposed or streamed, around their thresholds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal
from dmlcpu import TensorDesc
from reference.dequantize_linear import dequantize_linear
from reference.dynamic_quantize_linear import dynamic_quantize_linear
from reference.quantize_linear import quantize_linear
from reference.quantized_linear_add import quantized_linear_add

Devices = Mapping[str, dmlcpu.Device]
Array = NDArray[Any]

# Runs of few elements, of a network's rows, around vectors, chunks and tasks.
SHAPES = (
    (2, 5, 7, 7),
    (1, 3, 40, 33),
    (1, 130, 9, 17),
    (3, 64, 8, 65),
    (1, 1, 1, 4097),
    (2, 600, 3, 2),
    (1, 2, 1100, 3),
    (1, 1025, 3, 4),
    (1, 96, 1, 700),
    (1, 16, 64, 65),
    (2, 9, 27, 29),
)
LENGTHS = (
    *(15, 16, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097),
    *(8191, 8192, 8193, 16385, 65535, 65536, 65537, 131073),
)


def in_order(array: Array, axes: tuple[int, ...]) -> Array:
    """The same elements, with these axes nested in memory from the outermost to the innermost."""
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def with_gaps(array: Array) -> Array:
    """The same elements, packed but for a gap after each row."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide[..., : array.shape[-1]]


ORDERS: Mapping[str, Callable[[Array], Array]] = {
    "packed": np.ascontiguousarray,
    "NHWC": lambda array: in_order(array, (0, 2, 3, 1)),
    "HWCN": lambda array: in_order(array, (2, 3, 1, 0)),
    "NCWH": lambda array: in_order(array, (0, 1, 3, 2)),
    "gaps": with_gaps,
}
REPEATS: Mapping[str, tuple[int, ...]] = {"along H": (2,), "along C": (1,), "along W": (3,), "everywhere": (0, 1, 2, 3)}


def repeated(array: Array, axes: tuple[int, ...]) -> Array:
    """The first index of these axes again and again: stride 0."""
    strides = [0 if axis in axes else stride for axis, stride in enumerate(array.strides)]
    return as_strided(array, array.shape, strides, writeable=False)


def spread_parameter(values: Array, shape: tuple[int, ...], kind: str) -> Array:
    """One parameter, or one for each channel, row, column or element, with the tensor's sizes."""
    kept = {"one": (), "channel": (1,), "row": (0, 1, 2), "column": (3,), "element": (0, 1, 2, 3)}[kind]
    sizes = tuple(size if axis in kept else 1 for axis, size in enumerate(shape))
    return np.broadcast_to(np.resize(values, sizes), shape)


PARAMETERS = ("one", "channel", "row", "column", "element")


def run(device: dmlcpu.Device, desc_type: Any, **tensors: Array) -> Any:
    """Dispatches an operator on arrays as they lie in memory; the output is one of them."""
    desc = desc_type(**{name: TensorDesc.from_array(array) for name, array in tensors.items()})
    return device.compile_operator(device.create_operator(desc)).dispatch(**tensors)


def blank(order: str, shape: tuple[int, ...], dtype: Any) -> Array:
    return ORDERS[order](np.full(shape, 77, dtype))


def gaps_of(array: Array) -> Array:
    """What lies between the rows of an array with gaps; nothing for another."""
    base = array.base
    return base[..., -3:] if base is not None and base.shape[-1] == array.shape[-1] + 3 else np.zeros(0)


def assert_written(output: Array, expected: Array, explanation: str) -> None:
    assert_equal(np.ascontiguousarray(output), expected, explanation)
    assert not gaps_of(output).any(), f"{explanation}: written between rows"


def single(value: Any, dtype: Any) -> Array:
    return np.full((1, 1, 1, 1), value, dtype)


def floats(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Numbers whose quotients by the scales of these tests are ties in part."""
    return (generator.integers(-700, 700, shape) * 0.25).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("orders", [(a, b) for a in ORDERS for b in ORDERS], ids="-".join)
def test_quantize_and_dequantize(
    devices: Devices, random_numbers: np.random.Generator, shape: tuple[int, ...], orders: tuple[str, str]
) -> None:
    input_order, output_order = orders
    for kind in random_numbers.permutation(PARAMETERS)[:2]:
        input_type = random_numbers.choice(["float32", "float16", "int32"])
        scale_type = "float16" if input_type == "float16" else "float32"
        values = floats(random_numbers, shape, input_type)
        scale = spread_parameter(random_numbers.choice([0.5, 1.5, 0.3, -2.0], 997).astype(scale_type), shape, kind)
        zero_point = spread_parameter(random_numbers.integers(-128, 128, 991).astype(np.int8), shape, kind)
        expected = quantize_linear(values, scale, zero_point, output_data_type=np.dtype(np.int8))
        code_type = random_numbers.choice(["uint8", "int8", "int16", "uint32"])
        codes = random_numbers.integers(0, 120, shape).astype(code_type)
        code_zero_point = spread_parameter(random_numbers.integers(0, 120, 991).astype(code_type), shape, kind)
        expected_values = dequantize_linear(codes, scale, code_zero_point, output_data_type=scale.dtype)
        for label, device in devices.items():
            output = blank(output_order, shape, np.int8)
            run(
                device,
                dmlcpu.ElementWiseQuantizeLinearOperatorDesc,
                input_tensor=ORDERS[input_order](values),
                scale_tensor=scale,
                zero_point_tensor=zero_point,
                output_tensor=output,
            )
            assert_written(output, expected, f"{label}, quantize {input_type}, {kind}")
            output = blank(output_order, shape, scale.dtype)
            run(
                device,
                dmlcpu.ElementWiseDequantizeLinearOperatorDesc,
                input_tensor=ORDERS[input_order](codes),
                scale_tensor=scale,
                zero_point_tensor=code_zero_point,
                output_tensor=output,
            )
            assert_written(output, expected_values, f"{label}, dequantize {code_type}, {kind}")


@pytest.mark.parametrize("shape", [(48, 48), (140, 257), (300, 512), (600, 40), (300, 513)], ids=str)
@pytest.mark.parametrize("steps", [(0, 2), (0, 3), (1, 1), (2, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("spacing", [1, 2])
def test_parameters_apart(
    devices: Devices, random_numbers: np.random.Generator, shape: tuple[int, int], steps: tuple[int, int], spacing: int
) -> None:
    """Some elements from a row's or a column's to the next one's: a column of a table, diagonals of one."""
    last = (shape[0] - 1) * steps[0] + (shape[1] - 1) * steps[1]

    def spread(values: Array) -> Array:
        return as_strided(values, shape, [step * values.itemsize for step in steps], writeable=False)

    scale = spread(random_numbers.choice([0.5, 1.5, 0.3, -2.0], last + 1).astype(np.float32))
    zero_point = spread(random_numbers.integers(0, 256, last + 1).astype(np.uint8))
    wide = (shape[0], shape[1] * spacing)
    values = floats(random_numbers, wide, np.float32)[:, ::spacing]
    codes = random_numbers.integers(0, 256, wide).astype(np.uint8)[:, ::spacing]
    expected = quantize_linear(values, scale, zero_point, output_data_type=np.dtype(np.uint8))
    expected_values = dequantize_linear(codes, scale, zero_point, output_data_type=np.dtype(np.float32))
    for label, device in devices.items():
        parameters = {"scale_tensor": scale, "zero_point_tensor": zero_point}
        output = np.full(shape, 77, np.uint8)
        desc: Any = dmlcpu.ElementWiseQuantizeLinearOperatorDesc
        run(device, desc, input_tensor=values, **parameters, output_tensor=output)
        assert_written(output, expected, f"{label}, quantize")
        written = np.full(shape, 77, np.float32)
        desc = dmlcpu.ElementWiseDequantizeLinearOperatorDesc
        run(device, desc, input_tensor=codes, **parameters, output_tensor=written)
        assert_written(written, expected_values, f"{label}, dequantize")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("output_order", ORDERS)
@pytest.mark.parametrize("axes", REPEATS.values(), ids=REPEATS)
def test_inputs_that_repeat(
    devices: Devices,
    random_numbers: np.random.Generator,
    shape: tuple[int, ...],
    output_order: str,
    axes: tuple[int, ...],
) -> None:
    """Rows that are the same are computed once, unless their parameters differ."""
    values = repeated(floats(random_numbers, shape, np.float32), axes)
    codes = repeated(random_numbers.integers(0, 256, shape).astype(np.uint8), axes)
    for kind in ("one", *random_numbers.permutation(PARAMETERS[1:])[:2]):
        scale = spread_parameter(random_numbers.choice([0.5, 1.5, 0.3], 997).astype(np.float32), shape, kind)
        zero_point = spread_parameter(random_numbers.integers(0, 256, 991).astype(np.uint8), shape, kind)
        expected = quantize_linear(values, scale, zero_point, output_data_type=np.dtype(np.uint8))
        expected_values = dequantize_linear(codes, scale, zero_point, output_data_type=np.dtype(np.float32))
        for label, device in devices.items():
            parameters = {"scale_tensor": scale, "zero_point_tensor": zero_point}
            output = blank(output_order, shape, np.uint8)
            desc: Any = dmlcpu.ElementWiseQuantizeLinearOperatorDesc
            run(device, desc, input_tensor=values, **parameters, output_tensor=output)
            assert_written(output, expected, f"{label}, quantize, {kind}")
            output = blank(output_order, shape, np.float32)
            desc = dmlcpu.ElementWiseDequantizeLinearOperatorDesc
            run(device, desc, input_tensor=codes, **parameters, output_tensor=output)
            assert_written(output, expected_values, f"{label}, dequantize, {kind}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("output_order", ORDERS)
def test_add(devices: Devices, random_numbers: np.random.Generator, shape: tuple[int, ...], output_order: str) -> None:
    a, b = (random_numbers.integers(0, 256, shape).astype(np.uint8) for _ in range(2))
    parameters = [(single(0.5, np.float32), single(zero_point, np.uint8)) for zero_point in (3, 200, 100)]
    variants = {order: (ORDERS[order](a), b) for order in ORDERS}
    variants |= {f"b {name}": (a, repeated(b, axes)) for name, axes in REPEATS.items()}
    variants |= {f"a {name}": (repeated(a, axes), ORDERS["NHWC"](b)) for name, axes in REPEATS.items()}
    for name, (first, second) in variants.items():
        arguments = (first, *parameters[0], second, *parameters[1], *parameters[2])
        expected = quantized_linear_add(*arguments, output_data_type=np.dtype(np.uint8))
        for label, device in devices.items():
            output = blank(output_order, shape, np.uint8)
            names = (
                "a",
                "a_scale",
                "a_zero_point",
                "b",
                "b_scale",
                "b_zero_point",
                "output_scale",
                "output_zero_point",
            )
            tensors = {f"{field}_tensor": array for field, array in zip(names, arguments, strict=True)}
            run(device, dmlcpu.ElementWiseQuantizedLinearAddOperatorDesc, **tensors, output_tensor=output)
            assert_written(output, expected, f"{label}, {name}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("output_order", ORDERS)
def test_dynamic_quantize(
    devices: Devices, random_numbers: np.random.Generator, shape: tuple[int, ...], output_order: str
) -> None:
    values = random_numbers.normal(size=shape).astype(np.float32)
    variants = {order: place(values) for order, place in ORDERS.items()}
    variants |= {name: repeated(values, axes) for name, axes in REPEATS.items()}
    for name, array in variants.items():
        codes, scale, zero_point = dynamic_quantize_linear(array, output_data_type=np.dtype(np.int8))
        for label, device in devices.items():
            output = blank(output_order, shape, np.int8)
            results = run(
                device,
                dmlcpu.DynamicQuantizeLinearOperatorDesc,
                input_tensor=array,
                output_tensor=output,
                output_scale_tensor=single(0, np.float32),
                output_zero_point_tensor=single(0, np.int8),
            )
            assert_written(output, codes, f"{label}, {name}")
            assert (results[1].item(), results[2].item()) == (scale.item(), zero_point.item()), f"{label}, {name}"


@pytest.mark.parametrize("length", LENGTHS)
def test_single_runs(devices: Devices, random_numbers: np.random.Generator, length: int) -> None:
    """One run of each length, at every distance of an element from the beginning of a cache line."""
    values = floats(random_numbers, (length + 16,), np.float32)
    codes = random_numbers.integers(0, 256, length + 64).astype(np.uint8)
    for offset in (0, 1, 5, 15):
        x, q = values[offset : offset + length], codes[offset : offset + length]
        one = np.float32([0.75])
        expected = quantize_linear(x, one, np.uint8([9]), output_data_type=np.dtype(np.uint8))
        expected_values = dequantize_linear(q, one, np.uint8([9]), output_data_type=np.dtype(np.float32))
        for label, device in devices.items():
            result = np.full(length + 32, 77, np.uint8)
            dmlcpu.quantize_linear(x, 0.75, 9, out=result[offset : offset + length], device=device)
            assert (result[offset : offset + length] == expected).all(), f"{label}, offset {offset}"
            assert (result[:offset] == 77).all(), f"{label}, offset {offset}"
            assert (result[offset + length :] == 77).all(), f"{label}, offset {offset}"
            written = np.full(length + 32, 77, np.float32)
            dmlcpu.dequantize_linear(q, 0.75, 9, out=written[offset : offset + length], device=device)
            assert (written[offset : offset + length] == expected_values).all(), f"{label}, offset {offset}"
            assert (written[:offset] == 77).all(), f"{label}, offset {offset}"
            assert (written[offset + length :] == 77).all(), f"{label}, offset {offset}"


# --- streaming stores -------------------------------------------------------------------------------------------


def has_fast_streaming_stores() -> bool:
    """Whether the processor is Intel's, but none of the servers before Ice Lake."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    told = dict(re.findall(r"^(vendor_id|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    is_before = (told.get("cpu family"), told.get("model")) == ("6", "85")
    return told.get("vendor_id") == "GenuineIntel" and not is_before


def first_streaming_length(device: dmlcpu.Device, tensors: Callable[[int], dict[str, TensorDesc]], desc: Any) -> int:
    """The elements from which on an operator says that it stores past the caches."""

    def streams(length: int) -> bool:
        operator = device.create_operator(desc(**tensors(length)))
        return "past the caches" in device.compile_operator(operator).describe()

    low, high = 1 << 10, 1 << 30
    assert not streams(low)
    if not has_fast_streaming_stores():
        assert not streams(high)
        pytest.skip("stores past the caches are slow on this CPU: no operator makes them")
    assert streams(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if streams(middle) else (middle, high)
    return high


@pytest.mark.parametrize("channels", [1, 3, 64])
def test_streaming_dequantize(devices: Devices, random_numbers: np.random.Generator, channels: int) -> None:
    f32, u8 = dmlcpu.TensorDataType.FLOAT32, dmlcpu.TensorDataType.UINT8

    def tensors(length: int) -> dict[str, TensorDesc]:
        parameters = {"scale_tensor": TensorDesc(f32, (length,), strides=(0,))}
        parameters |= {"zero_point_tensor": TensorDesc(u8, (length,), strides=(0,))}
        return parameters | {"input_tensor": TensorDesc(u8, (length,)), "output_tensor": TensorDesc(f32, (length,))}

    threshold = first_streaming_length(
        next(iter(devices.values())), tensors, dmlcpu.ElementWiseDequantizeLinearOperatorDesc
    )
    pixels = 1009  # a prime: the pattern meets cache lines at every distance
    codes = random_numbers.integers(0, 256, (pixels, channels)).astype(np.uint8)
    scale = random_numbers.choice([0.5, 0.3], channels).astype(np.float32)
    zero_point = random_numbers.integers(0, 256, channels).astype(np.uint8)
    repeats = -(-threshold // codes.size)
    dequantized = dequantize_linear(codes, scale, zero_point, output_data_type=np.dtype(np.float32))
    many_codes = np.tile(codes, (repeats, 1))
    for label, device in devices.items():
        written = dmlcpu.dequantize_linear(many_codes, scale, zero_point, device=device)
        assert (written.reshape(repeats, pixels, channels) == dequantized).all(), label
