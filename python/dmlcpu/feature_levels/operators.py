"""The schema of every operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dmlcpu.enums import OperatorType
from dmlcpu.feature_levels import convolution, element_wise, matrix_multiply, pooling, quantization
from dmlcpu.schema import OperatorSchema

__all__ = ["OPERATORS"]

_KINDS = (element_wise, convolution, matrix_multiply, pooling, quantization)

OPERATORS: Final[Mapping[OperatorType, OperatorSchema]] = MappingProxyType(
    {schema.operator_type: schema for kind in _KINDS for schema in kind.SCHEMAS}
)
"""By operator."""
