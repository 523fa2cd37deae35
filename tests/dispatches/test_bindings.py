"""What may be bound to a tensor, and what a dispatch gives back."""

from __future__ import annotations

import array
import gc
import math
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import dmlcpu
from argument_forms import OldDLPack, OnlyDLPack
from bound_arrays import (
    Arrays,
    blank_outputs,
    compiled,
    dispatched,
    input_names,
    output_names,
    owning,
    random_inputs,
    same_bits,
    shaped,
    tensors_of,
)
from conftest import SEED
from dmlcpu import _core
from dmlcpu.tensor import span_in_elements
from operator_samples import ADD, CONVOLUTION, DEQUANTIZE, DYNAMIC, QUANTIZE, VALID_DESCS, changed, tensor
from process_memory import measures_memory, resident_bytes
from strided_tensor import FILL_BYTE

each_desc = pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)


class Subclass(np.ndarray[Any, Any]):
    pass


def inputs_of(desc: dmlcpu.OperatorDesc) -> Arrays:
    return random_inputs(desc, np.random.default_rng(SEED))


@pytest.fixture
def expected(desc: dmlcpu.OperatorDesc) -> Arrays:
    """What flat numpy arrays of just the right length give, which the tests of the operators check."""
    return dispatched(compiled(dmlcpu.Device(), desc), **inputs_of(desc))


def bound_as(desc: dmlcpu.OperatorDesc, name: str, flat: NDArray[Any], form: str) -> Any:
    """An input in another form."""
    described = tensors_of(desc)[name]
    if form == "longer":
        return np.concatenate([flat, flat[:1], np.zeros(9, flat.dtype)])
    if form == "shaped":
        return shaped(described, flat)
    if form == "subclass":
        return flat.view(Subclass)
    if form == "metadata":
        return flat.view(np.dtype(flat.dtype.str, metadata={"unit": "code"}))
    if form == "explicit order":
        return flat.view(flat.dtype.newbyteorder("<" if sys.byteorder == "little" else ">"))
    if form == "memoryview":
        return memoryview(flat)
    if form == "shaped memoryview":
        return memoryview(shaped(described, flat))
    if form == "read-only":
        return memoryview(flat.tobytes()).cast(flat.dtype.char)
    if form == "array.array":
        return array.array(flat.dtype.char, flat.tobytes())
    if form == "ctypes":
        return (np.ctypeslib.as_ctypes_type(flat.dtype) * flat.size).from_buffer_copy(flat)
    return {"DLPack": OnlyDLPack, "DLPack before 1.0": OldDLPack}[form](flat)


FORMS = ("longer", "shaped", "subclass", "metadata", "explicit order", "memoryview", "shaped memoryview", "read-only")
FORMS += ("array.array", "ctypes", "DLPack", "DLPack before 1.0")


@each_desc
@pytest.mark.parametrize("form", FORMS)
def test_inputs_of_every_form(desc: dmlcpu.OperatorDesc, form: str, expected: Arrays) -> None:
    operator = compiled(dmlcpu.Device(), desc)
    inputs = inputs_of(desc)
    bound = {name: bound_as(desc, name, flat, form) for name, flat in inputs.items()}
    assert same_bits(dispatched(operator, **bound), expected)
    # Each alone, beside plain arrays.
    for name, value in bound.items():
        assert same_bits(dispatched(operator, **{**inputs, name: value}), expected), name


@pytest.mark.parametrize("desc", [ADD, DYNAMIC], ids=["ADD", "DYNAMIC"])
def test_one_element(desc: dmlcpu.OperatorDesc, expected: Arrays) -> None:
    inputs = inputs_of(desc)
    single = [name for name, described in tensors_of(desc).items() if math.prod(described.sizes) == 1]
    scalars = {name: inputs[name][0] for name in single if name in inputs}
    zero_dimensional = {name: inputs[name].reshape(()) for name in scalars}
    operator = compiled(dmlcpu.Device(), desc)
    for bound in (scalars, zero_dimensional):
        assert same_bits(dispatched(operator, **{**inputs, **bound}), expected)
    outputs = {name: flat.reshape(()) for name, flat in blank_outputs(desc).items() if name in single}
    result = dispatched(operator, **inputs, **outputs)
    assert all(result[name] is given for name, given in outputs.items())
    assert same_bits(result, expected)


