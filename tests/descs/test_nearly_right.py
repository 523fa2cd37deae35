"""What devices and bindings tell of arguments that are nearly right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import Device, TensorDataType, TensorDesc

DESC = dmlcpu.DynamicQuantizeLinearOperatorDesc(
    input_tensor=TensorDesc(TensorDataType.FLOAT32, (4,)),
    output_tensor=TensorDesc(TensorDataType.UINT8, (4,)),
    output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1,)),
    output_zero_point_tensor=TensorDesc(TensorDataType.UINT8, (1,)),
)
ONE_THREAD = Device(num_threads=1, isa="scalar")
OPERATOR = ONE_THREAD.create_operator(DESC)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: ONE_THREAD.is_data_type_supported("uint8"),
            "data_type='uint8'; expected a dmlcpu.TensorDataType, such as TensorDataType.UINT8",
        ),
        (
            lambda: ONE_THREAD.compile_operator(OPERATOR, "x"),
            "flags='x'; expected dmlcpu.ExecutionFlags, such as ExecutionFlags.NONE",
        ),
        (
            lambda: ONE_THREAD.check_feature_levels(["6_4"]),
            "no feature level is '6_4'; expected members of dmlcpu.FeatureLevel, such as LEVEL_6_4",
        ),
        (lambda: Device("scalar"), "; an instruction set is isa='scalar'"),
        (lambda: Device(isa="AVX2"), "isa='AVX2': no instruction set has this name, the nearest is 'avx2'; available"),
        (lambda: Device(isa="avx9"), "isa='avx9': no instruction set has this name; available here: scalar"),
        (
            lambda: Device(num_threads=2, isa="scalar").compile_operator(OPERATOR),
            f"created by another device, {ONE_THREAD!r}, than compiles it, {Device(num_threads=2, isa='scalar')!r}",
        ),
    ],
)
def test_devices(call: Callable[[], Any], told: str) -> None:
    with pytest.raises((TypeError, dmlcpu.DmlError), match=re.escape(told)):
        call()


def test_arrays_of_another_type_are_told_the_cast() -> None:
    compiled = ONE_THREAD.compile_operator(OPERATOR)
    with pytest.raises(dmlcpu.BindingError, match=r"elements; nothing is cast: np\.asarray\(x, np\.float32\)$"):
        compiled.dispatch(input_tensor=np.zeros(4))
    for arrays in ({"input_tensor": np.zeros(4, "U1")}, {"output_tensor": np.zeros(4, np.int8)}):
        with pytest.raises(dmlcpu.BindingError) as raised:
            compiled.dispatch(**{"input_tensor": np.zeros(4, np.float32), **arrays})
        assert "nothing is cast" not in str(raised.value)


@pytest.mark.parametrize("field", ["strides", "dilations", "start_padding", "end_padding"])
@pytest.mark.parametrize("entries", [1, 3])
def test_the_array_of_another_length_is_blamed(field: str, entries: int) -> None:
    one = TensorDesc(TensorDataType.FLOAT32, (1, 1, 1, 1))
    arrays: dict[str, Any] = {
        name: (number,) * 2
        for name, number in (("strides", 1), ("dilations", 1), ("start_padding", 0), ("end_padding", 0))
    }
    desc = dmlcpu.QuantizedLinearConvolutionOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.UINT8, (1, 1, 4, 4)),
        input_scale_tensor=one,
        filter_tensor=TensorDesc(TensorDataType.INT8, (1, 1, 3, 3)),
        filter_scale_tensor=one,
        output_scale_tensor=one,
        output_tensor=TensorDesc(TensorDataType.UINT8, (1, 1, 2, 2)),
        group_count=1,
        **{**arrays, field: arrays[field][:1] * entries},
    )
    got, bound = ("1 entry", "at least ") if entries == 1 else ("3 entries", "")
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        ONE_THREAD.create_operator(desc)
    assert raised.value.field == field
    assert f"{field}: got {got}, expected {bound}2, one for each spatial axis of input_tensor" in str(raised.value)
