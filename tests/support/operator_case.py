"""One operator with everything that it is run on, and what the reference says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reference
from reference.arithmetic import SubnormalWatch
from strided_tensor import NUMPY_TYPES, StridedTensor

__all__ = ["OperatorCase", "canonical_bits", "gathered", "raw_bits", "with_rank_of"]


@dataclass(frozen=True, eq=False)
class OperatorCase:
    """`tensors` has all tensors by their desc field, outputs included, None where absent; `attributes` the rest."""

    operator: str
    tensors: Mapping[str, StridedTensor | None]
    attributes: Mapping[str, Any]

    @cached_property
    def outputs(self) -> Mapping[str, StridedTensor]:
        present = ((field, self.tensors[field]) for field in reference.output_fields(self.operator))
        return {field: tensor for field, tensor in present if tensor is not None}

    @cached_property
    def inputs(self) -> Mapping[str, StridedTensor | None]:
        return {field: tensor for field, tensor in self.tensors.items() if field not in self.outputs}

    def expected(self, watch: SubnormalWatch | None = None) -> dict[str, NDArray[Any]]:
        """The reference's outputs, logical."""
        logical = {field: None if tensor is None else tensor.logical() for field, tensor in self.inputs.items()}
        arguments = {field.removesuffix("_tensor"): values for field, values in gathered(logical).items()}
        output_data_type = NUMPY_TYPES[self.outputs["output_tensor"].data_type]
        data_types = {field: tensor.data_type for field, tensor in self.tensors.items() if tensor is not None}
        results = reference.evaluate(
            self.operator, {**arguments, **self.attributes, "output_data_type": output_data_type}, watch, data_types
        )
        return {field: with_rank_of(values, self.outputs[field].sizes) for field, values in results.items()}


def with_rank_of(values: NDArray[Any], sizes: tuple[int, ...]) -> NDArray[Any]:
    """The same with as many leading axes of length 1 as the sizes have, where they differ in nothing else.

    Matrices of one product may have different ranks.
    """
    padded = max(values.ndim, len(sizes))
    same = (1,) * (padded - values.ndim) + values.shape == (1,) * (padded - len(sizes)) + sizes
    return values.reshape(sizes) if same else values


def gathered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with `name[0]`, `name[1]`, ... under one `name`, as a tuple."""
    result: dict[str, Any] = {}
    for field, value in fields.items():
        name, bracket, _ = field.partition("[")
        result[name] = (*result.get(name, ()), value) if bracket else value
    return result


def raw_bits(values: NDArray[Any]) -> NDArray[Any]:
    """The bit patterns as they are."""
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.itemsize}"))


def canonical_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Bit patterns to compare with ==: tells -0 from +0, and one NaN from no other."""
    bits = raw_bits(values)
    if values.dtype.kind != "f":
        return bits
    return np.where(np.isnan(values), np.full((), np.nan, values.dtype).view(bits.dtype), bits)
