"""Dispatches at the limits of 32 bits and of memory: the right result, or the right exception, and at once."""

from __future__ import annotations

import mmap
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from bound_arrays import compiled
from dmlcpu.tensor import dtype_of
from hard_descs import (
    CAN_LIMIT_MEMORY,
    LARGEST,
    at_once,
    dequantization_of_4_bits,
    point_convolution,
    quantization,
    quantization_to_4_bits,
)
from operator_samples import (
    ADD,
    DEQUANTIZE,
    DYNAMIC,
    POOLING,
    changed,
    tensor,
)
from process_memory import IMPORTED_BY_SCRIPTS


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


def test_other_operators_reach_far(isa: str) -> None:
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
from process_memory import address_space_bytes
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
    except MemoryError as error:
        return str(error) or "MemoryError"
    return None

device = dmlcpu.Device(num_threads=2)
one = np.float32(1)
inputs = dict(input_tensor=np.uint8([1]), input_scale_tensor=one, filter_scale_tensor=one, output_scale_tensor=one)
weight = np.int8([1])
small = device.compile_operator(device.create_operator(convolution(64)))
small.dispatch(**inputs, filter_tensor=weight)

resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + (1 << 29), resource.getrlimit(resource.RLIMIT_AS)[1]))

# The desc is fine and is planned; the packed filter of 60000 x 60000 codes is what does not fit.
huge = device.compile_operator(device.create_operator(convolution(60000)))
assert huge.binding_properties.temporary_resource_size >= 60000 ** 2
output = np.full(60000, 0xAA, np.uint8)
for _ in range(3):
    message = fails(huge.dispatch, **inputs, filter_tensor=weight, output_tensor=output)
    assert message.startswith("QUANTIZED_LINEAR_CONVOLUTION: 3")
    assert message.endswith(" bytes of memory are not available")
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
    command = [sys.executable, "-c", IMPORTED_BY_SCRIPTS + SCRIPT]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed.stderr
