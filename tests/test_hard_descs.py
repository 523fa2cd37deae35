"""Descs at the limits of 32 and 64 bits: the right exception, or the right result, and at once."""

from __future__ import annotations

import math
import mmap
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from bound_arrays import compiled
from dmlcpu.tensor import dtype_of
from operator_samples import (
    ADD,
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    CONVOLUTION,
    DEQUANTIZE,
    DYNAMIC,
    POOLING,
    QUANTIZE,
    changed,
    tensor,
)

LARGEST = 2**32 - 1
# The address sanitizer needs terabytes of address space.
CAN_LIMIT_MEMORY = sys.platform == "linux" and "asan" not in os.environ.get("LD_PRELOAD", "")


@contextmanager
def at_once() -> Iterator[None]:
    """Neither time nor memory in proportion to the sizes: what takes half a second or 1 GiB has gone wrong."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if CAN_LIMIT_MEMORY:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), hard))
    begin = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - begin < 0.5


def assert_refused(desc: dmlcpu.OperatorDesc, field: str) -> None:
    with at_once(), pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(desc)
    assert raised.value.field == field


def quantization(
    sizes: tuple[int, ...], *, input_strides: Any = None, output_strides: Any = None
) -> dmlcpu.OperatorDesc:
    return changed(
        QUANTIZE,
        input_tensor=tensor("FLOAT32", *sizes, strides=input_strides),
        scale_tensor=tensor("FLOAT32", *sizes, strides=(0,) * len(sizes)),
        zero_point_tensor=tensor("UINT8", *sizes, strides=(0,) * len(sizes)),
        output_tensor=tensor("UINT8", *sizes, strides=output_strides),
    )


def dequantization_of_4_bits(
    sizes: tuple[int, ...], blocks: tuple[int, ...], *, input_strides: Any = None, output_strides: Any = None
) -> dmlcpu.OperatorDesc:
    zeros = (0,) * len(sizes)
    return changed(
        BLOCK_DEQUANTIZE,
        input_tensor=tensor("INT4", *sizes, strides=input_strides),
        quantization_tensors=(tensor("FLOAT32", *blocks, strides=zeros), tensor("INT4", *blocks, strides=zeros)),
        output_tensor=tensor("FLOAT32", *sizes, strides=output_strides),
    )


def quantization_to_4_bits(sizes: tuple[int, ...], blocks: tuple[int, ...], output_strides: Any) -> dmlcpu.OperatorDesc:
    zeros = (0,) * len(sizes)
    return changed(
        BLOCK_QUANTIZE,
        input_tensor=tensor("FLOAT32", *sizes, strides=zeros),
        quantization_tensors=(tensor("FLOAT32", *blocks, strides=zeros), tensor("UINT4", *blocks, strides=zeros)),
        output_tensor=tensor("UINT4", *sizes, strides=output_strides),
    )


# --- refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes",
    [(2**16, 2**16), (LARGEST, 2), (LARGEST,) * 2, (2**32,), (2**31, 2**33), (LARGEST,) * 8, (2**64, 1), (10**30,)],
)
@pytest.mark.parametrize("stride", [None, 0, 1])
def test_sizes_that_overflow(sizes: tuple[int, ...], stride: int | None) -> None:
    strides = None if stride is None else (stride,) * len(sizes)
    assert_refused(quantization(sizes, input_strides=strides), "input_tensor")
    assert_refused(dequantization_of_4_bits(sizes, sizes, input_strides=strides), "input_tensor")


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ((2,), (LARGEST,)),
        ((2, 2), (2**31, 2**31)),
        ((3,), (2**31,)),
        ((LARGEST,), (2,)),
        ((LARGEST,), (LARGEST,)),
        ((2,) * 8, (LARGEST,) * 8),
        ((2**31, 2), (2**31, 1)),
        ((2,), (2**32,)),
        ((1,), (2**32,)),
        ((1,), (2**64,)),
        ((2,), (-1,)),
    ],
)
def test_strides_that_overflow(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert_refused(quantization(sizes, input_strides=strides), "input_tensor")
    assert_refused(dequantization_of_4_bits(sizes, sizes, input_strides=strides), "input_tensor")
    if math.prod(sizes) <= LARGEST:
        assert_refused(quantization_to_4_bits(sizes, (1,) * len(sizes), strides), "output_tensor")
        assert_refused(quantization(sizes, output_strides=strides), "output_tensor")


@pytest.mark.parametrize("size", [2**32, 2**34 - 3, 2**34, 2**64, 10**30, -1, 1.0, "4"])
def test_buffers_that_overflow(size: Any) -> None:
    small = tensor("UINT8", 4, 5, total_tensor_size_in_bytes=size)
    assert_refused(changed(DYNAMIC, output_tensor=small), "output_tensor")


@pytest.mark.parametrize("value", [0, 5, LARGEST, 2**32, 2**64, -1])
def test_group_counts(value: int) -> None:
    assert_refused(changed(CONVOLUTION, group_count=value), "group_count")


@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_steps_of_nothing(name: str) -> None:
    assert_refused(changed(CONVOLUTION, **{name: (1, 0)}), name)


@pytest.mark.parametrize("name", ["strides", "dilations", "start_padding", "end_padding"])
@pytest.mark.parametrize("value", [2**32, 2**64, 10**30, -1])
def test_attributes_out_of_range(name: str, value: int) -> None:
    assert_refused(changed(CONVOLUTION, **{name: (1, value)}), name)
    assert_refused(changed(CONVOLUTION, **{name: (1, 1, value)}), name)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start_padding": (LARGEST, LARGEST)}, "output_tensor"),
        ({"start_padding": (LARGEST, 0), "end_padding": (LARGEST, 0)}, "output_tensor"),
        ({"dilations": (LARGEST, LARGEST)}, "filter_tensor"),
        ({"strides": (LARGEST, LARGEST)}, "output_tensor"),
    ],
)
def test_windows_at_the_limit(changes: dict[str, Any], field: str) -> None:
    assert_refused(changed(CONVOLUTION, **changes), field)


def test_long_arrays_of_attributes() -> None:
    names = ("strides", "dilations", "start_padding", "end_padding")
    arrays = {name: (*getattr(CONVOLUTION, name), *[1] * 4000) for name in names}
    with at_once():
        compiled(dmlcpu.Device(), changed(CONVOLUTION, **arrays))


def test_outputs_of_strides_that_are_hard_to_tell_apart() -> None:
    numbers = np.random.default_rng(7)
    for _ in range(100):
        strides = tuple(int(stride) for stride in numbers.integers(1, 2**25, 8))
        with at_once():
            try:
                dmlcpu.Device().create_operator(quantization((5,) * 8, output_strides=strides))
            except dmlcpu.InvalidDescError as error:
                refusal = error
                assert refusal.field == "output_tensor"


# --- accepted ---------------------------------------------------------------------------------------------------


def test_large_tensors_are_created_and_compiled_at_once() -> None:
    """Nothing is allocated for tensors of many elements, repeated or not."""
    zeros = {"strides": (0,) * 4}
    convolution = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor")),
        input_tensor=tensor("UINT8", 1, 1, 65535, 65535, **zeros),
        filter_tensor=tensor("INT8", 1, 1, 65535, 65535, **zeros),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        output_tensor=tensor("UINT8", 1, 1, 1, 1),
        **dict.fromkeys(("strides", "dilations"), (1, 1)),
        **dict.fromkeys(("start_padding", "end_padding"), (0, 0)),
        group_count=1,
    )
    with at_once():
        device = dmlcpu.Device(num_threads=1024)
        for sizes in ((LARGEST - 3,), (65535, 65536), (1, LARGEST - 3, 1)):
            compiled(device, quantization(sizes))
            compiled(device, quantization(sizes, input_strides=(0,) * len(sizes)))
        operator = compiled(device, convolution)
        assert operator.binding_properties.temporary_resource_size > 65535**2
        assert operator.describe()


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ((2**32 - 8,), (1,)),
        ((2**32 - 8,), (2**29 - 1,)),
        ((2**16, 2**15), (1, 2**15)),
        ((2**16, 2**15), (2**16, 1)),
        ((1, 2**31, 1), (1, 2**30, 1)),
        ((2,) * 7 + (2**24,), (1,) * 7 + (2**23,)),
    ],
)
def test_large_tensors_of_4_bits_are_created_and_compiled_at_once(
    sizes: tuple[int, ...], blocks: tuple[int, ...]
) -> None:
    device = dmlcpu.Device(num_threads=1024)
    with at_once():
        for desc in (
            dequantization_of_4_bits(sizes, blocks),
            dequantization_of_4_bits(sizes, blocks, input_strides=(0,) * len(sizes)),
            quantization_to_4_bits(sizes, blocks, None),
        ):
            operator = compiled(device, desc)
            assert operator.binding_properties.temporary_resource_size == 0
            assert operator.describe()


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("channels", "groups"), [(1, 1), (64, 1), (2**24, 2**24), (2**22, 2**20)])
def test_plans_do_not_grow_with_repeated_elements(order: str, channels: int, groups: int) -> None:
    """A filter of billions of taps, a depthwise and a grouped one of millions of channels: of one element in memory."""
    inputs = channels // groups
    size = (LARGEST - 1) // (channels * inputs)
    zeros = {"strides": (0,) * 4}
    last = (channels, 2, 1, 1) if order == "NCHW" else (channels, 1, channels, channels)
    convolution = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor", "output_zero_point_tensor")),
        input_tensor=tensor("UINT8", 1, channels, size, 1, strides=(0, 1, 0, 0) if inputs > 1 else (0,) * 4),
        filter_tensor=tensor("INT8", channels, inputs, size, 1, **zeros),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        output_tensor=tensor("UINT8", 1, channels, 1, 1, strides=last),
        **dict.fromkeys(("strides", "dilations"), (1, 1)),
        **dict.fromkeys(("start_padding", "end_padding"), (0, 0)),
        group_count=groups,
    )
    with at_once():
        assert compiled(dmlcpu.Device(num_threads=2), convolution).describe()


@pytest.mark.parametrize(
    ("sizes", "filter_sizes", "output_sizes", "windows"),
    [
        # Rows of a window a million apart: the strip between them is not kept.
        ((1, 1, 1, 4096), (1, 1, 2, 1), (1, 1, 1, 4096), {"dilations": (1500000, 1), "start_padding": (1500000, 0)}),
        ((100, 1, 1, 8), (1, 1, 2, 1), (100, 1, 1, 8), {"dilations": (2000000, 1), "start_padding": (2000000, 0)}),
        (
            *((1, 64, 1, 256), (64, 4, 2, 1), (1, 64, 1, 256)),
            {"dilations": (1500000, 1), "start_padding": (1500000, 0), "group_count": 16},
        ),
        # Corners of a repeated element, of two channels.
        ((1, 2, 32768, 32768), (2, 1, 1, 1), (1, 2, 2, 2), {"strides": (32767, 32767), "group_count": 2}),
        # A padded copy of 2**64 codes.
        (
            *((1, 2**31 - 4, 1, 1), (1, 2**31 - 4, 1, 2), (1, 1, 1, LARGEST - 4)),
            {"strides": (1, 2), "start_padding": (0, LARGEST), "end_padding": (0, LARGEST - 9)},
        ),
    ],
)
def test_scratch_memory_of_convolutions_far_apart(
    sizes: tuple[int, ...], filter_sizes: tuple[int, ...], output_sizes: tuple[int, ...], windows: dict[str, Any]
) -> None:
    steps = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "group_count": 1}
    convolution = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor", "output_zero_point_tensor")),
        input_tensor=tensor("UINT8", *sizes, strides=(0,) * 4),
        filter_tensor=tensor("INT8", *filter_sizes, strides=(0,) * 4),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        output_tensor=tensor("UINT8", *output_sizes),
        **{**steps, **windows},
    )
    numbers = {f"{name}_scale_tensor": np.float32(1) for name in ("input", "filter", "output")}
    inputs = {"input_tensor": np.uint8([1]), "input_zero_point_tensor": np.uint8(0), "filter_tensor": np.int8([1])}
    try:
        with at_once():
            operator = compiled(dmlcpu.Device(num_threads=2), convolution)
    except MemoryError:
        assert math.prod(sizes) > 2**31
        return
    if math.prod(output_sizes) < 2**16:
        assert operator.binding_properties.temporary_resource_size < 1 << 26
        with at_once():
            operator.dispatch(**inputs, **numbers)


def point_convolution(
    input_sizes: tuple[int, ...], filter_size: int, output_size: int, *, step: int = 0, **changes: Any
) -> Any:
    """One channel and one row; the input one code, repeated or ``step`` apart; the filter two codes at most."""
    return changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor", "output_zero_point_tensor")),
        input_tensor=tensor("UINT8", *input_sizes, strides=(*(0,) * (len(input_sizes) - 1), step)),
        filter_tensor=tensor("INT8", 1, 1, filter_size),
        filter_scale_tensor=tensor("FLOAT32", 1),
        input_scale_tensor=tensor("FLOAT32", 1),
        input_zero_point_tensor=tensor("UINT8", 1),
        output_scale_tensor=tensor("FLOAT32", 1),
        output_tensor=tensor("UINT8", 1, 1, output_size),
        **{"strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,), "group_count": 1, **changes},
    )


@pytest.mark.parametrize(
    ("desc", "expected"),
    [
        # Two windows, the one in the padding, the other on the only element.
        (point_convolution((1, 1, 1), 1, 2, strides=(LARGEST,), start_padding=(LARGEST,)), [0, 14]),
        (point_convolution((1, 1, 1), 1, 2, strides=(LARGEST,), end_padding=(LARGEST,)), [14, 0]),
        # One window as wide as the padded input, its taps at both ends.
        (point_convolution((1, 1, 1), 2, 1, dilations=(LARGEST,), start_padding=(LARGEST,)), [21]),
        (point_convolution((1, 1, 1), 2, 1, dilations=(LARGEST,), end_padding=(LARGEST,)), [14]),
        # The same where the input's stride is as large: no step of both is ever taken.
        (point_convolution((1, 1, 1), 1, 2, step=LARGEST, strides=(LARGEST,), end_padding=(LARGEST,)), [14, 0]),
        (point_convolution((1, 1, 1), 2, 1, step=LARGEST, dilations=(LARGEST,), end_padding=(LARGEST,)), [14]),
        # An input of billions of elements at one address.
        (point_convolution((1, 1, LARGEST), 1, 1, strides=(LARGEST,)), [14]),
        (point_convolution((1, 1, LARGEST), 2, 1, dilations=(LARGEST - 1,)), [35]),
        (
            point_convolution((1, 1, LARGEST), 2, 3, strides=(2**31 - 1,), dilations=(1,), end_padding=(1,)),
            [35, 35, 14],
        ),
    ],
)
def test_small_work_on_large_numbers(desc: dmlcpu.OperatorDesc, expected: list[int], isa: str) -> None:
    inputs: dict[str, Any] = {
        "input_tensor": np.uint8([12]),
        "input_zero_point_tensor": np.uint8(5),
        "filter_tensor": np.int8([2, 3])[: desc.filter_tensor.sizes[2]],  # type: ignore[attr-defined]
        **{f"{name}_scale_tensor": np.float32(1) for name in ("input", "filter", "output")},
    }
    with at_once():
        result = compiled(dmlcpu.Device(isa=isa), desc).dispatch(**inputs)
    assert result.reshape(-1).tolist() == expected


def point_pooling(input_width: int, window: int, output_width: int, *, step: int = 0, **changes: Any) -> Any:
    """One channel and one row; the input one code, repeated or ``step`` apart."""
    spatial = {name: (0, value) for name, value in changes.items() if name.endswith("padding")}
    spatial |= {name: (1, value) for name, value in changes.items() if not name.endswith("padding")}
    return changed(
        POOLING,
        input_tensor=tensor("UINT8", 1, 1, 1, input_width, strides=(0, 0, 0, step)),
        input_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        input_zero_point_tensor=None,
        output_zero_point_tensor=None,
        output_tensor=tensor("UINT8", 1, 1, 1, output_width),
        window_size=(1, window),
        **{
            **dict.fromkeys(("strides", "dilations"), (1, 1)),
            **dict.fromkeys(("start_padding", "end_padding"), (0, 0)),
            **spatial,
        },
    )


@pytest.mark.parametrize(
    ("desc", "expected"),
    [
        (point_pooling(1, 1, 2, strides=LARGEST, start_padding=LARGEST), [0, 12]),
        (point_pooling(1, 1, 2, strides=LARGEST, end_padding=LARGEST), [12, 0]),
        # Windows of billions of elements, nearly all of them padding.
        (point_pooling(1, LARGEST, 1, start_padding=LARGEST - 1), [12]),
        (point_pooling(1, LARGEST, 2, end_padding=LARGEST), [12, 0]),
        (changed(point_pooling(1, LARGEST, 1, end_padding=LARGEST - 1), include_padding=True), [0]),
        # One window as wide as the padded input, its taps at both ends.
        (point_pooling(1, 2, 1, dilations=LARGEST, start_padding=LARGEST), [12]),
        (point_pooling(1, 2, 1, dilations=LARGEST, end_padding=LARGEST, step=LARGEST), [12]),
        # An input of billions of elements at one address.
        (point_pooling(LARGEST, 1, 1, strides=LARGEST), [12]),
        (point_pooling(LARGEST, 2, 1, dilations=LARGEST - 1), [12]),
        (point_pooling(LARGEST, 2, 3, strides=2**31 - 1, end_padding=1), [12, 12, 12]),
    ],
)
def test_small_pooling_on_large_numbers(desc: dmlcpu.OperatorDesc, expected: list[int], isa: str) -> None:
    inputs = {"input_scale_tensor": np.float32(1), "output_scale_tensor": np.float32(1)}
    operator = compiled(dmlcpu.Device(isa=isa), desc)
    assert operator.binding_properties.temporary_resource_size < 1 << 26
    with at_once():
        result = operator.dispatch(input_tensor=np.uint8([12]), **inputs)
    assert result.reshape(-1).tolist() == expected


# --- elements far apart -----------------------------------------------------------------------------------------


def sparse(data_type: str, elements: int) -> NDArray[Any]:
    """Zeros of which only the pages that are touched take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    dtype = dtype_of(dmlcpu.TensorDataType[data_type])
    try:
        memory = mmap.mmap(-1, elements * dtype.itemsize, flags=flags)
    except (OSError, ValueError) as error:
        pytest.skip(f"no address space: {error}")
    return np.frombuffer(memory, dtype)