def test_bytes_are_uint8() -> None:
    operator = compiled(dmlcpu.Device(), DEQUANTIZE)
    inputs = inputs_of(DEQUANTIZE)
    expected = dispatched(operator, **inputs)
    for made in (bytes, bytearray):
        codes = made(inputs["input_tensor"].tobytes())
        assert same_bits(dispatched(operator, **{**inputs, "input_tensor": codes}), expected)


@each_desc
def test_strides_of_axes_of_length_1_do_not_count(desc: dmlcpu.OperatorDesc) -> None:
    """Neither the desc's nor the array's."""
    inputs = inputs_of(desc)
    expected = dispatched(compiled(dmlcpu.Device(), desc), **inputs)
    others = {}
    for name, described in tensors_of(desc).items():
        strides = [17 if size == 1 else s for size, s in zip(described.sizes, described.element_strides, strict=True)]
        others[name] = dmlcpu.TensorDesc(described.data_type, described.sizes, strides=strides)
    odd = {}
    for name, flat in inputs.items():
        view = shaped(tensors_of(desc)[name], flat)
        strides = [-40 if size == 1 else s for size, s in zip(view.shape, view.strides, strict=True)]
        odd[name] = as_strided(view, view.shape, strides)
    for described in (desc, changed(desc, **others)):
        operator = compiled(dmlcpu.Device(), described)
        for bound in (inputs, odd):
            assert same_bits(dispatched(operator, **bound), expected)


def test_broadcast_inputs() -> None:
    """A stride of 0 needs one element, however many the desc has."""
    inputs = inputs_of(QUANTIZE)
    assert inputs["zero_point_tensor"].size == 1
    assert inputs["scale_tensor"].size == 3
    operator = compiled(dmlcpu.Device(), QUANTIZE)
    expected = dispatched(operator, **inputs)
    scale = np.broadcast_to(inputs["scale_tensor"].reshape(3, 1, 1), (2, 3, 4, 5))
    zero_point = np.broadcast_to(inputs["zero_point_tensor"], (2, 3, 4, 5))
    bound = {**inputs, "scale_tensor": scale, "zero_point_tensor": zero_point}
    assert same_bits(dispatched(operator, **bound), expected)
    full = {name: np.ascontiguousarray(array) for name, array in bound.items()}
    with pytest.raises(dmlcpu.BindingError, match=r"strides \(240, 80, 20, 4\) in bytes") as raised:
        operator.dispatch(**{**bound, "scale_tensor": full["scale_tensor"]})
    assert raised.value.field == "scale_tensor"
    assert str(raised.value).endswith("; TensorDesc.from_array describes an array as it lies")


def test_what_to_do_with_an_array_that_lies_otherwise_is_told() -> None:
    floats = dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, (2, 3))
    desc = dmlcpu.DynamicQuantizeLinearOperatorDesc(
        input_tensor=floats,
        output_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (2, 3)),
        output_scale_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, (1, 1)),
        output_zero_point_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (1, 1)),
    )
    with pytest.raises(dmlcpu.BindingError) as raised:
        compiled(dmlcpu.Device(), desc).dispatch(input_tensor=np.zeros((2, 3), np.float32, order="F"))
    told = "; np.ascontiguousarray packs it, TensorDesc.from_array describes an array as it lies"
    assert str(raised.value).endswith(told)


@each_desc
def test_total_tensor_size_does_not_raise_the_minimum(desc: dmlcpu.OperatorDesc, expected: Arrays) -> None:
    roomy = {
        name: dmlcpu.TensorDesc(t.data_type, t.sizes, strides=t.strides, total_tensor_size_in_bytes=4096)
        for name, t in tensors_of(desc).items()
    }
    outputs = blank_outputs(desc)
    operator = compiled(dmlcpu.Device(), changed(desc, **roomy))
    operator.dispatch(**inputs_of(desc), **outputs)
    assert same_bits(outputs, expected)


# --- outputs ----------------------------------------------------------------------------------------------------

OUTPUT_STRIDES = {
    "packed": None,
    "channels last": (60, 1, 15, 3),
    "gaps": (200, 60, 13, 2),
    "any order": (3, 1, 30, 6),
    "gaps in any order": (2, 500, 4, 21),
}


