"""Runs native operators that have no desc in Python: the ones that only graphs are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

import dmlcpu
from dispatching import guarded, inside
from dmlcpu import _core
from strided_tensor import StridedTensor

__all__ = ["bind_native", "run_native"]


def bind_native(
    device: dmlcpu.Device,
    operator: str,
    tensors: Mapping[str, StridedTensor | None],
    attributes: Mapping[str, Sequence[int]],
    *,
    outputs: Collection[str] = ("output_tensor",),
    owned: Collection[str] = (),
) -> _core.BoundOperator:
    """Compiled for the layouts of the tensors, which are in the desc's order."""
    rows: list[Any] = []
    for name, tensor in tensors.items():
        if tensor is None:
            rows.append(None)
            continue
        strides = tensor.packed_strides if tensor.strides is None else tensor.strides
        data_type = int(dmlcpu.TensorDataType[tensor.data_type])
        rows.append((data_type, tensor.sizes, strides, name in owned, name in outputs))

    def resolve(bindings: Any, is_owned: bool, initialized: bool) -> tuple[tuple[Any, ...], None]:
        arrays = [bindings.get(name) for name in tensors]
        wanted = (array if (name in owned) == is_owned else None for name, array in zip(tensors, arrays, strict=True))
        return tuple(wanted), None

    return _core.bind_operator(
        operator,
        [(name, None) for name in tensors],
        rows,
        {name: tuple(values) for name, values in attributes.items()},
        device.isa,
        device.num_threads,
        resolve,
        lambda *results: results,
    )


def run_native(
    device: dmlcpu.Device,
    operator: str,
    tensors: Mapping[str, StridedTensor | None],
    attributes: Mapping[str, Sequence[int]],
    *,
    outputs: Collection[str] = ("output_tensor",),
    owned: Collection[str] = (),
) -> dict[str, NDArray[Any]]:
    """Every output with its guards (see `dispatching`) after one run on the tensors, which are in the desc's order."""
    native = bind_native(device, operator, tensors, attributes, outputs=outputs, owned=owned)
    storages = {name: guarded(tensor.buffer) for name, tensor in tensors.items() if tensor is not None}
    for name, storage in storages.items():
        if name not in outputs:
            storage.flags.writeable = False
    bound = {name: inside(storage) for name, storage in storages.items()}
    if owned:
        assert native.initialize({name: bound[name] for name in owned})
    native.dispatch({name: array for name, array in bound.items() if name not in owned})
    return {name: storages[name] for name in outputs}
