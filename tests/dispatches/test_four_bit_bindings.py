"""What may be bound to tensors of 4-bit elements, and to arrays of tensors."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import dmlcpu
from block_shapes import blocked_cases
from bound_arrays import BoundByField, blank_outputs, compiled, random_inputs, tensors_of
from conftest import SEED
from dispatching import operator_desc
from dmlcpu.bindings import BindingResolver
from operator_case import OperatorCase
from operator_samples import BLOCK_DEQUANTIZE, BLOCK_QUANTIZE, changed, tensor
from strategies import Run, runs
from strided_tensor import FILL_BYTE, PACKED_TYPES, StridedTensor

SCALE, ZERO_POINT = "quantization_tensors[0]", "quantization_tensors[1]"
QUANTIZE_4 = changed(
    BLOCK_QUANTIZE,
    input_tensor=tensor("FLOAT32", 3, 5),
    quantization_tensors=(tensor("FLOAT32", 3, 1), tensor("INT4", 3, 1)),
    output_tensor=tensor("INT4", 3, 5),
)
DEQUANTIZE_4 = changed(
    BLOCK_DEQUANTIZE,
    input_tensor=tensor("UINT4", 3, 5),
    quantization_tensors=(tensor("FLOAT32", 3, 1), tensor("UINT4", 3, 1)),
    output_tensor=tensor("FLOAT32", 3, 5),
)


def element_array(content: StridedTensor, is_shaped: bool) -> NDArray[Any]:
    """A tensor of 4-bit elements as an array of ml_dtypes; rubbish in the half of a byte that does not count."""
    elements = content.unpacked().view(np.uint8) | np.uint8(0xA0)
    array: NDArray[Any] = elements.view(getattr(ml_dtypes, content.data_type.lower()))
    return content.view_of(array) if is_shaped else array


def is_four_bits(content: StridedTensor | None) -> bool:
    return content is not None and content.data_type in PACKED_TYPES


@given(runs(blocked_cases().filter(lambda case: any(is_four_bits(content) for content in case.tensors.values()))))
def test_arrays_of_ml_dtypes_are_bound_like_packed_ones(run: Run) -> None:
    """Of any layout, owned or not, inputs and outputs; the gaps of an output stay."""
    case: OperatorCase = run.case
    made = {
        field: element_array(content, field in run.shaped) if is_four_bits(content) else content.buffer.copy()
        for field, content in case.tensors.items()
        if content is not None
    }
    operator = compiled(dmlcpu.Device(), operator_desc(case, run.owned))
    if run.owned:
        operator.initialize(**{field: made.pop(field) for field in run.owned})
    result = operator.dispatch(**made)
    assert result is made["output_tensor"]
    [content] = case.outputs.values()
    expected = content.holding(case.expected()["output_tensor"])
    if not is_four_bits(content):
        assert result.tobytes() == expected.tobytes()
        return
    before = element_array(content, is_shaped=False)
    after = content.view_of(before.view(np.uint8))
    after[...] = content.view_of(StridedTensor(content.data_type, content.sizes, content.strides, expected).unpacked())
    after[...] &= 15
    span = as_strided(result.view(np.uint8), (before.size,), (1,))
    assert span.tobytes() == before.tobytes()


def test_a_scalar_of_ml_dtypes_is_one_element() -> None:
    desc = changed(
        DEQUANTIZE_4,
        quantization_tensors=(tensor("FLOAT32", 1, 1), tensor("UINT4", 1, 1)),
    )
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    operator = compiled(dmlcpu.Device(), desc)
    expected = operator.dispatch(**{**inputs, ZERO_POINT: np.uint8([11])})
    for zero_point in (ml_dtypes.uint4(11), np.uint8(11), np.array(11, ml_dtypes.uint4), np.uint8([0x5B, 9]), b"\x0b"):
        assert (operator.dispatch(**{**inputs, ZERO_POINT: zero_point}) == expected).all()


def test_a_new_output_is_packed() -> None:
    """1-D, and zero where there is no element."""
    inputs = random_inputs(QUANTIZE_4, np.random.default_rng(SEED))
    blank = blank_outputs(QUANTIZE_4)["output_tensor"]
    result = compiled(dmlcpu.Device(), QUANTIZE_4).dispatch(**inputs)
    assert (result.dtype, result.shape) == (np.uint8, (8,))
    assert compiled(dmlcpu.Device(), QUANTIZE_4).dispatch(**inputs, output_tensor=blank) is blank
    assert blank[-1] >> 4 == FILL_BYTE >> 4
    assert result[-1] >> 4 == 0
    assert (result[:-1] == blank[:-1]).all()
    spread = changed(QUANTIZE_4, output_tensor=tensor("INT4", 3, 5, strides=(16, 3)))
    result = compiled(dmlcpu.Device(), spread).dispatch(**inputs)
    assert result.shape == ((2 * 16 + 4 * 3 + 1 + 1) // 2,)
    elements = StridedTensor("INT4", (3, 5), (16, 3), result)
    assert (elements.holding(np.zeros((3, 5), np.int8)) == 0).all()


@pytest.mark.parametrize(("desc", "field"), [(QUANTIZE_4, "output_tensor"), (DEQUANTIZE_4, "input_tensor")])
def test_what_holds_no_4_bit_elements_is_refused(desc: dmlcpu.OperatorDesc, field: str) -> None:
    name = tensors_of(desc)[field].data_type.name.lower()
    other = getattr(ml_dtypes, {"int4": "uint4", "uint4": "int4"}[name])
    arrays = {**random_inputs(desc, np.random.default_rng(SEED)), **blank_outputs(desc)}
    operator = compiled(dmlcpu.Device(), desc)
    before = arrays["output_tensor"].tobytes()
    for value in (
        np.zeros((3, 5), np.uint8),
        np.zeros(7, np.uint8),
        np.zeros(8, np.int8),
        np.zeros((2, 4), np.uint8),
        np.zeros(16, np.uint8)[::2],
        np.zeros(8, np.uint16),
        np.zeros((3, 5), other),
        np.zeros((5, 3), getattr(ml_dtypes, name)),
        np.zeros(14, getattr(ml_dtypes, name)),
        np.zeros((3, 10), getattr(ml_dtypes, name))[:, ::2],
        np.zeros((3, 5), ml_dtypes.float8_e4m3fn),
        np.zeros((3, 5), "V1"),
        [1] * 8,
        1,
    ):
        with pytest.raises(dmlcpu.BindingError, match=f"{field}: got .*expected the bytes of packed {name}") as raised:
            operator.dispatch(**{**arrays, field: value})
        assert raised.value.field == field
    assert arrays["output_tensor"].tobytes() == before


def test_a_read_only_output_of_4_bits_is_refused() -> None:
    inputs = random_inputs(QUANTIZE_4, np.random.default_rng(SEED))
    for output in (np.zeros(8, np.uint8), np.zeros((3, 5), ml_dtypes.int4)):
        output.flags.writeable = False
        with pytest.raises(dmlcpu.BindingError, match="read-only"):
            compiled(dmlcpu.Device(), QUANTIZE_4).dispatch(**inputs, output_tensor=output)
        assert not output.view(np.uint8).any()


@given(data=st.data())
def test_packed_tensors_overlap_where_they_share_a_byte(data: st.DataObject) -> None:
    """With rows that begin at whole bytes exactly; with others at least then."""
    gap = data.draw(st.integers(0, 6), label="gap")
    desc = changed(DEQUANTIZE_4, input_tensor=tensor("UINT4", 3, 5, strides=(5 + gap, 1)))
    operator = compiled(dmlcpu.Device(isa="scalar"), desc)
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    memory = np.zeros(200, np.uint8)
    codes = memory[60 : 60 + inputs["input_tensor"].size]
    codes[...] = inputs["input_tensor"]
    begin = 4 * data.draw(st.integers(0, 20), label="output at")
    output = memory[begin : begin + 60].view(np.float32)
    used = {60 + (row * (5 + gap) + column) // 2 for row in range(3) for column in range(5)}
    if used & set(range(begin, begin + 60)):
        with pytest.raises(dmlcpu.BindingError, match="memory of its own"):
            operator.dispatch(**{**inputs, "input_tensor": codes}, output_tensor=output)
    else:
        expected = operator.dispatch(**inputs)
        operator.dispatch(**{**inputs, "input_tensor": codes}, output_tensor=output)
        assert (output == expected.reshape(-1)).all()


def test_packed_rows_may_lie_between_others() -> None:
    """Rows of two bytes each, and another tensor's in the gaps."""
    desc = changed(
        QUANTIZE_4,
        quantization_tensors=(tensor("FLOAT32", 3, 1), tensor("INT4", 3, 5, strides=(16, 1))),
        output_tensor=tensor("INT4", 3, 5, strides=(16, 1)),
    )
    desc = changed(desc, **{SCALE: tensor("FLOAT32", 3, 5, strides=(1, 0))})
    operator = compiled(dmlcpu.Device(), desc)
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    expected = operator.dispatch(**inputs)
    memory = np.zeros(40, np.uint8)
    memory[3 : 3 + inputs[ZERO_POINT].size] = inputs[ZERO_POINT]
    rows = as_strided(memory, (3, 3), (8, 1))
    rows[...] = 0
    operator.dispatch(**{**inputs, ZERO_POINT: memory[3:]}, output_tensor=memory)
    found = StridedTensor("INT4", (3, 5), (16, 1), memory[: expected.size]).logical()
    assert (found == StridedTensor("INT4", (3, 5), (16, 1), expected).logical()).all()
    with pytest.raises(dmlcpu.BindingError, match=r"overlaps quantization_tensors\[1\]"):
        operator.dispatch(**{**inputs, ZERO_POINT: memory[2:]}, output_tensor=memory)


