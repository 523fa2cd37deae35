"""Runs operator cases on the library through its objects, and compares what it wrote with what it should have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from operator_case import OperatorCase, canonical_bits, gathered, raw_bits
from strided_tensor import FILL_BYTE, StridedTensor

__all__ = [
    "BoundCase",
    "assert_equal",
    "assert_equal_outputs",
    "assert_matches_reference",
    "bound_case",
    "difference",
    "dispatch",
    "expected_storage",
    "operator_desc",
]

# Elements before and after each bound buffer. An odd number: vector loads and stores must not count on alignment.
GUARD_ELEMENTS = 37


def guarded(buffer: NDArray[Any]) -> NDArray[Any]:
    """The buffer between two guards, all in one array."""
    storage = np.empty(buffer.size + 2 * GUARD_ELEMENTS, buffer.dtype)
    storage.view(np.uint8).fill(FILL_BYTE)
    inside(storage)[...] = buffer
    return storage


def inside(storage: NDArray[Any]) -> NDArray[Any]:
    return storage[GUARD_ELEMENTS:-GUARD_ELEMENTS]


def operator_desc(case: OperatorCase, owned: Collection[str] = ()) -> Any:
    """The dmlcpu desc of a case; `owned` names the fields of the inputs flagged OWNED_BY_DML."""
    words = case.operator.split("_")
    desc_type = getattr(dmlcpu, "".join(word.capitalize() for word in words) + "OperatorDesc")
    tensors = {}
    for field, tensor in case.tensors.items():
        tensors[field] = None if tensor is None else tensor_desc(tensor, field in owned)
    return desc_type(**gathered(tensors), **case.attributes)


def tensor_desc(tensor: StridedTensor, is_owned: bool) -> dmlcpu.TensorDesc:
    flags = dmlcpu.TensorFlags.OWNED_BY_DML if is_owned else dmlcpu.TensorFlags.NONE
    data_type = dmlcpu.TensorDataType[tensor.data_type]
    return dmlcpu.TensorDesc(data_type, tensor.sizes, strides=tensor.strides, flags=flags)


def binding(tensor: StridedTensor, buffer: NDArray[Any], is_shaped: bool) -> NDArray[Any]:
    """A buffer as the library is given it: flat, or with the sizes and strides of the desc."""
    return tensor.view_of(buffer) if is_shaped else buffer


@dataclass(frozen=True, eq=False)
class BoundCase:
    """What every device is given of a case: its desc, and what its inputs are bound to, when they are initialized."""

    case: OperatorCase
    desc: Any
    shaped: Collection[str]
    initial: Mapping[str, Any]
    bound: Mapping[str, Any]


def bound_case(case: OperatorCase, *, owned: Collection[str] = (), shaped: Collection[str] = ()) -> BoundCase:
    """The case with read-only copies of its inputs, which no device may change for the next one."""
    initial: dict[str, Any] = {}
    bound: dict[str, Any] = {}
    for field, tensor in case.inputs.items():
        initial[field] = bound[field] = None
        if tensor is not None:
            buffer = inside(guarded(tensor.buffer))
            buffer.flags.writeable = False
            (initial if field in owned else bound)[field] = binding(tensor, buffer, field in shaped)
    later = bindings_of(bound, case.inputs.keys() - set(owned))
    return BoundCase(case, operator_desc(case, owned), shaped, bindings_of(initial, owned), later)


def dispatch(device: dmlcpu.Device, given: BoundCase) -> dict[str, NDArray[Any]]:
    """Every output with its guards after one run. Outputs start as the case has them."""
    compiled = device.compile_operator(device.create_operator(given.desc))
    if given.initial:
        compiled.initialize(**given.initial)
    outputs = given.case.outputs
    storages = {field: guarded(tensor.buffer) for field, tensor in outputs.items()}
    arrays = {
        field: binding(tensor, inside(storages[field]), field in given.shaped) for field, tensor in outputs.items()
    }
    result = compiled.dispatch(**given.bound, **arrays)
    # One output returns its array, several a named tuple.
    returned = result._asdict() if len(arrays) > 1 else dict.fromkeys(arrays, result)
    assert returned.keys() == arrays.keys()
    assert all(returned[field] is array for field, array in arrays.items())
    return storages


def bindings_of(arrays: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The bindings of one call: its own fields, and a whole sequence where one of its entries is among them."""
    names = {field.partition("[")[0] for field in fields}
    return {name: value for name, value in gathered(arrays).items() if name in names}


def expected_storage(tensor: StridedTensor, values: NDArray[Any]) -> NDArray[Any]:
    """An output with its guards as it has to be after the run: gaps and guards as before."""
    return guarded(tensor.holding(values))


def difference(actual: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """Where two arrays differ, or None."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if (raw_bits(actual) == raw_bits(expected)).all():
        return None  # without a look at NaNs
    wrong = canonical_bits(actual) != canonical_bits(expected)
    if not wrong.any():
        return None
    places = np.argwhere(wrong)
    first = tuple(int(index) for index in places[0])
    return f"{len(places)} of {wrong.size} elements; at {first} {actual[first]!r} instead of {expected[first]!r}"


def assert_equal(result: NDArray[Any], expected: NDArray[Any], explanation: object = "") -> None:
    """Of the same type, shape and bits."""
    found = difference(result, expected)
    assert found is None, f"{explanation}: {found}"


def assert_equal_outputs(
    actual: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], explanation: str
) -> None:
    for field, storage in expected.items():
        assert_equal(actual[field], storage, f"{explanation}, {field} (flat, {GUARD_ELEMENTS} guard elements before)")


def assert_matches_reference(
    devices: Mapping[str, dmlcpu.Device],
    case: OperatorCase,
    *,
    owned: Collection[str] = (),
    shaped: Collection[str] = (),
) -> None:
    """Runs the case on every device. All equal to the reference, they are equal to each other."""
    outputs = case.outputs
    expected = {field: expected_storage(outputs[field], values) for field, values in case.expected().items()}
    given = bound_case(case, owned=owned, shaped=shaped)
    for label, device in devices.items():
        assert_equal_outputs(dispatch(device, given), expected, label)
