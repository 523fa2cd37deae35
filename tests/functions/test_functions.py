"""The functions on arrays: every form that an argument may take, against the reference."""

from __future__ import annotations

import array
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
import reference
from argument_forms import OnlyDLPack, one_element_forms
from conftest import SEED
from dispatching import assert_equal
from dmlcpu import TensorDataType

SHAPE = (2, 3, 4)
ELEMENTWISE = {"quantize_linear": "ELEMENT_WISE_QUANTIZE_LINEAR", "dequantize_linear": "ELEMENT_WISE_DEQUANTIZE_LINEAR"}
INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)


class Sample:
    """Arguments of `quantize_linear` and `dequantize_linear` with a parameter for every element, and the result."""

    def __init__(self, function: str, parameter_shape: tuple[int, ...] = SHAPE, shape: tuple[int, ...] = SHAPE) -> None:
        rng = np.random.default_rng(SEED)
        self.call = getattr(dmlcpu, function)
        self.operator = ELEMENTWISE[function]
        codes = rng.integers(-128, 128, shape).astype(np.int8)
        self.input = codes if function == "dequantize_linear" else rng.normal(0, 30, shape).astype(np.float32)
        # Powers of two are the same in every type, and a Python number is one of them exactly.
        self.scale = (2.0 ** rng.integers(-3, 2, parameter_shape)).astype(np.float32)
        self.zero_point = rng.integers(-20, 20, parameter_shape).astype(np.int8)

    def expected(self, **changes: Any) -> NDArray[Any]:
        arguments = {"input": self.input, "scale": self.scale, "zero_point": self.zero_point, **changes}
        for name in ("scale", "zero_point"):
            arguments[name] = np.broadcast_to(arguments[name], self.input.shape)
        output_type = arguments["scale"].dtype if self.input.dtype == INT8 else arguments["zero_point"].dtype
        output_type = arguments.pop("output_data_type", output_type)
        return reference.evaluate(self.operator, {**arguments, "output_data_type": output_type})["output_tensor"]


each_function = pytest.mark.parametrize("function", list(ELEMENTWISE))


@each_function
def test_parameters_of_one_element(function: str) -> None:
    sample = Sample(function, (1,))
    expected = sample.expected()
    scale, zero_point = sample.scale[0], sample.zero_point[0]
    for form in (*one_element_forms(scale), float(scale)):
        assert_equal(sample.call(sample.input, form, zero_point), expected, repr(form))
    for form in one_element_forms(zero_point):
        assert_equal(sample.call(sample.input, scale, form), expected, repr(form))
    # A plain number has no type: of the output it says nothing.
    output_type = None if function == "dequantize_linear" else TensorDataType.INT8
    result = sample.call(sample.input, float(scale), int(zero_point), output_data_type=output_type)
    assert_equal(result, expected)
    assert_equal(sample.call(sample.input, 2, zero_point), sample.expected(scale=np.float32(2)))
    assert_equal(sample.call(sample.input, True, zero_point), sample.expected(scale=np.float32(1)))


@each_function
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_parameters_along_an_axis(function: str, axis: int) -> None:
    line = [1, 1, 1]
    line[axis] = SHAPE[axis]
    sample = Sample(function, tuple(line))
    expected = sample.expected()
    scale, zero_point = sample.scale.reshape(-1), sample.zero_point.reshape(-1)
    for kind in (int, np.int64):
        assert_equal(sample.call(sample.input, scale, zero_point, axis=kind(axis)), expected)
    # One of them along the axis, the other in full.
    full = np.broadcast_to(sample.scale, SHAPE)
    assert_equal(sample.call(sample.input, full, zero_point, axis=axis), expected)
    assert_equal(sample.call(sample.input, full.copy(), sample.zero_point), expected)
    wrong = axis - 1 if axis != -3 else axis + 1
    with pytest.raises(dmlcpu.BindingError, match=f"along axis {wrong}") as raised:
        sample.call(sample.input, scale, zero_point, axis=wrong)
    assert raised.value.field == "scale_tensor"


