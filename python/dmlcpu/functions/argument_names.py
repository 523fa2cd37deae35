"""Which argument of a function each tensor of its operator's desc comes from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from dmlcpu.enums import OperatorType
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from dmlcpu.schema import Field

__all__ = ["argument_of", "output_names", "tensors_by_argument"]

_ARGUMENTS: Final = {SCALE: "scale", ZERO_POINT: "zero_point", "output_tensor": "out"}


def argument_of(field: str, operator_type: OperatorType) -> str:
    """Return the argument that a tensor of an operator's desc comes from; of several outputs, its place in ``out``.

    >>> [argument_of(field, OperatorType.QUANTIZE) for field in ("quantization_tensors[0]", "output_tensor")]
    ['scale', 'out']
    >>> argument_of("output_scale_tensor", OperatorType.DYNAMIC_QUANTIZE_LINEAR)
    'out[1]'
    """
    outputs = output_names(operator_type)
    if len(outputs) > 1 and field in outputs:
        return f"out[{outputs.index(field)}]"
    return _ARGUMENTS.get(field) or field.removesuffix("_tensor")


@lru_cache
def tensors_by_argument(operator_type: OperatorType) -> Mapping[str, Field]:
    """Return the tensors of an operator's desc by the arguments that they come from.

    >>> tensors = tensors_by_argument(OperatorType.DEQUANTIZE)
    >>> list(tensors), tensors["scale"].name
    (['input', 'scale', 'zero_point', 'out'], 'quantization_tensors[0]')
    """
    return {argument_of(field.name, operator_type): field for field in OPERATORS[operator_type].tensors}


@lru_cache
def output_names(operator_type: OperatorType) -> tuple[str, ...]:
    """Return the fields of an operator's desc that it writes.

    >>> output_names(OperatorType.DEQUANTIZE)
    ('output_tensor',)
    """
    return tuple(field.name for field in OPERATORS[operator_type].outputs)
