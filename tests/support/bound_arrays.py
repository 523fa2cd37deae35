"""Arrays to bind to the tensors of any desc: random inputs, and outputs that show where they were written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.feature_levels.quantization import SCALE
from dmlcpu.nibbles import packed_length
from dmlcpu.schema import place_of
from dmlcpu.tensor import dtype_of, is_four_bits, span_in_elements
from fills import any_integers, ordinary_floats, ordinary_scales
from operator_case import canonical_bits
from operator_samples import changed
from strided_tensor import FILL_BYTE

__all__ = [
    "Arrays",
    "addresses",
    "blank_outputs",
    "compiled",
    "dispatched",
    "input_names",
    "is_blank",
    "output_names",
    "owning",
    "random_inputs",
    "same_bits",
    "shaped",
    "tensors_of",
]

Arrays = dict[str, NDArray[Any]]


def tensors_of(desc: dmlcpu.OperatorDesc) -> dict[str, dmlcpu.TensorDesc]:
    """The tensors that are present, by field."""
    fields = OPERATORS[desc.operator_type].tensors
    return {field.name: tensor for field in fields if (tensor := field.value_in(desc)) is not None}


def input_names(desc: dmlcpu.OperatorDesc) -> list[str]:
    present = tensors_of(desc)
    return [field.name for field in OPERATORS[desc.operator_type].inputs if field.name in present]


def output_names(desc: dmlcpu.OperatorDesc) -> list[str]:
    return [field.name for field in OPERATORS[desc.operator_type].outputs]


def owning(desc: dmlcpu.OperatorDesc, names: Collection[str]) -> dmlcpu.OperatorDesc:
    """The desc with these inputs, and no others, OWNED_BY_DML."""
    tensors = tensors_of(desc)
    flags = {name: dmlcpu.TensorFlags(name in names) for name in tensors}
    return changed(desc, **{name: flagged(tensor, flags[name]) for name, tensor in tensors.items()})


def flagged(tensor: dmlcpu.TensorDesc, flags: dmlcpu.TensorFlags) -> dmlcpu.TensorDesc:
    return dmlcpu.TensorDesc(tensor.data_type, tensor.sizes, strides=tensor.strides, flags=flags)


class BoundByField(dmlcpu.CompiledOperator):
    """A compiled operator whose bindings have the names of fields, entries of arrays of tensors too."""

    def initialize(self, **fields: Any) -> None:
        super().initialize(**sequences(self.desc, fields))

    def dispatch(self, **fields: Any) -> Any:
        return super().dispatch(**sequences(self.desc, fields))


def sequences(desc: dmlcpu.OperatorDesc, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with `name[0]`, `name[1]`, ... under one `name`, as a tuple of its full length."""
    bindings: dict[str, Any] = {}
    for field, value in fields.items():
        name, entry = place_of(field)
        if entry is None:
            bindings[name] = value
            continue
        entries = [*bindings.get(name, (None,) * len(getattr(desc, name)))]
        entries[entry : entry + 1] = [value]
        bindings[name] = tuple(entries)
    return bindings


def compiled(device: dmlcpu.Device, desc: dmlcpu.OperatorDesc) -> dmlcpu.CompiledOperator:
    operator = device.create_operator(desc)
    has_arrays = any(field.entry is not None for field in OPERATORS[desc.operator_type].tensors)
    return BoundByField(operator) if has_arrays else device.compile_operator(operator)


def flat(tensor: dmlcpu.TensorDesc) -> NDArray[Any]:
    span = span_in_elements(tensor.sizes, tensor.strides)
    if is_four_bits(tensor.data_type):
        return np.empty(packed_length(span), np.uint8)
    return np.empty(span, dtype_of(tensor.data_type))


def shaped(tensor: dmlcpu.TensorDesc, buffer: NDArray[Any]) -> NDArray[Any]:
    """A flat array seen with the sizes and strides of the desc."""
    return as_strided(buffer, tensor.sizes, [stride * buffer.itemsize for stride in tensor.element_strides])


def random_inputs(desc: dmlcpu.OperatorDesc, rng: np.random.Generator) -> Arrays:
    """Flat arrays, gaps filled like elements, that give results of many values and few saturated ones."""
    arrays = {}
    for name in input_names(desc):
        buffer = flat(tensors_of(desc)[name])
        is_scale = "scale" in name or name == SCALE
        fill = any_integers if buffer.dtype.kind in "iu" else ordinary_scales if is_scale else ordinary_floats
        buffer[...] = fill(rng, buffer.dtype, buffer.size)
        arrays[name] = buffer
    quantized = (dmlcpu.QuantizedLinearConvolutionOperatorDesc, dmlcpu.QuantizedLinearMatrixMultiplyOperatorDesc)
    if isinstance(desc, quantized):
        arrays["output_scale_tensor"][...] = 300.0
    return arrays


def blank_outputs(desc: dmlcpu.OperatorDesc) -> Arrays:
    """Flat arrays of one byte, again and again."""
    arrays = {name: flat(tensors_of(desc)[name]) for name in output_names(desc)}
    for array in arrays.values():
        array.view(np.uint8).fill(FILL_BYTE)
    return arrays


def addresses(described: dmlcpu.TensorDesc, begin: int) -> set[int]:
    """The bytes of a tensor whose first is here; of 4-bit elements those that hold two, or one and nothing else."""
    elements = np.zeros(1, np.int64)
    for size, stride in zip(described.sizes, described.element_strides, strict=True):
        elements = np.unique(np.add.outer(elements, np.arange(size) * stride))
    if is_four_bits(described.data_type):
        return {*(begin + elements // 2).tolist()}
    width = dtype_of(described.data_type).itemsize
    return {*np.add.outer(begin + elements * width, np.arange(width)).ravel().tolist()}


def is_blank(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether nothing was written to arrays of `blank_outputs`."""
    return all(bool((array.view(np.uint8) == FILL_BYTE).all()) for array in arrays.values())


def dispatched(operator: dmlcpu.CompiledOperator, **bindings: Any) -> dict[str, Any]:
    """What a dispatch returns, by field."""
    result = operator.dispatch(**sequences(operator.desc, bindings))
    return result._asdict() if isinstance(result, tuple) else {output_names(operator.desc)[0]: result}


def same_bits(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether outputs by field hold the same elements in the same order; their shapes may differ."""
    pairs = [(np.asarray(actual[name]).reshape(-1), np.asarray(expected[name]).reshape(-1)) for name in expected]
    return actual.keys() == expected.keys() and all(
        x.dtype == y.dtype and np.array_equal(canonical_bits(x), canonical_bits(y)) for x, y in pairs
    )
