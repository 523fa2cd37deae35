"""What may not be bound: every mistake is a BindingError that names the tensor, and nothing was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.ma  # loaded, its arrays are looked for
import pytest
from numpy.typing import NDArray

import dmlcpu
from argument_forms import Mute, OnlyDLPack
from bound_arrays import (
    blank_outputs,
    compiled,
    input_names,
    is_blank,
    output_names,
    owning,
    random_inputs,
    same_bits,
    shaped,
    tensors_of,
)
from conftest import SEED
from dmlcpu import TensorDataType, TensorDesc
from operator_samples import ADD, CONVOLUTION, DYNAMIC, QUANTIZE, VALID_DESCS, changed, tensor

each_desc = pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)

DTYPES = [np.dtype(name) for name in ("float32", "float16", "uint32", "uint16", "uint8", "int32", "int16", "int8")]
DTYPES += [
    np.dtype(name) for name in ("float64", "uint64", "int64", "bool", "complex64", "O", "S1", "U1", "M8[s]", "V4")
]
DTYPES += [np.dtype([("code", "u1")]), np.dtype([("value", "f4")])]


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class HostileDLPack:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def no_arrays() -> Iterator[Any]:
    """Nothing of this is converted."""
    yield from (1, 1.0, True, 1j, "1", [1], (1,), {}, {1}, object(), np.ndarray, np.float32, range(3), iter([1]))
    yield from ([[1, 2], [3, 4]], dmlcpu, Hostile(), memoryview(bytearray(8)).cast("c"), lambda: None)
    yield from (HostileDLPack(RuntimeError("no")), HostileDLPack(BufferError("no")), HostileDLPack(None))
    yield HostileDLPack(Mute())
    released = memoryview(b"1234")
    released.release()
    yield released


def other_types(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for dtype in DTYPES:
        if dtype != flat.dtype:
            yield np.zeros(flat.shape, dtype)
            if dtype.itemsize == flat.itemsize and not dtype.hasobject:
                yield flat.view(dtype)
    if flat.itemsize > 1:
        yield flat.astype(flat.dtype.newbyteorder())


def other_layouts(described: dmlcpu.TensorDesc, flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    yield flat[:-1]
    yield flat[:0]
    yield np.broadcast_to(flat[:1], (0, *described.sizes[1:]))
    good = shaped(described, flat)
    yield good[None]
    yield good[..., None]
    yield good.reshape(1, -1, *[1] * 9)
    if good.size > 1:
        yield flat[0].reshape(())
        yield np.repeat(good, 2, axis=np.argmax(good.shape))
        spread = np.repeat(good, 2, axis=-1)[..., ::2]
        yield from (spread, spread[..., ::-1]) if good.shape[-1] > 1 else ()
    if flat.size > 1:
        yield flat[::-1]
        yield np.repeat(flat, 2)[::2]
    if good.ndim > 1 and good.shape != good.shape[::-1]:
        yield good.T
    if flat.itemsize > 1:
        for shift in range(1, flat.itemsize):
            bytes_ = bytearray(flat.nbytes + flat.itemsize)
            yield np.frombuffer(bytes_, np.uint8)[shift : shift + flat.nbytes].view(flat.dtype)


def read_only(described: dmlcpu.TensorDesc, flat: NDArray[Any]) -> Iterator[Any]:
    frozen = flat.copy()
    frozen.flags.writeable = False
    yield frozen
    yield shaped(described, frozen)
    yield memoryview(frozen)
    if flat.dtype == np.uint8:
        yield flat.tobytes()
    if flat.size == 1:
        yield flat[0]
        yield frozen.reshape(())


class Caller:
    """An operator with good bindings, to be called with bad ones."""

    def __init__(self, desc: dmlcpu.OperatorDesc) -> None:
        self.operator = compiled(dmlcpu.Device(), desc)
        self.inputs = random_inputs(desc, np.random.default_rng(SEED))
        self.outputs = blank_outputs(desc)

    def flat(self, name: str) -> NDArray[Any]:
        return {**self.inputs, **self.outputs}[name]

    def assert_refused(self, field: str, **changes: Any) -> str:
        """Returns the message."""
        try:
            result = self.operator.dispatch(**{**self.inputs, **self.outputs, **changes})
        except dmlcpu.BindingError as error:
            refusal = error
        else:
            raise AssertionError(f"accepted {changes}, and returned {result}")
        assert isinstance(refusal, dmlcpu.DmlError)
        assert isinstance(refusal, ValueError)
        assert refusal.field == field
        message = str(refusal)
        assert message.startswith(f"{self.operator.desc.operator_type.name}: {field}: ")
        assert f"{field}: got " in message
        assert ", expected " in message
        assert is_blank(self.outputs)
        return message


FIELDS = [
    pytest.param(desc, name, id=f"{desc.operator_type.name}-{name}")
    for desc in VALID_DESCS.values()
    for name in tensors_of(desc)
]


@pytest.mark.parametrize(("desc", "name"), FIELDS)
def test_no_array(desc: dmlcpu.OperatorDesc, name: str) -> None:
    caller = Caller(desc)
    for value in no_arrays():
        message = caller.assert_refused(name, **{name: value})
        assert "nothing is converted" in message or " of shape " in message
    message = caller.assert_refused(name, **{name: caller.flat(name).tolist()})
    told = f"np.asarray(x, np.{caller.flat(name).dtype})"
    assert message.endswith(f"; nothing is converted, but {told} makes an array of numbers")


class Untrue(np.ndarray[Any, Any]):
    """Says that it is larger than it is."""

    shape = property(lambda self: (10**7,))  # type: ignore[assignment]
    size = property(lambda self: 10**7)  # type: ignore[assignment]
    strides = property(lambda self: (1,))  # type: ignore[assignment]


@pytest.mark.parametrize("data_type", [TensorDataType.UINT8, TensorDataType.INT4])
def test_the_memory_of_a_subclass_is_what_counts(data_type: TensorDataType) -> None:
    """Four bits are packed here, in Python, and other codes are read by the native module."""
    desc = dmlcpu.DequantizeOperatorDesc(
        input_tensor=TensorDesc(data_type, (10**7,)),
        output_tensor=TensorDesc(TensorDataType.FLOAT32, (10**7,)),
        quantization_type=1,
        quantization_tensors=[TensorDesc(TensorDataType.FLOAT32, (1,))],
    )
    plan = compiled(dmlcpu.Device(num_threads=1), desc)
    dtype = ml_dtypes.int4 if data_type is TensorDataType.INT4 else np.uint8
    with pytest.raises(dmlcpu.BindingError, match=r"of shape \(3,\) and strides \(1,\) in bytes"):
        plan.dispatch(input_tensor=np.zeros(3, dtype).view(Untrue), quantization_tensors=[np.ones(1, np.float32)])


@pytest.mark.parametrize(("desc", "name"), FIELDS)
def test_masked_elements(desc: dmlcpu.OperatorDesc, name: str) -> None:
    """Of an input, or of an output, which would hide what was written."""
    caller = Caller(desc)
    message = caller.assert_refused(name, **{name: np.ma.masked_array(caller.flat(name), True)})
    assert "got an array with masked elements, expected one without masked elements" in message


@pytest.mark.parametrize(("desc", "name"), FIELDS)
def test_wrong_type(desc: dmlcpu.OperatorDesc, name: str) -> None:
    caller = Caller(desc)
    for value in other_types(caller.flat(name)):
        message = caller.assert_refused(name, **{name: value})
        assert f"got {value.dtype} of shape" in message
        assert f"expected {caller.flat(name).dtype} of shape" in message
        if name not in caller.outputs and (value.dtype == "O" or not value.dtype.isnative):
            assert message.endswith(f"; nothing is cast: np.asarray(x, np.{caller.flat(name).dtype})")


@pytest.mark.parametrize(("desc", "name"), FIELDS)
def test_wrong_layout(desc: dmlcpu.OperatorDesc, name: str) -> None:
    caller = Caller(desc)
    described = tensors_of(desc)[name]
    flat = caller.flat(name)
    for value in other_layouts(described, flat):
        message = caller.assert_refused(name, **{name: value})
        assert f"of shape {value.shape}" in message
        if value.flags.aligned:
            assert f"with at least {flat.size} element" in message
            assert f"of shape {described.sizes}" in message
        else:
            assert f"at an address that is no multiple of {value.dtype.alignment}" in message


@pytest.mark.parametrize(("desc", "name"), [field for field in FIELDS if field.values[1].startswith("output")])
def test_read_only(desc: dmlcpu.OperatorDesc, name: str) -> None:
    caller = Caller(desc)
    values = list(read_only(tensors_of(desc)[name], caller.flat(name)))
    if name in caller.inputs:
        expected = {output: content.copy() for output, content in caller.outputs.items()}
        caller.operator.dispatch(**caller.inputs, **expected)
        for value in values:
            outputs = blank_outputs(desc)
            caller.operator.dispatch(**{**caller.inputs, name: value}, **outputs)
            assert same_bits(outputs, expected)
        return
    for value in values:
        assert "read-only" in caller.assert_refused(name, **{name: value})
        assert np.asarray(value).tobytes() == caller.flat(name).tobytes()


class ImmutableBytes(bytes):
    """Exports its memory as libraries of immutable arrays do: DLPack before 1.0 cannot say what the buffer says."""

    def __dlpack__(self, stream: None = None) -> Any:
        return np.frombuffer(bytearray(self), np.uint8).__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return (1, 0)


def test_read_only_memory_of_other_libraries() -> None:
    caller = Caller(QUANTIZE)
    values: list[Any] = [ImmutableBytes(caller.flat("output_tensor"))]
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # which exports read-only arrays: by DLPack 1.0
        frozen = caller.flat("output_tensor").copy()
        frozen.flags.writeable = False
        values.append(OnlyDLPack(frozen))
    for value in values:
        assert "read-only" in caller.assert_refused("output_tensor", output_tensor=value)


@each_desc
def test_missing_inputs(desc: dmlcpu.OperatorDesc) -> None:
    caller = Caller(desc)
    for name in input_names(desc):
        assert "no binding" in caller.assert_refused(name, **{name: None})
        good = caller.inputs.pop(name)
        assert "no binding" in caller.assert_refused(name)
        caller.inputs[name] = good
    caller.inputs.clear()
    caller.assert_refused(input_names(desc)[0])


@each_desc
def test_unknown_names(desc: dmlcpu.OperatorDesc) -> None:
    caller = Caller(desc)
    first = next(iter(caller.inputs.values()))
    for name in ("input", "Input_tensor", "output_tensor ", "filter", "", "strides", "quantization_tensor", "\ud800"):
        for value in (first, None, 1):
            assert "no tensor has this name" in caller.assert_refused(name, **{name: value})


def test_absent_tensors_cannot_be_bound() -> None:
    for desc, name in ((QUANTIZE, "zero_point_tensor"), (ADD, "b_zero_point_tensor"), (CONVOLUTION, "bias_tensor")):
        value = random_inputs(desc, np.random.default_rng(SEED))[name]
        caller = Caller(changed(desc, **{name: None}))
        for given in (value, 0, "0"):
            assert "created without" in caller.assert_refused(name, **{name: given})


@each_desc
def test_owned_tensors_cannot_be_bound_at_dispatch(desc: dmlcpu.OperatorDesc) -> None:
    for name in input_names(desc):
        caller = Caller(owning(desc, [name]))
        value = caller.inputs.pop(name)
        caller.operator.initialize(**{name: value})
        for given in (value, 0):
            message = caller.assert_refused(name, **{name: given})
            assert "initialize" in message
            assert "OWNED_BY_DML" in message
        caller.operator.dispatch(**caller.inputs, **{name: None})


def test_the_first_wrong_tensor_of_the_desc_is_named() -> None:
    """The order of the arguments does not count."""
    caller = Caller(ADD)
    caller.assert_refused("a_scale_tensor", output_tensor=1, b_tensor=2, a_scale_tensor=3)


def test_an_array_of_ml_dtypes_is_another_type() -> None:
    for name in ("int4", "uint4", "bfloat16", "float8_e4m3fn"):
        caller = Caller(QUANTIZE)
        value = np.zeros(tensors_of(QUANTIZE)["output_tensor"].sizes, getattr(ml_dtypes, name))
        caller.assert_refused("output_tensor", output_tensor=value)
        caller.assert_refused("input_tensor", input_tensor=value)
    halves, codes = tensor("FLOAT16", 4), tensor("UINT8", 4)
    caller = Caller(
        dmlcpu.ElementWiseQuantizeLinearOperatorDesc(input_tensor=halves, scale_tensor=halves, output_tensor=codes)
    )
    # To numpy these are floats, too.
    caller.assert_refused("input_tensor", input_tensor=np.zeros(8, ml_dtypes.float8_e5m2))


def test_good_bindings_after_bad_ones() -> None:
    caller = Caller(DYNAMIC)
    caller.assert_refused("input_tensor", input_tensor=1)
    result = caller.operator.dispatch(**caller.inputs, **caller.outputs)
    assert not is_blank(caller.outputs)
    assert all(output is caller.outputs[name] for name, output in zip(output_names(DYNAMIC), result, strict=True))


@pytest.mark.parametrize(("strides", "layout"), [(None, "packed"), ((3, 1), "strides (3, 1) in elements")])
def test_a_message_in_full(strides: tuple[int, ...] | None, layout: str) -> None:
    caller = Caller(changed(ADD, b_tensor=TensorDesc(TensorDataType.INT8, (2, 3), strides=strides)))
    assert caller.assert_refused("b_tensor", b_tensor=np.zeros((2, 3), np.uint8)) == (
        "ELEMENT_WISE_QUANTIZED_LINEAR_ADD: b_tensor: got uint8 of shape (2, 3), expected int8 of shape (2, 3), "
        f"{layout}, or contiguous 1-D with at least 6 elements"
    )


def test_names_that_are_known_are_those_of_the_call() -> None:
    caller = Caller(owning(ADD, ["b_tensor"]))
    with pytest.raises(dmlcpu.BindingError, match=r"expected one of b_tensor$"):
        caller.operator.initialize(weights=0)
    caller.operator.initialize(b_tensor=caller.inputs.pop("b_tensor"))
    known = ", ".join([*caller.inputs, *caller.outputs])
    assert caller.assert_refused("weights", weights=0).endswith(f"expected one of {known}")


def test_flat_arrays_are_as_long_as_the_span() -> None:
    """One element fewer is too few, gaps included."""
    strides = (500, 100, 9, 2)
    span = 1 + 500 + 2 * 100 + 3 * 9 + 4 * 2
    output = dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (2, 3, 4, 5), strides=strides)
    caller = Caller(changed(QUANTIZE, output_tensor=output))
    given = np.full(span, 7, np.uint8)
    caller.assert_refused("output_tensor", output_tensor=given[:-1])
    assert (given == 7).all()
    caller.operator.dispatch(**caller.inputs, output_tensor=given)
    assert not (shaped(output, given) == 7).all()
