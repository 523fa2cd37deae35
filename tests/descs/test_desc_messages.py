"""What the messages of refusals say of descs and levels whose values are of another kind."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import TensorDataType, TensorDesc
from operator_samples import CONVOLUTION, POOLING, changed


@pytest.mark.parametrize(
    ("data_type", "shown"),
    [
        (np.uint8, "numpy.uint8"),
        (np.dtype(np.uint8), "numpy's dtype uint8"),
        (float, "builtins.float"),
        ("UINT8", "'UINT8'"),
        (None, "an object of type WithMetaclass"),
    ],
)
def test_descs_name_what_is_no_data_type(data_type: Any, shown: str) -> None:
    class WithMetaclass(type):
        """What its classes are asked for raises."""

        def __getattribute__(cls, name: str) -> Any:
            raise KeyError(name)

    if data_type is None:
        data_type = WithMetaclass("Hostile", (), {})
    desc = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=TensorDesc(data_type, (2, 3)), scale_tensor=None, output_tensor=None
    )
    expected = "a dmlcpu.TensorDataType: INT8 or INT16 or INT32 or UINT8 or UINT16 or UINT32"
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(desc)
    got, _, allowed = str(raised.value).partition(", expected ")
    assert got == f"ELEMENT_WISE_DEQUANTIZE_LINEAR: input_tensor: got data type {shown}"
    assert sorted(allowed.replace(":", " or").split(" or ")) == sorted(expected.replace(":", " or").split(" or "))


@pytest.mark.parametrize(
    ("input_flags", "output_flags", "quantization_type", "message"),
    [
        (0, 0, "S", "quantization_type: got 'S', expected a dmlcpu.QuantizationType: SCALE or SCALE_ZERO_POINT"),
        (0, 0, 0, "quantization_type: got NONE, expected SCALE or SCALE_ZERO_POINT"),
        ("OWNED", 0, 1, "input_tensor: got flags 'OWNED', expected a dmlcpu.TensorFlags: NONE or OWNED_BY_DML"),
        (0, "NONE", 1, "output_tensor: got flags 'NONE', expected a dmlcpu.TensorFlags: NONE on an output"),
        (0, 8, 1, "output_tensor: got flags 8, expected NONE on an output"),
    ],
)
def test_descs_name_enumerations(input_flags: Any, output_flags: Any, quantization_type: Any, message: str) -> None:
    desc = dmlcpu.QuantizeOperatorDesc(
        input_tensor=TensorDesc(TensorDataType.FLOAT32, (4,), flags=input_flags),
        quantization_type=quantization_type,
        quantization_tensors=(TensorDesc(TensorDataType.FLOAT32, (1,)),),
        output_tensor=TensorDesc(TensorDataType.UINT8, (4,), flags=output_flags),
    )
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(desc)
    assert str(raised.value) == f"QUANTIZE: {message}"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((7, 2, 3), (3, 5), (7, 3, 5)), ((2, 3), (4, 5), (3, 5)), ((1, 1, 2, 3), (1, 1, 4, 5), (1, 1, 3, 5))],
)
def test_products_are_refused_at_the_rank_of_the_matrix(
    a: tuple[int, ...], b: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    desc = dmlcpu.MatrixMultiplyIntegerOperatorDesc(
        a_tensor=TensorDesc(TensorDataType.UINT8, a),
        a_zero_point_tensor=None,
        b_tensor=TensorDesc(TensorDataType.UINT8, b),
        b_zero_point_tensor=None,
        output_tensor=TensorDesc(TensorDataType.INT32, (*a[:-1], 5)),
    )
    message = f"got sizes {b}, expected {expected}: the batch of a_t"
    with pytest.raises(dmlcpu.InvalidDescError, match=re.escape(message)):
        dmlcpu.Device().create_operator(desc)


def test_one_element_for_all_is_told_of() -> None:
    floats = TensorDesc(TensorDataType.FLOAT32, (2, 3))
    desc = dmlcpu.ElementWiseQuantizeLinearOperatorDesc(
        input_tensor=floats,
        scale_tensor=TensorDesc(TensorDataType.FLOAT32, (1, 1)),
        output_tensor=TensorDesc(TensorDataType.UINT8, (2, 3)),
    )
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(desc)
    expected = "expected (2, 3), as input_tensor; with strides of 0 these repeat one element"
    assert str(raised.value) == f"ELEMENT_WISE_QUANTIZE_LINEAR: scale_tensor: got sizes (1, 1), {expected}"


@pytest.mark.parametrize(
    ("desc", "bound"), [(CONVOLUTION, "at least "), (POOLING, "")], ids=["convolution", "average pooling"]
)
def test_arrays_without_an_entry_for_each_axis(desc: dmlcpu.OperatorDesc, bound: str) -> None:
    with pytest.raises(dmlcpu.InvalidDescError, match=f"strides: got 1 entry, expected {bound}2, one for each spatial"):
        dmlcpu.Device().create_operator(changed(desc, strides=(1,)))


def test_a_feature_level_is_a_member() -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match=r"'6_4'; .* such as dmlcpu.FeatureLevel.LEVEL_6_4"):
        dmlcpu.Device("6_4")  # type: ignore[arg-type]
