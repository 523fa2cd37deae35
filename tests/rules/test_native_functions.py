"""The numbers by which rules name native functions are those of the native module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NoReturn

import pytest

from dmlcpu import TensorDataType, _core
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, IntegerBinary, Logical, Pooling

SIZES = (1, 1, 2, 2)
OPERANDS: Mapping[type[IntEnum], tuple[str, int, str, str]] = {
    FloatBinary: ("ELEMENT_WISE_BINARY", 2, "FLOAT32", "FLOAT32"),
    IntegerBinary: ("ELEMENT_WISE_BINARY", 2, "INT32", "INT32"),
    FloatUnary: ("ELEMENT_WISE_UNARY", 1, "FLOAT32", "FLOAT32"),
    Logical: ("ELEMENT_WISE_LOGICAL", 2, "UINT8", "UINT8"),
    Pooling: ("FLOAT_POOLING", 1, "FLOAT32", "FLOAT32"),
}
PARAMETERS = {"alpha": (0,), "beta": (0,)}
WINDOW = {
    "window_size": (1, 1),
    "strides": (1, 1),
    "dilations": (1, 1),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
    "include_padding": (0,),
}


def not_called(*_: Any) -> NoReturn:
    raise AssertionError


def description(functions: type[IntEnum], number: int) -> str:
    operator, count, data_type, output_type = OPERANDS[functions]
    types = [*[data_type] * count, output_type]
    rows = [(int(TensorDataType[each]), SIZES, (4, 4, 2, 1), False, index == count) for index, each in enumerate(types)]
    names = [(f"tensor {index}", None) for index in range(len(types))]
    attributes = {"function": (number,), **(WINDOW if functions is Pooling else PARAMETERS)}
    bound = _core.bind_operator(operator, names, rows, attributes, "scalar", 1, not_called, not_called)
    return bound.describe()


@pytest.mark.parametrize("function", [each for functions in OPERANDS for each in functions], ids=repr)
def test_operators_tell_the_names(function: IntEnum) -> None:
    words = function.name.lower().replace("_", " ")
    assert re.search(rf"(, |: ){words}(\n| of )", description(type(function), function))


@pytest.mark.parametrize("functions", OPERANDS)
def test_there_are_no_more_functions(functions: type[IntEnum]) -> None:
    assert [int(each) for each in functions] == list(range(len(functions)))
    with pytest.raises(ValueError, match="function"):
        description(functions, len(functions))
