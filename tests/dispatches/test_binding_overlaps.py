"""Outputs may not overlap any other tensor, to the byte; what only lies between their elements is free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import dmlcpu
from bound_arrays import addresses, blank_outputs, compiled, dispatched, output_names, random_inputs, same_bits
from conftest import SEED
from dmlcpu.tensor import dtype_of, span_in_elements
from operator_samples import ADD, DEQUANTIZE, DYNAMIC, VALID_DESCS, changed, tensor


def assert_refused(operator: dmlcpu.CompiledOperator, field: str, memory: NDArray[np.uint8], **bindings: Any) -> None:
    """Whatever is bound lies in this memory, which must stay as it is."""
    before = memory.copy()
    with pytest.raises(dmlcpu.BindingError, match="memory of its own") as raised:
        operator.dispatch(**bindings)
    assert raised.value.field == field
    assert (memory == before).all()


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_each_output_on_each_other_tensor(desc: dmlcpu.OperatorDesc) -> None:
    """From the first shared byte to the last; side by side they are accepted."""
    operator = compiled(dmlcpu.Device(), desc)
    arrays = {**random_inputs(desc, np.random.default_rng(SEED)), **blank_outputs(desc)}
    inputs = {name: content for name, content in arrays.items() if name not in output_names(desc)}
    expected = dispatched(operator, **inputs)
    for name in output_names(desc):
        for other in arrays.keys() - {name}:
            bytes_here, bytes_there = arrays[name].nbytes, arrays[other].nbytes
            start = (bytes_here + 63) // 64 * 64
            memory = np.zeros(start + bytes_there + bytes_here + 64, np.uint8)
            there = memory[start : start + bytes_there].view(arrays[other].dtype)
            there[...] = arrays[other]
            step = arrays[name].itemsize
            first, last = start - bytes_here, -(-(start + bytes_there) // step) * step
            for begin in sorted({first, first + step, start, last - step, last}):
                here = memory[begin : begin + bytes_here].view(arrays[name].dtype)
                bindings = {**inputs, other: there, name: here}
                if begin in (first, last):
                    assert same_bits(dispatched(operator, **bindings), expected), (name, other, begin)
                    there[...] = arrays[other]
                else:
                    # Of two outputs the first of the desc is named.
                    names = [field for field in output_names(desc) if field in (name, other)]
                    assert_refused(operator, names[0], memory, **bindings)


def test_in_place_is_refused() -> None:
    desc = changed(ADD, b_tensor=tensor("INT8", 2, 3), output_tensor=tensor("INT8", 2, 3))
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    operator = compiled(dmlcpu.Device(), desc)
    assert_refused(
        operator, "output_tensor", inputs["b_tensor"].view(np.uint8), **inputs, output_tensor=inputs["b_tensor"]
    )


def test_outputs_overlapping_each_other() -> None:
    operator = compiled(dmlcpu.Device(), DYNAMIC)
    inputs = random_inputs(DYNAMIC, np.random.default_rng(SEED))
    memory = np.zeros(64, np.uint8)
    codes, scale = memory[:20], memory[20:24].view(np.float32)
    for bindings, field in (
        ({"output_tensor": codes, "output_scale_tensor": memory[16:20].view(np.float32)}, "output_tensor"),
        ({"output_tensor": codes, "output_zero_point_tensor": memory[19:20]}, "output_tensor"),
        ({"output_scale_tensor": scale, "output_zero_point_tensor": memory[23:24]}, "output_scale_tensor"),
        ({"output_tensor": codes, "output_scale_tensor": scale, "output_zero_point_tensor": codes}, "output_tensor"),
    ):
        assert_refused(operator, field, memory, **inputs, **bindings)
    apart = {"output_tensor": codes, "output_scale_tensor": scale, "output_zero_point_tensor": memory[24:25]}
    assert same_bits(dispatched(operator, **inputs, **apart), dispatched(operator, **inputs))


def test_interleaved_channels_are_apart() -> None:
    """The output's channels lie between the input's: their ranges of addresses overlap, their bytes do not."""
    pixel = {"strides": (6 * 16, 1, 24, 6)}
    desc = changed(
        ADD,
        **dict.fromkeys(("a_zero_point_tensor", "b_zero_point_tensor", "output_zero_point_tensor")),
        a_tensor=tensor("UINT8", 1, 3, 4, 4, **pixel),
        b_tensor=tensor("UINT8", 1, 3, 4, 4, **pixel),
        output_tensor=tensor("UINT8", 1, 3, 4, 4, **pixel),
        **{f"{name}_scale_tensor": tensor("FLOAT32", 1, 1, 1, 1) for name in ("a", "b", "output")},
    )
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    operator = compiled(dmlcpu.Device(), desc)
    expected = dispatched(operator, **inputs)["output_tensor"]
    memory = np.zeros(6 * 16, np.uint8)
    picture = memory.reshape(1, 4, 4, 6).transpose(0, 3, 1, 2)
    a, output = picture[:, :3], picture[:, 3:]
    a[...] = as_strided(inputs["a_tensor"], a.shape, a.strides)
    before = a.copy()
    assert operator.dispatch(**{**inputs, "a_tensor": a}, output_tensor=output) is output
    assert (output == expected).all()
    assert (a == before).all()
    for channel in (1, 2):
        assert_refused(
            operator, "output_tensor", memory, **{**inputs, "a_tensor": a}, output_tensor=picture[:, channel:][:, :3]
        )


def test_only_bytes_that_are_used_count() -> None:
    """A flat array may be longer than its tensor; the surplus belongs to others."""
    operator = compiled(dmlcpu.Device(), DYNAMIC)
    inputs = random_inputs(DYNAMIC, np.random.default_rng(SEED))
    expected = dispatched(operator, **inputs)
    memory = np.zeros(128, np.uint8)
    memory[:80].view(np.float32)[...] = inputs["input_tensor"]
    everything = memory.view(np.float32)
    result = dispatched(
        operator, input_tensor=everything, output_tensor=memory[80:], output_scale_tensor=everything[25:]
    )
    assert same_bits({**result, "output_tensor": memory[80:100], "output_scale_tensor": everything[25:26]}, expected)
    assert_refused(operator, "output_tensor", memory, input_tensor=everything, output_tensor=memory[79:])


def test_a_repeated_input_is_as_long_as_its_element() -> None:
    desc = changed(DYNAMIC, input_tensor=tensor("FLOAT32", 4, 5, strides=(0, 0)))
    operator = compiled(dmlcpu.Device(), desc)
    memory = np.zeros(24, np.uint8)
    assert (
        operator.dispatch(input_tensor=memory[:4].view(np.float32), output_tensor=memory[4:]).output_tensor.size == 20
    )
    assert_refused(
        operator, "output_tensor", memory, input_tensor=memory[:4].view(np.float32), output_tensor=memory[3:23]
    )


# --- against sets of addresses ----------------------------------------------------------------------------------


SMALL_STRIDES = st.integers(0, 24)


@given(data=st.data())
def test_overlap_is_decided_exactly(data: st.DataObject) -> None:
    """An UINT8 input and a FLOAT32 output, of any strides, anywhere in one memory."""
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), label="sizes"))
    strides = st.tuples(*(SMALL_STRIDES for _ in sizes))
    inner = [int(np.prod(sizes[axis + 1 :])) * data.draw(st.integers(1, 3), label="step") for axis in range(len(sizes))]
    source = dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, sizes, strides=data.draw(strides, label="input strides"))
    target = dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, sizes, strides=inner)
    scale = dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, sizes, strides=(0,) * len(sizes))
    desc = changed(DEQUANTIZE, input_tensor=source, scale_tensor=scale, zero_point_tensor=None, output_tensor=target)
    device = dmlcpu.Device(isa="scalar", num_threads=1)
    try:
        operator = compiled(device, desc)
    except dmlcpu.InvalidDescError:  # two elements of the output at one address
        return
    spans = [span_in_elements(t.sizes, t.strides) * dtype_of(t.data_type).itemsize for t in (source, target)]
    begin = 4 * data.draw(st.integers(0, spans[0] // 4), label="output at")
    other = data.draw(st.integers(0, begin + spans[1]), label="input at")
    memory = np.random.default_rng(SEED).integers(0, 256, max(begin + spans[1], other + spans[0]), np.uint8)
    # Both flat and just long enough: numpy's own view of them would be coarser.
    bound = {"input_tensor": memory[other : other + spans[0]], "scale_tensor": np.float32([1])}
    output = memory[begin : begin + spans[1]].view(np.float32)
    if addresses(source, other) & addresses(target, begin):
        assert_refused(operator, "output_tensor", memory, **bound, output_tensor=output)
    else:
        expected = operator.dispatch(**{name: content.copy() for name, content in bound.items()})
        outside = np.array(sorted(set(range(memory.size)) - addresses(target, begin)), int)
        before = memory[outside]
        operator.dispatch(**bound, output_tensor=output)
        assert (as_strided(output, expected.shape, expected.strides) == expected).all()
        assert (memory[outside] == before).all()


def test_a_pair_that_is_hard_to_decide_is_refused() -> None:
    """Whether two views share a byte is a problem that all known algorithms take exponential time for."""
    sizes, ones = (6,) * 5, tensor("FLOAT32", *(1,) * 5)
    strides = np.random.default_rng(SEED).integers(1, 1 << 20, (2, 5))
    desc = changed(
        ADD,
        **{f"{name}_scale_tensor": ones for name in ("a", "b", "output")},
        **{f"{name}_zero_point_tensor": None for name in ("a", "b", "output")},
        a_tensor=tensor("UINT8", *sizes, strides=strides[0]),
        b_tensor=tensor("UINT8", *sizes, strides=(0,) * 5),
        output_tensor=tensor("UINT8", *sizes, strides=strides[1]),
    )
    inputs = random_inputs(changed(desc, a_tensor=tensor("UINT8", *sizes)), np.random.default_rng(SEED))
    memory = np.zeros(1 << 25, np.uint8)
    with pytest.raises(dmlcpu.BindingError, match="may overlap a_tensor") as raised:
        compiled(dmlcpu.Device(), desc).dispatch(**{**inputs, "a_tensor": memory}, output_tensor=memory[1000:])
    assert raised.value.field == "output_tensor"
    assert not memory.any()