def test_inputs_and_outputs_that_span_the_limit(isa: str) -> None:
    """Offsets of 2^32 - 2 elements, 16 GiB, are neither cut off nor negative."""
    device = dmlcpu.Device(isa=isa)
    far = LARGEST - 1
    x = sparse("FLOAT32", LARGEST)
    x[[0, -1]] = [3.0, -7.0]
    codes = compiled(device, quantization((2,), input_strides=(far,))).dispatch(
        input_tensor=x, scale_tensor=np.float32([0.5]), zero_point_tensor=np.uint8([100])
    )
    assert codes.tolist() == [106, 86]
    far -= 3  # an UINT8 buffer is a multiple of four bytes
    out = sparse("UINT8", far + 1)
    result = compiled(device, quantization((2,), output_strides=(far,))).dispatch(
        input_tensor=np.float32([3, -7]),
        scale_tensor=np.float32([0.5]),
        zero_point_tensor=np.uint8([100]),
        output_tensor=out,
    )
    assert result is out
    assert out[[0, 1, far - 1, far]].tolist() == [106, 0, 0, 86]


def test_4_bits_reach_far(isa: str) -> None:
    """Offsets of 2^32 - 9 elements, half of them bytes, in both directions."""
    device = dmlcpu.Device(isa=isa)
    far = 2**32 - 9  # an odd index, in the upper half of its byte; buffers are multiples of four bytes
    codes = sparse("UINT8", (far + 1) // 2)
    codes[[0, -1]] = [0x7D, 0x9D]
    parameters = {"quantization_tensors[0]": np.float32([2]), "quantization_tensors[1]": np.uint8([0x01])}
    operator = compiled(device, dequantization_of_4_bits((2,), (1,), input_strides=(far,)))
    assert operator.dispatch(input_tensor=codes, **parameters).tolist() == [2 * (-3 - 1), 2 * (-7 - 1)]
    operator = compiled(device, quantization_to_4_bits((2,), (1,), (far,)))
    assert operator.dispatch(input_tensor=np.float32([6]), **parameters, output_tensor=codes) is codes
    assert codes[[0, 1, -2, -1]].tolist() == [0x74, 0, 0, 0x4D]


def test_every_operator_reaches_far(isa: str) -> None:
    device = dmlcpu.Device(isa=isa)
    far = 2**31 + 12345
    codes = sparse("UINT8", far + 1)
    codes[[0, -1]] = [7, 250]
    apart = tensor("UINT8", 2, strides=(far,))
    scale = tensor("FLOAT32", 2, strides=(0,))
    floats = changed(
        DEQUANTIZE, input_tensor=apart, scale_tensor=scale, zero_point_tensor=None, output_tensor=tensor("FLOAT32", 2)
    )
    result = compiled(device, floats).dispatch(input_tensor=codes, scale_tensor=np.float32([2]))
    assert result.tolist() == [14, 500]

    names = ("a", "b", "output")
    parameters: Any = {f"{name}_scale_tensor": tensor("FLOAT32", 1) for name in names}
    parameters |= {f"{name}_zero_point_tensor": None for name in names}
    numbers: Any = {f"{name}_scale_tensor": np.float32(1) for name in names}
    added = changed(ADD, a_tensor=apart, b_tensor=tensor("UINT8", 2), output_tensor=tensor("UINT8", 2), **parameters)
    result = compiled(device, added).dispatch(a_tensor=codes, b_tensor=np.uint8([1, 2]), **numbers)
    assert result.tolist() == [8, 252]

    x = sparse("FLOAT32", far + 1)
    x[[0, -1]] = [-1, 254]
    dynamic = changed(
        DYNAMIC,
        input_tensor=tensor("FLOAT32", 2, strides=(far,)),
        output_tensor=tensor("UINT8", 2),
        output_scale_tensor=tensor("FLOAT32", 1),
        output_zero_point_tensor=tensor("UINT8", 1),
    )
    assert [output.tolist() for output in compiled(device, dynamic).dispatch(input_tensor=x)] == [[0, 255], [1.0], [1]]

    for axis in range(3):
        sizes, strides = [1, 1, 1], [0, 0, 0]
        sizes[axis], strides[axis] = 2, far
        filters = sizes[1]
        convolution = point_convolution((1, 1, 1), 1, 1)
        convolution = changed(
            convolution,
            input_tensor=tensor("UINT8", *sizes, strides=strides),
            input_zero_point_tensor=None,
            filter_tensor=tensor("INT8", 1, filters, 1),
            output_tensor=tensor("UINT8", sizes[0], 1, sizes[2]),
        )
        numbers = {f"{name}_scale_tensor": np.float32(1) for name in ("input", "filter", "output")}
        result = compiled(device, convolution).dispatch(
            input_tensor=codes, filter_tensor=np.ones(filters, np.int8), **numbers
        )
        assert result.reshape(-1).tolist() == ([255] if axis == 1 else [7, 250])


# --- memory that runs out ---------------------------------------------------------------------------------------

SCRIPT = """
import resource
import numpy as np
import dmlcpu
from dmlcpu import TensorDataType as types, TensorDesc as T

def convolution(channels, flags=dmlcpu.TensorFlags.NONE):
    zeros, ones, scale = (0, 0, 0, 0), (1, 1, 1, 1), T(types.FLOAT32, (1, 1, 1, 1))
    return dmlcpu.QuantizedLinearConvolutionOperatorDesc(
        input_tensor=T(types.UINT8, (1, channels, 1, 1), strides=zeros), input_scale_tensor=scale,
        filter_tensor=T(types.INT8, (channels, channels, 1, 1), strides=zeros, flags=flags), filter_scale_tensor=scale,
        output_scale_tensor=scale, output_tensor=T(types.UINT8, (1, channels, 1, 1)),
        strides=(1, 1), dilations=(1, 1), start_padding=(0, 0), end_padding=(0, 0), group_count=1)

def fails(function, **arguments):
    try:
        function(**arguments)
    except MemoryError:
        return True
    return False

device = dmlcpu.Device(num_threads=2)
one = np.float32(1)
inputs = dict(input_tensor=np.uint8([1]), input_scale_tensor=one, filter_scale_tensor=one, output_scale_tensor=one)
weight = np.int8([1])
small = device.compile_operator(device.create_operator(convolution(64)))
small.dispatch(**inputs, filter_tensor=weight)

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), resource.getrlimit(resource.RLIMIT_AS)[1]))

# The desc is fine and is planned; the packed filter of 60000 x 60000 codes is what does not fit.
huge = device.compile_operator(device.create_operator(convolution(60000)))
assert huge.binding_properties.temporary_resource_size >= 60000 ** 2
output = np.full(60000, 0xAA, np.uint8)
for _ in range(3):
    assert fails(huge.dispatch, **inputs, filter_tensor=weight, output_tensor=output)
    assert (output == 0xAA).all()
    assert fails(huge.dispatch, **inputs, filter_tensor=weight)
    assert small.dispatch(**inputs, filter_tensor=weight).tolist() == [[[[64]]] * 64]

owner = device.compile_operator(device.create_operator(convolution(60000, dmlcpu.TensorFlags.OWNED_BY_DML)))
for _ in range(3):
    assert fails(owner.initialize, filter_tensor=weight)
    try:
        owner.dispatch(**inputs, output_tensor=output)
    except dmlcpu.DmlError as error:
        assert "initialize" in str(error)
    else:
        raise AssertionError("dispatched without a filter")

# An output left out is memory too.
x = np.broadcast_to(one, (30000, 30000))
assert fails(dmlcpu.quantize_linear, input=x, scale=1.0, device=device)
assert dmlcpu.quantize_linear(x[:2, :2], 1.0, device=device).tolist() == [[1, 1], [1, 1]]
print("done")
"""


@pytest.mark.skipif(not CAN_LIMIT_MEMORY, reason="memory cannot be limited here")
def test_memory_that_runs_out() -> None:
    command = [sys.executable, "-c", SCRIPT]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed.stderr
