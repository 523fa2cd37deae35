"""The operators once more in numpy: slow, plain, and independent of the library under test.

A module holds one operator. It is named after the operator without its ELEMENT_WISE_ prefix, and so is its function,
whose arguments are the fields of the desc without their `_tensor` suffix: logical arrays with the sizes of the desc
(None where an optional tensor is absent), then the attributes, then `output_data_type`. `OUTPUTS` names the fields
that the function returns, in order; it returns a tuple where there are several. Where numpy has no type of its own
for codes of 4 bits, `CODES` names the tensor of codes, and `code_data_type` is the name of its data type.

Where the sizes of the output do not follow from the fields (max_unpooling), or kin share what they do (softmax), a
module has functions of any arguments and no `OUTPUTS`: its test calls them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["evaluate", "function_name", "output_fields"]


def function_name(operator: str) -> str:
    """The name of the module and of the function of an operator: QUANTIZED_LINEAR_ADD's is quantized_linear_add."""
    return operator.removeprefix("ELEMENT_WISE_").lower()


def output_fields(operator: str) -> tuple[str, ...]:
    outputs: tuple[str, ...] = importlib.import_module(f"reference.{function_name(operator)}").OUTPUTS
    return outputs


def evaluate(
    operator: str,
    arguments: dict[str, Any],
    watch: SubnormalWatch | None = None,
    data_types: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, NDArray[Any]]:
    """Every output of the operator by its field."""
    name = function_name(operator)
    module = importlib.import_module(f"reference.{name}")
    function: Callable[..., Any] = getattr(module, name)
    if hasattr(module, "CODES"):
        arguments = {**arguments, "code_data_type": data_types[module.CODES]}
    results = function(**arguments, watch=watch)
    fields = output_fields(operator)
    return dict(zip(fields, results if len(fields) > 1 else (results,), strict=True))