def test_the_axis_is_1_by_default() -> None:
    sample = Sample("quantize_linear", (1, 3, 1))
    result = sample.call(sample.input, sample.scale.reshape(3), sample.zero_point.reshape(3))
    assert_equal(result, sample.expected())


@each_function
@pytest.mark.parametrize("shape", [SHAPE, (3, 4), (3, 1), (1, 3, 1), (2, 1, 4), (1, 1, 1)])
def test_parameters_broadcast_as_in_numpy(function: str, shape: tuple[int, ...]) -> None:
    sample = Sample(function, shape)
    assert_equal(sample.call(sample.input, sample.scale, sample.zero_point), sample.expected())


@each_function
def test_of_one_dimension_parameters_are_for_each_element(function: str) -> None:
    sample = Sample(function, (7,), (7,))
    for axis in (0, 1, -1):
        assert_equal(sample.call(sample.input, sample.scale, sample.zero_point, axis=axis), sample.expected())


@each_function
def test_zero_dimensions(function: str) -> None:
    sample = Sample(function, (), ())
    for given in (sample.input, sample.input[()]):
        result = sample.call(given, sample.scale, sample.zero_point)
        assert result.shape == ()
        assert_equal(result, sample.expected())
    out = np.zeros_like(sample.expected())
    assert sample.call(sample.input, sample.scale, sample.zero_point, out=out) is out
    assert_equal(out, sample.expected())