@pytest.mark.parametrize("strides", OUTPUT_STRIDES.values(), ids=list(OUTPUT_STRIDES))
@pytest.mark.parametrize("desc", [QUANTIZE, DEQUANTIZE], ids=["QUANTIZE", "DEQUANTIZE"])
def test_outputs_left_out(desc: dmlcpu.OperatorDesc, strides: tuple[int, ...] | None, expected: Arrays) -> None:
    described = dmlcpu.TensorDesc(tensors_of(desc)["output_tensor"].data_type, (2, 3, 4, 5), strides=strides)
    operator = compiled(dmlcpu.Device(), changed(desc, output_tensor=described))
    span = span_in_elements(described.sizes, strides)
    # What is freed here is likely to be allocated next: gaps are not zero by themselves.
    dtype = expected["output_tensor"].dtype
    del [np.full(span, 0x2B, dtype) for _ in range(20)][:]
    for result in (operator.dispatch(**inputs_of(desc)), operator.dispatch(**inputs_of(desc), output_tensor=None)):
        assert type(result) is np.ndarray
        assert (result.dtype, result.shape) == (dtype, (2, 3, 4, 5))
        assert result.strides == tuple(stride * result.itemsize for stride in described.element_strides)
        assert result.flags.writeable
        assert same_bits({"output_tensor": result}, expected)
        flat = as_strided(result, (span,), (result.itemsize,))
        result[...] = 0
        assert not flat.any()


@each_desc
def test_outputs_left_out_are_new_each_time(desc: dmlcpu.OperatorDesc) -> None:
    operator = compiled(dmlcpu.Device(), desc)
    first, second = (dispatched(operator, **inputs_of(desc)) for _ in range(2))
    for name, output in first.items():
        assert not np.shares_memory(output, second[name])


@each_desc
@pytest.mark.parametrize(
    "form", ["flat", "shaped", "longer", "subclass", "memoryview", "ctypes", "DLPack", "DLPack before 1.0"]
)
def test_outputs_passed_are_written_and_returned(desc: dmlcpu.OperatorDesc, form: str, expected: Arrays) -> None:
    blank = blank_outputs(desc)
    given: dict[str, Any] = {}
    for name, flat in blank.items():
        if form == "longer":
            given[name] = np.concatenate([flat, flat[:1]])
        elif form == "ctypes":
            given[name] = (np.ctypeslib.as_ctypes_type(flat.dtype) * flat.size).from_buffer(flat)
        else:
            given[name] = flat if form == "flat" else bound_as(desc, name, flat, form)
    result = dispatched(compiled(dmlcpu.Device(), desc), **inputs_of(desc), **given)
    assert all(result[name] is output for name, output in given.items())
    if form == "longer":
        assert all((output[-1:].view(np.uint8) == FILL_BYTE).all() for output in given.values())
        blank = {name: output[:-1] for name, output in given.items()}
    assert same_bits(blank, expected)


def test_a_bytearray_is_an_output() -> None:
    content = bytearray(120)
    operator = compiled(dmlcpu.Device(), QUANTIZE)
    assert operator.dispatch(**inputs_of(QUANTIZE), output_tensor=content) is content
    assert bytes(content) == operator.dispatch(**inputs_of(QUANTIZE)).tobytes()


def test_several_outputs_are_a_named_tuple() -> None:
    operator = compiled(dmlcpu.Device(), DYNAMIC)
    inputs = inputs_of(DYNAMIC)
    result = operator.dispatch(**inputs)
    assert isinstance(result, tuple)
    assert result._fields == ("output_tensor", "output_scale_tensor", "output_zero_point_tensor")
    assert [output.shape for output in result] == [(4, 5), (1, 1), (1, 1)]
    assert result[1] is result.output_scale_tensor
    # Some passed, some left out.
    for name in output_names(DYNAMIC):
        given = blank_outputs(DYNAMIC)[name]
        mixed = operator.dispatch(**inputs, **{name: given})
        assert getattr(mixed, name) is given
        assert all(type(output) is np.ndarray for output in mixed)
        assert (given.reshape(getattr(result, name).shape) == getattr(result, name)).all()


def test_none_stands_for_an_absent_tensor() -> None:
    desc = changed(ADD, a_zero_point_tensor=None, output_zero_point_tensor=None)
    operator = compiled(dmlcpu.Device(), desc)
    inputs = inputs_of(desc)
    nones = {"a_zero_point_tensor": None, "output_zero_point_tensor": None, "output_tensor": None}
    assert same_bits(dispatched(operator, **inputs, **nones), dispatched(operator, **inputs))