# --- arrays of tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("desc", [QUANTIZE_4, BLOCK_QUANTIZE, BLOCK_DEQUANTIZE])
def test_an_array_of_tensors_is_a_sequence_of_its_full_length(desc: dmlcpu.OperatorDesc) -> None:
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    x, scale, zero_point = inputs["input_tensor"], inputs[SCALE], inputs[ZERO_POINT]
    device = dmlcpu.Device()
    operator = device.compile_operator(device.create_operator(desc))
    expected = operator.dispatch(input_tensor=x, quantization_tensors=(scale, zero_point))
    again = operator.dispatch(input_tensor=x, quantization_tensors=[scale, memoryview(zero_point)])
    assert again.tobytes() == expected.tobytes()
    for given_tensors, field, got in (
        ((scale,), "quantization_tensors", "1 entry"),
        ((), "quantization_tensors", "0 entries"),
        ((scale, zero_point, None), "quantization_tensors", "3 entries"),
        (scale, "quantization_tensors", "an object of type ndarray"),
        ({0: scale, 1: zero_point}, "quantization_tensors", "an object of type dict"),
        (iter((scale, zero_point)), "quantization_tensors", "an object of type tuple_iterator"),
        ("ab", "quantization_tensors", "an object of type str"),
        (None, SCALE, "no binding"),
        ((None, None), SCALE, "no binding"),
        ((scale, None), ZERO_POINT, "no binding"),
        ((zero_point, scale), SCALE, ""),
        ((scale, 1), ZERO_POINT, "an object of type int"),
    ):
        with pytest.raises(dmlcpu.BindingError, match=f"got {got}") as raised:
            operator.dispatch(input_tensor=x, quantization_tensors=given_tensors)
        assert raised.value.field == field
        assert str(raised.value).startswith(f"{desc.operator_type.name}: {field}: got ")
    with pytest.raises(dmlcpu.BindingError, match="no tensor has this name") as raised:
        operator.dispatch(input_tensor=x, **{SCALE: scale, ZERO_POINT: zero_point})
    assert raised.value.field == SCALE


