"""What expressions tell a caller who takes them for arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlcpu

X: Any = dmlcpu.input_tensor(dmlcpu.GraphBuilder(), 0, dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: X.shape, AttributeError, "an Expression has no attribute 'shape'; expression.desc.sizes tells it"),
        (lambda: X.dtype, AttributeError, "; expression.desc.data_type tells it"),
        (
            lambda: X.T,
            AttributeError,
            "'T'; views are made of expression.placeholder(), and functions of dmlcpu compute",
        ),
        (lambda: X.other, AttributeError, "an Expression has no attribute 'other'"),
        (lambda: np.array(X), TypeError, "an expression has no elements; expression.placeholder() is an array of its"),
        (lambda: np.asarray(X, np.float32), TypeError, "an expression has no elements; "),
    ],
)
def test_expressions_are_no_arrays(call: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert told in str(raised.value)
    assert "other" not in told or str(raised.value).endswith("'other'")


def test_hints_hide_no_attribute() -> None:
    assert X.desc.sizes == (2, 3)
    assert not hasattr(X, "__array_interface__")
    assert not hasattr(X, "__dlpack__")