def test_inputs_may_overlap_each_other() -> None:
    desc = changed(ADD, b_tensor=tensor("UINT8", 2, 3), b_zero_point_tensor=None)
    inputs = inputs_of(desc)
    same = {**inputs, "b_tensor": inputs["a_tensor"], "b_scale_tensor": inputs["a_scale_tensor"]}
    copies = {name: content.copy() for name, content in same.items()}
    operator = compiled(dmlcpu.Device(), desc)
    assert same_bits(dispatched(operator, **same), dispatched(operator, **copies))


# --- nothing is kept --------------------------------------------------------------------------------------------


def attempt(operator: dmlcpu.CompiledOperator, bindings: dict[str, Any]) -> bool:
    try:
        operator.dispatch(**bindings)
    except dmlcpu.BindingError:
        return False
    return True


@each_desc
def test_no_reference_is_kept(desc: dmlcpu.OperatorDesc) -> None:
    operator = compiled(dmlcpu.Device(), desc)
    plain: dict[str, Any] = {**inputs_of(desc), **blank_outputs(desc)}
    others = [{name: kind(content) for name, content in plain.items()} for kind in (OnlyDLPack, OldDLPack)]
    first = input_names(desc)[0]
    calls = [(plain, True), *((other, True) for other in others), ({**plain, "nonsense": plain[first]}, False)]
    calls += [({**plain, name: plain[name][:0]}, False) for name in plain]
    before = {name: sys.getrefcount(content) for name, content in plain.items()}
    for bindings, succeeds in calls:
        for _ in range(3):
            assert attempt(operator, bindings) is succeeds
    assert {name: sys.getrefcount(content) for name, content in plain.items()} == before


def test_compiled_operators_are_freed_with_their_last_reference() -> None:
    device = dmlcpu.Device()
    for desc in VALID_DESCS.values():
        operator = compiled(device, owning(desc, input_names(desc)))
        operator.initialize(**inputs_of(desc))
        operator.dispatch()
        gone = weakref.ref(operator)
        del operator
        gc.collect()
        assert gone() is None, desc.operator_type.name


@measures_memory
def test_memory_does_not_grow() -> None:
    """Each of the calls would leave 64 KiB or more behind, had it kept an array, an output or a plan."""
    device = dmlcpu.Device(num_threads=2)
    sizes = (1, 64, 32, 32)
    desc = changed(
        QUANTIZE,
        input_tensor=tensor("FLOAT32", *sizes),
        scale_tensor=tensor("FLOAT32", *sizes, strides=(0, 0, 0, 0)),
        zero_point_tensor=None,
        output_tensor=tensor("UINT8", *sizes),
    )
    inputs = inputs_of(desc)
    bad = {**inputs, "scale_tensor": 1.0}
    filter_tensor = tensor("INT8", 256, 64, 3, 3, flags=dmlcpu.TensorFlags.OWNED_BY_DML)
    owner = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor")),
        input_tensor=tensor("UINT8", 1, 64, 3, 3),
        filter_tensor=filter_tensor,
        filter_scale_tensor=tensor("FLOAT32", 1, 256, 1, 1),
        output_tensor=tensor("UINT8", 1, 256, 1, 1),
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        group_count=1,
    )
    weights = np.ones((256, 64, 3, 3), np.int8)

    def round_of_calls(count: int) -> None:
        operator = compiled(device, desc)
        for _ in range(count):
            assert attempt(operator, inputs)
            assert attempt(operator, {**inputs, "input_tensor": OnlyDLPack(inputs["input_tensor"])})
            assert not attempt(operator, {**bad, "output_tensor": np.empty(sizes, np.uint8)})
        for _ in range(count // 5):
            compiled(device, owner).initialize(filter_tensor=weights)

    round_of_calls(50)
    before = resident_bytes()
    round_of_calls(700)
    assert resident_bytes() - before < 16 << 20


NATIVE_TYPES = [
    _core.BoundOperator,
    _core.BoundGraph,
    _core.CallMemo,
    _core.GivenGraph,
    _core.PackedFeeds,
    _core.SessionMemory,
]


@pytest.mark.parametrize("native", NATIVE_TYPES)
def test_native_objects_are_made_whole_or_not_at_all(native: Any) -> None:
    for make in (native, lambda: native.__new__(native), lambda: object.__new__(native)):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(TypeError):
        type("Derived", (native,), {})()