@pytest.mark.parametrize("sequence", [tuple, list])
def test_plain_arrays_of_a_sequence_are_bound_without_python(
    sequence: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = random_inputs(BLOCK_QUANTIZE, np.random.default_rng(SEED))
    device = dmlcpu.Device()
    operator = device.compile_operator(device.create_operator(BLOCK_QUANTIZE))
    given_tensors = sequence([inputs[SCALE], inputs[ZERO_POINT]])
    expected = operator.dispatch(input_tensor=inputs["input_tensor"], quantization_tensors=given_tensors)

    def resolve(*_: Any) -> None:
        pytest.fail("the native module asked Python")

    monkeypatch.setattr(BindingResolver, "__call__", resolve)
    again = operator.dispatch(input_tensor=inputs["input_tensor"], quantization_tensors=given_tensors)
    assert again.tobytes() == expected.tobytes()


def test_one_tensor_of_an_array_owned_and_the_other_bound() -> None:
    desc = BLOCK_DEQUANTIZE
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    x, scale, zero_point = inputs["input_tensor"], inputs[SCALE], inputs[ZERO_POINT]
    device = dmlcpu.Device()
    expected = compiled(device, desc).dispatch(**inputs)
    owned = tensor("FLOAT32", 4, 3, flags=dmlcpu.TensorFlags.OWNED_BY_DML)
    operator = device.compile_operator(device.create_operator(changed(desc, **{SCALE: owned})))
    with pytest.raises(dmlcpu.BindingError, match="dispatch") as raised:
        operator.initialize(quantization_tensors=(scale, zero_point))
    assert raised.value.field == ZERO_POINT
    operator.initialize(quantization_tensors=(scale, None))
    with pytest.raises(dmlcpu.BindingError, match="initialize") as raised:
        operator.dispatch(input_tensor=x, quantization_tensors=(scale, zero_point))
    assert raised.value.field == SCALE
    assert (operator.dispatch(input_tensor=x, quantization_tensors=(None, zero_point)) == expected).all()


def test_an_array_of_one_tensor() -> None:
    desc = changed(BLOCK_DEQUANTIZE, quantization_type=1, **{ZERO_POINT: None})
    operator = compiled(dmlcpu.Device(), desc)
    assert isinstance(operator, BoundByField)
    result = operator.dispatch(input_tensor=np.full(48, 130, np.uint8), **{SCALE: np.full(12, 0.5, np.float32)})
    assert (result == 1.0).all()
    with pytest.raises(dmlcpu.BindingError) as raised:
        operator.dispatch(input_tensor=np.zeros(48, np.uint8), **{SCALE: np.ones(12, np.float32), ZERO_POINT: None})
    assert raised.value.field == "quantization_tensors"


def test_packed_elements_need_no_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    inputs = random_inputs(QUANTIZE_4, np.random.default_rng(SEED))
    result = compiled(dmlcpu.Device(), QUANTIZE_4).dispatch(**inputs)
    assert result.dtype == np.uint8
    with pytest.raises(dmlcpu.BindingError, match="packed int4"):
        compiled(dmlcpu.Device(), QUANTIZE_4).dispatch(**inputs, output_tensor=np.zeros(3, np.uint8))
    packed = dmlcpu.quantize(np.float32([1, -3, 7]), 1.0, 2, output_data_type=dmlcpu.TensorDataType.INT4)
    assert packed.tolist() == [0xF3, 0x07]
    assert dmlcpu.dequantize(packed, 1.0, 2, input_data_type=dmlcpu.TensorDataType.INT4, sizes=(3,)).tolist() == [
        1,
        -3,
        5,
    ]
