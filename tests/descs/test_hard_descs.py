"""Descs at the limits of 32 and 64 bits: the right exception, or a plan, and at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlcpu
from bound_arrays import compiled
from hard_descs import (
    LARGEST,
    at_once,
    dequantization_of_4_bits,
    quantization,
    quantization_to_4_bits,
)
from operator_samples import (
    CONVOLUTION,
    DYNAMIC,
    changed,
    tensor,
)


def assert_refused(desc: dmlcpu.OperatorDesc, field: str) -> None:
    with at_once(), pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(desc)
    assert raised.value.field == field


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


def elements_meet(size: int, strides: tuple[int, ...]) -> bool:
    """Whether elements of a tensor share an address, from all the addresses."""
    addresses = np.zeros(1, np.int64)
    for stride in strides:
        addresses = np.add.outer(addresses, stride * np.arange(size)).ravel()
    addresses.sort()
    return bool((addresses[1:] == addresses[:-1]).any())


def test_outputs_of_strides_that_are_hard_to_tell_apart(random_numbers: np.random.Generator) -> None:
    outcomes = []
    for _ in range(100):
        strides = tuple(int(stride) for stride in random_numbers.integers(1, 2**25, 8))
        refusal = None
        with at_once():
            try:
                dmlcpu.Device().create_operator(quantization((5,) * 8, output_strides=strides))
            except dmlcpu.InvalidDescError as error:
                refusal = error
        assert (refusal is not None) == elements_meet(5, strides), strides
        assert refusal is None or refusal.field == "output_tensor"
        outcomes.append(refusal is not None)
    assert set(outcomes) == {False, True}


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


@pytest.mark.parametrize("num_threads", [1, 130])
@pytest.mark.parametrize("wide", [2**31 - 65, LARGEST - 128])
def test_scratch_memory_of_windows_of_billions_of_columns(num_threads: int, wide: int) -> None:
    """A row of padding, of which each window reads half: copied once beside the filter, not once for each window."""
    convolution = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor", "output_zero_point_tensor")),
        input_tensor=tensor("UINT8", 1, 1, 1, 1),
        filter_tensor=tensor("INT8", 1, 1, 1, wide, strides=(0,) * 4),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        output_tensor=tensor("UINT8", 1, 1, 1, wide),
        **dict.fromkeys(("strides", "dilations"), (1, 1)),
        **{"start_padding": (0, wide - 1), "end_padding": (0, wide - 1), "group_count": 1},
    )
    with at_once():
        operator = compiled(dmlcpu.Device(num_threads=num_threads), convolution)
    panel = 32 * wide  # of the filter, at most
    assert 2 * wide < operator.binding_properties.temporary_resource_size < panel + 2 * wide + (num_threads << 20)


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