def layouts(content: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The same elements, anywhere in memory."""
    yield content
    yield np.asfortranarray(content)
    yield np.ascontiguousarray(content[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    yield np.ascontiguousarray(content[:, :, ::-1])[:, :, ::-1]
    yield np.moveaxis(np.ascontiguousarray(np.moveaxis(content, 1, -1)), -1, 1)
    yield np.repeat(content, 2, axis=2)[:, :, ::2]
    yield np.repeat(content, 3, axis=1)[:, ::3]
    packed = np.zeros(content.shape, [("odd", "u1"), ("value", content.dtype)])
    packed["value"] = content
    yield packed["value"]  # misaligned and strides of no whole elements, or both
    frozen = content.copy()
    frozen.flags.writeable = False
    yield frozen


@each_function
def test_arrays_of_any_strides(function: str) -> None:
    sample = Sample(function)
    expected = sample.expected()
    for given in layouts(sample.input):
        assert_equal(sample.call(given, sample.scale, sample.zero_point), expected, given.strides)
    for scale in layouts(sample.scale):
        assert_equal(sample.call(sample.input, scale, sample.zero_point), expected, scale.strides)
    for zero_point in layouts(sample.zero_point):
        assert_equal(sample.call(sample.input, sample.scale, zero_point), expected, zero_point.strides)


def test_other_kinds_of_arrays() -> None:
    sample = Sample("dequantize_linear", (1,))
    expected = sample.expected()
    assert_equal(sample.call(memoryview(sample.input), sample.scale, sample.zero_point), expected)
    flat = array.array("b", sample.input.tobytes())
    assert_equal(sample.call(flat, sample.scale, sample.zero_point), expected.reshape(-1))


@each_function
def test_arrays_that_have_dlpack_alone(function: str) -> None:
    sample = Sample(function)
    result = sample.call(*map(OnlyDLPack, (sample.input, sample.scale, sample.zero_point)))
    assert_equal(result, sample.expected())


@each_function
def test_lists_of_numbers_take_the_type_that_is_wanted(function: str) -> None:
    output_type = None if function == "dequantize_linear" else TensorDataType.INT8
    for parameter_shape in ((1,), (1, 3, 1), SHAPE):
        for _ in range(4):  # a list of integers is remembered
            for scale_type, offset in (("f4", 0), ("i4", 1), ("i4", 2)):
                sample = Sample(function, parameter_shape)
                sample.scale = np.ceil(sample.scale) + np.float32(offset)
                scale, zero_point = sample.scale.astype(scale_type), sample.zero_point
                if len(parameter_shape) > 1 and parameter_shape != SHAPE:
                    scale, zero_point = scale.reshape(-1), zero_point.reshape(-1)
                result = sample.call(
                    sample.input, scale.tolist(), tuple(zero_point.tolist()), output_data_type=output_type
                )
                assert_equal(result, sample.expected())


@each_function
def test_a_new_output_has_the_memory_order_of_the_input(function: str) -> None:
    sample = Sample(function)
    for given in (*layouts(sample.input), np.broadcast_to(sample.input[:1, :1], SHAPE), sample.input[:, :1].T):
        result = sample.call(given, 0.5)
        like = np.positive(given)
        # The stride of an axis of length 1 is anything, but for 0, which would say that it is repeated.
        steps = [
            [s // a.itemsize for s, size in zip(a.strides, a.shape, strict=True) if size > 1] for a in (result, like)
        ]
        assert steps[0] == steps[1]
        assert 0 not in result.strides
        assert result.flags.writeable


# --- outputs ----------------------------------------------------------------------------------------------------


@each_function
def test_out_is_written_and_returned(function: str) -> None:
    sample = Sample(function)
    expected = sample.expected()
    wide = np.zeros((2, 3, 8), expected.dtype)
    for out in (np.zeros_like(expected), np.zeros_like(expected, order="F"), wide[:, :, ::2], wide[:, :, 3:7]):
        assert sample.call(sample.input, sample.scale, sample.zero_point, out=out) is out
        assert_equal(out, expected, out.strides)
    # The gaps between the elements of the third are as they were, but for what the fourth wrote.
    assert (wide[:, :, 1] == 0).all()
    assert (wide[:, :, 7] == 0).all()


def test_out_of_dynamic_quantize_linear() -> None:
    x = np.random.default_rng(SEED).normal(0, 3, SHAPE).astype(np.float32)
    expected = dmlcpu.dynamic_quantize_linear(x)
    for scale_shape in ((), (1,), (1, 1, 1), (1, 1)):
        out = (np.zeros(SHAPE, np.uint8), np.zeros(scale_shape, np.float32), np.zeros(scale_shape, np.uint8))
        for given in (out, (out[0], None, None), (None, out[1], None), [None, None, out[2]], (None, None, None)):
            result = dmlcpu.dynamic_quantize_linear(x, out=given)
            for returned, passed, wanted in zip(result, given, expected, strict=True):
                assert passed is None or returned is passed
                assert_equal(returned.reshape(wanted.shape), wanted)
    backwards = np.zeros(1, np.float32)[::-1]
    assert dmlcpu.dynamic_quantize_linear(x, out=(None, backwards, None))[1] is backwards
    assert backwards[0] == expected[1]


def test_dynamic_quantize_linear() -> None:
    rng = np.random.default_rng(SEED)
    for shape in ((), (1,), (9,), SHAPE, (2, 1, 3, 1, 2, 1, 2, 2)):
        for dtype in (np.float32, np.float16):
            for data_type, codes_type in ((TensorDataType.INT8, INT8), (TensorDataType.UINT8, UINT8), (None, UINT8)):
                x = rng.normal(0, 3, shape).astype(dtype)
                wanted = {"input": x, "output_data_type": codes_type}
                expected = reference.evaluate("DYNAMIC_QUANTIZE_LINEAR", wanted).values()
                result = dmlcpu.dynamic_quantize_linear(x, output_data_type=data_type)
                assert [output.shape for output in result] == [shape, (), ()]
                for output, content in zip(result, expected, strict=True):
                    assert_equal(output, content.reshape(output.shape))


# --- types ------------------------------------------------------------------------------------------------------


def test_output_type_of_quantize_linear() -> None:
    x = np.float32([-1, 0, 2])
    codes = np.zeros(3, np.int8)
    assert dmlcpu.quantize_linear(x, 0.5).dtype == UINT8
    assert dmlcpu.quantize_linear(x, 0.5, 3).dtype == UINT8
    assert dmlcpu.quantize_linear(x, 0.5, np.int8(3)).dtype == INT8
    assert dmlcpu.quantize_linear(x, 0.5, out=codes) is codes
    assert codes.tolist() == [-2, 0, 4]
    assert dmlcpu.quantize_linear(x, 0.5, -3, out=codes).tolist() == [-5, -3, 1]
    assert dmlcpu.quantize_linear(x, 0.5, -3, output_data_type=TensorDataType.INT8).tolist() == [-5, -3, 1]
    assert dmlcpu.quantize_linear(x, 0.5, -3, out=codes, output_data_type=TensorDataType.INT8) is codes
    number: Any = 8
    assert dmlcpu.quantize_linear(x, 0.5, -3, output_data_type=number).dtype == INT8
    with pytest.raises(dmlcpu.BindingError, match=r"int8.*uint8") as raised:
        dmlcpu.quantize_linear(x, 0.5, out=codes, output_data_type=TensorDataType.UINT8)
    assert raised.value.field == "output_tensor"


def test_output_type_of_dequantize_linear() -> None:
    codes = np.int16([-300, 0, 7])
    assert dmlcpu.dequantize_linear(codes, 0.5).dtype == np.float32
    assert dmlcpu.dequantize_linear(codes, 1).dtype == np.float32
    assert dmlcpu.dequantize_linear(codes, np.float16(0.5)).dtype == np.float16
    assert dmlcpu.dequantize_linear(codes, np.float16([0.5])).dtype == np.float16
    assert dmlcpu.dequantize_linear(codes, 0.5, out=np.zeros(3, np.float16)).tolist() == [-150, 0, 3.5]
    assert dmlcpu.dequantize_linear(codes, 0.5, output_data_type=TensorDataType.FLOAT16).dtype == np.float16


def test_every_input_type() -> None:
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32"):
        assert dmlcpu.dequantize_linear(np.array([1, 100], name), 0.5, 3).tolist() == [-1, 48.5]
    for name in ("float32", "float16", "int32"):
        assert dmlcpu.quantize_linear(np.array([1, 100], name), 0.5, 3).tolist() == [5, 203]


def test_calls_of_other_layouts_do_not_mix() -> None:
    """Compiled operators are kept; each is found again by its layouts, types, attributes and device alone."""
    sample = Sample("quantize_linear")
    expected = sample.expected()
    devices = [dmlcpu.Device(isa="scalar", num_threads=1), dmlcpu.Device(num_threads=2), None]
    for _ in range(2):
        for device in devices:
            for given in layouts(sample.input):
                assert_equal(sample.call(given, sample.scale, sample.zero_point, device=device), expected)
            halves = sample.call(sample.input.astype(np.float16), sample.scale.astype(np.float16), sample.zero_point)
            assert halves.dtype == INT8


def test_a_device_of_a_lower_level_refuses() -> None:
    device = dmlcpu.Device(dmlcpu.FeatureLevel.LEVEL_3_1)
    x = np.ones((1, 1, 2, 2), np.float32)
    dmlcpu.quantize_linear(x, 0.5, 0, device=device)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as raised:
        dmlcpu.quantize_linear(x, 0.5, device=device)
    assert raised.value.required_level is dmlcpu.FeatureLevel.LEVEL_6_2
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="LEVEL_4_0"):
        dmlcpu.dynamic_quantize_linear(x, device=device)


def test_several_outputs_have_the_names_of_the_desc() -> None:
    x = np.float32([[-1, 0, 254]])
    result = dmlcpu.dynamic_quantize_linear(x)
    device = dmlcpu.Device()
    one = dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, (1, 1))
    desc = dmlcpu.DynamicQuantizeLinearOperatorDesc(
        input_tensor=dmlcpu.TensorDesc.from_array(x),
        output_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (1, 3)),
        output_scale_tensor=one,
        output_zero_point_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (1, 1)),
    )
    dispatched = device.compile_operator(device.create_operator(desc)).dispatch(input_tensor=x)
    assert result._fields == dispatched._fields
    assert (result.output_tensor == dispatched.output_tensor).all()
    assert result.output_scale_tensor == dispatched.output_scale_tensor
    assert result.output_zero_point_tensor == dispatched.output_zero_point_tensor
    assert type(pickle.loads(pickle.dumps(result))) is type(result)
    builder = dmlcpu.GraphBuilder(device)
    recorded = dmlcpu.dynamic_quantize_linear(dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc.from_array(x)))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, recorded)
    assert (graph.dispatch(input_0=x).output_0 == result.output_tensor).all()
