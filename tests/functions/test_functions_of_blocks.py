"""`quantize` and `dequantize`: every form that an argument may take, against the reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from argument_forms import anything
from conftest import SEED
from dispatching import assert_equal
from dmlcpu import TensorDataType
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from reference.blocks import LIMITS
from reference.dequantize import dequantize
from reference.quantize import quantize
from strided_tensor import NUMPY_TYPES, PACKED_TYPES, StridedTensor

SHAPE = (4, 3, 8)
CODE_TYPES = tuple(LIMITS)
# Of the scale and the zero point: in all, by row, by column, blocks on each axis, an element, fewer dimensions.
PARAMETER_SHAPES = ((1, 1, 1), (4, 3, 1), (1, 1, 8), (2, 1, 4), (4, 3, 8), (8,), (2,), (3, 2), ())


def packed(values: NDArray[Any], name: str) -> NDArray[np.uint8]:
    blank = StridedTensor(name, values.shape, None, np.zeros((values.size + 1) // 2, np.uint8))
    return blank.holding(values)


def element_array(values: NDArray[Any], name: str) -> NDArray[Any]:
    """8-bit values as an array of the type's own elements."""
    if name not in PACKED_TYPES:
        return values
    return (values.view(np.uint8) & np.uint8(15)).view(getattr(ml_dtypes, name.lower()))


def at_rank(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape((1,) * (len(SHAPE) - values.ndim) + values.shape)


class Sample:
    """Codes, floats, and parameters of a shape, of one type of codes."""

    def __init__(self, name: str, parameter_shape: tuple[int, ...] = (4, 3, 2), dtype: Any = np.float32) -> None:
        rng = np.random.default_rng(SEED)
        self.name, self.data_type = name, TensorDataType[name]
        lowest, highest = LIMITS[name]
        signed = np.int8 if lowest < 0 else np.uint8
        self.codes = rng.integers(lowest, highest + 1, SHAPE).astype(signed)
        self.floats = rng.normal(0, highest / 2, SHAPE).astype(dtype)
        self.scale = (2.0 ** rng.integers(-2, 2, parameter_shape)).astype(dtype)
        self.zero_point = rng.integers(lowest, highest + 1, parameter_shape).astype(signed)

    def parameters(self, scale: Any, zero_point: Any) -> dict[str, Any]:
        given = [at_rank(np.asarray(scale)), None if zero_point is None else at_rank(np.asarray(zero_point))]
        present = [values for values in given if values is not None]
        shape = np.broadcast_shapes(*(values.shape for values in present))
        tensors = tuple(np.broadcast_to(values, shape) for values in present)
        return {"quantization_tensors": tensors, "quantization_type": len(tensors), "code_data_type": self.name}

    def quantized(self, scale: Any, zero_point: Any) -> NDArray[Any]:
        return quantize(self.floats, **self.parameters(scale, zero_point), output_data_type=NUMPY_TYPES[self.name])

    def dequantized(self, scale: Any, zero_point: Any) -> NDArray[Any]:
        return dequantize(self.codes, **self.parameters(scale, zero_point), output_data_type=self.scale.dtype)


each_code_type = pytest.mark.parametrize("name", CODE_TYPES)


@each_code_type
@pytest.mark.parametrize("parameter_shape", PARAMETER_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_shapes_of_parameters(name: str, parameter_shape: tuple[int, ...], dtype: Any) -> None:
    sample = Sample(name, parameter_shape, dtype)
    zero_point = element_array(sample.zero_point, name)
    for given, plain in ((zero_point, sample.zero_point), (None, None)):
        result = dmlcpu.dequantize(element_array(sample.codes, name), sample.scale, given)
        assert_equal(result, sample.dequantized(sample.scale, plain))
        expected = sample.quantized(sample.scale, plain)
        result = dmlcpu.quantize(sample.floats, sample.scale, given, output_data_type=sample.data_type)
        assert_equal(result, packed(expected, name) if name in PACKED_TYPES else expected)


@each_code_type
def test_numbers_beside_arrays(name: str) -> None:
    sample = Sample(name)
    codes = element_array(sample.codes, name)
    for scale, zero_point in ((0.5, 3), (sample.scale, 3), (0.5, None), (np.float32(0.5), 3)):
        assert_equal(dmlcpu.dequantize(codes, scale, zero_point), sample.dequantized(np.float32(scale), zero_point))
    array = element_array(sample.zero_point, name)
    assert_equal(dmlcpu.dequantize(codes, 0.5, array), sample.dequantized(np.float32(0.5), sample.zero_point))
    single = element_array(sample.zero_point[:1, :1, :1], name)
    expected = sample.dequantized(sample.scale, sample.zero_point[:1, :1, :1])
    assert_equal(dmlcpu.dequantize(codes, sample.scale, single), expected)


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_packed_bytes(name: str) -> None:
    sample = Sample(name)
    expected = sample.dequantized(sample.scale, sample.zero_point)
    given = {"scale": sample.scale, "zero_point": packed(sample.zero_point, name), "input_data_type": sample.data_type}
    pairs = packed(sample.codes, name)
    assert_equal(dmlcpu.dequantize(pairs, **given, sizes=SHAPE), expected)
    assert_equal(dmlcpu.dequantize(pairs.reshape(4, 3, 4), **given), expected)
    assert_equal(dmlcpu.dequantize(pairs[::-1].copy()[::-1], **given, sizes=list(SHAPE)), expected)
    odd = dmlcpu.dequantize(pairs[:3], 0.5, input_data_type=sample.data_type, sizes=(5,))
    assert odd.shape == (5,)
    codes = dmlcpu.quantize(
        sample.floats, sample.scale, packed(sample.zero_point, name), output_data_type=name_of(name)
    )
    assert_equal(codes, packed(sample.quantized(sample.scale, sample.zero_point), name))


def name_of(name: str) -> TensorDataType:
    return TensorDataType[name]


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_outputs_of_4_bits(name: str) -> None:
    sample = Sample(name)
    expected = sample.quantized(sample.scale, None)
    elements = np.zeros(SHAPE, getattr(ml_dtypes, name.lower()))
    assert dmlcpu.quantize(sample.floats, sample.scale, out=elements) is elements
    assert_equal(elements.view(np.uint8), expected.view(np.uint8) & 15)
    strided = np.zeros((8, 3, 8), elements.dtype)[::2]
    assert dmlcpu.quantize(sample.floats, sample.scale, out=strided) is strided
    assert (strided == elements).all()
    for shape in ((48,), (4, 3, 4)):
        pairs = np.zeros(shape, np.uint8)
        assert dmlcpu.quantize(sample.floats, sample.scale, out=pairs, output_data_type=name_of(name)) is pairs
        assert_equal(pairs.reshape(-1), packed(expected, name))


def test_the_type_of_codes() -> None:
    x = np.float32([[1, 2, 3]])
    assert dmlcpu.quantize(x, 1.0).tolist() == [[129, 130, 131]]
    assert dmlcpu.quantize(x, 1.0, np.int8([3])).dtype == np.int8
    assert dmlcpu.quantize(x, 1.0, out=np.zeros((1, 3), np.int8)).tolist() == [[1, 2, 3]]
    assert dmlcpu.quantize(x, 1.0, np.array([2], ml_dtypes.uint4)).tolist() == [0x43, 0x05]
    assert dmlcpu.quantize(x, 1.0, output_data_type=TensorDataType.INT8).dtype == np.int8
    assert dmlcpu.dequantize(np.uint8([130]), np.float16(2)).dtype == np.float16
    assert dmlcpu.dequantize(np.uint8([130]), 2.0, output_data_type=2).dtype == np.float16


def test_shape_and_memory_order() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    codes = dmlcpu.quantize(x, 1.0, 0)
    assert (codes.shape, codes.strides) == (x.shape, (1, 12, 4))
    assert dmlcpu.dequantize(codes, 1.0, 0).strides == x.strides
    assert dmlcpu.quantize(np.float32(3), 1.0, 0).shape == ()
    assert dmlcpu.dequantize(np.int8(3), 1.0).shape == ()
    assert dmlcpu.quantize(np.float32(3), 1.0, output_data_type=TensorDataType.UINT4).tolist() == [11]


X, CODES = np.zeros((4, 6), np.float32), np.zeros((4, 6), np.uint8)
FOUR = {"input_data_type": TensorDataType.UINT4}


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (dmlcpu.quantize, {"input": [[None]], "scale": 1.0}, "input"),
        (dmlcpu.quantize, {"input": X, "scale": "1"}, "scale"),
        (dmlcpu.quantize, {"input": X, "scale": np.ones((1, 4, 6), np.float32)}, "scale"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "zero_point": 256}, "zero_point"),
        (
            dmlcpu.quantize,
            {"input": X, "scale": np.ones((4, 2), np.float32), "zero_point": np.zeros((4, 3), np.uint8)},
            "zero_point",
        ),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "zero_point": 8, "output_data_type": 13}, "zero_point"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "zero_point": 1.0, "output_data_type": 13}, "zero_point"),
        (
            dmlcpu.quantize,
            {"input": X, "scale": 1.0, "zero_point": np.zeros((4, 6), np.uint8), "output_data_type": 12},
            "zero_point",
        ),
        (
            dmlcpu.quantize,
            {"input": X, "scale": 1.0, "zero_point": np.zeros(1, np.int8), "output_data_type": 13},
            "zero_point",
        ),
        (
            dmlcpu.quantize,
            {"input": X, "scale": 1.0, "zero_point": np.zeros(1, ml_dtypes.int4), "output_data_type": 12},
            "zero_point",
        ),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "out": np.zeros((4, 6), np.int16)}, "out"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "out": np.zeros((4, 6), np.int8), "output_data_type": 12}, "out"),
        (
            dmlcpu.quantize,
            {"input": X, "scale": 1.0, "out": np.zeros(24, np.uint8)[::2], "output_data_type": 12},
            "out",
        ),
        (
            dmlcpu.quantize,
            {"input": X, "scale": 1.0, "out": np.zeros(11, np.uint8), "output_data_type": 12},
            "output_tensor",
        ),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "out": 3}, "out"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "out": "3", "output_data_type": 12}, "out"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "input_data_type": TensorDataType.INT8}, "input_data_type"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "input_data_type": 10**5000}, "input_data_type"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "zero_point": 10**5000, **FOUR}, "zero_point"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "sizes": [-(10**5000)], **FOUR}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "input_data_type": "UINT4"}, "input_data_type"),
        (dmlcpu.dequantize, {"input": CODES.view(np.int8), "scale": 1.0, **FOUR}, "input_data_type"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "sizes": (4, 6)}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, **FOUR, "sizes": (4, 6)}, "input"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, **FOUR, "sizes": 48}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, **FOUR, "sizes": (-4, -12)}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, **FOUR, "sizes": ()}, "input"),
        (dmlcpu.dequantize, {"input": CODES[:0], "scale": 1.0, **FOUR, "sizes": (10**30, 10)}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, **FOUR, "sizes": (2**40, 2**40)}, "sizes"),
        (dmlcpu.dequantize, {"input": CODES, "scale": np.float64(1.0)}, "scale"),
    ],
)
def test_a_wrong_argument_is_named(function: Any, arguments: dict[str, Any], name: str) -> None:
    fields = {"input": "input_tensor", "scale": SCALE, "zero_point": ZERO_POINT, "out": "output_tensor"}
    with pytest.raises(dmlcpu.BindingError, match=name) as raised:
        function(**arguments)
    assert raised.value.field == fields.get(name, name)
    assert ", expected " in str(raised.value) or "no tensor data type" in str(raised.value)


@pytest.mark.parametrize("zero_point", [None, 3, CODES])
def test_a_zero_point_is_not_taken_for_the_scale(zero_point: Any) -> None:
    with pytest.raises(dmlcpu.InvalidDescError, match=r"^quantize: scale: got None, expected an array"):
        dmlcpu.quantize(X, None, zero_point)


@pytest.mark.parametrize(
    ("function", "arguments", "field"),
    [
        (dmlcpu.quantize, {"input": X, "scale": None}, "quantization_tensors[0]"),
        (dmlcpu.quantize, {"input": X, "scale": None, "zero_point": CODES}, "quantization_tensors[0]"),
        (dmlcpu.quantize, {"input": X, "scale": np.ones(4, np.float32)}, "quantization_tensors[0]"),
        (dmlcpu.quantize, {"input": X, "scale": np.ones(6, np.float16)}, "quantization_tensors[0]"),
        (dmlcpu.quantize, {"input": X.astype(np.int32), "scale": 1.0}, "input_tensor"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "zero_point": np.zeros(6, np.int16)}, "quantization_tensors[1]"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "output_data_type": 1}, "output_tensor"),
        (dmlcpu.quantize, {"input": X, "scale": 1.0, "out": np.zeros((4, 5), np.uint8)}, "output_tensor"),
        (dmlcpu.dequantize, {"input": CODES.astype(np.int32), "scale": 1.0}, "input_tensor"),
        (dmlcpu.dequantize, {"input": CODES, "scale": 1.0, "out": np.zeros((4, 5), np.float32)}, "output_tensor"),
        (dmlcpu.dequantize, {"input": CODES[:0], "scale": 1.0}, "input_tensor"),
    ],
)
def test_what_the_operator_refuses(function: Any, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        function(**arguments)
    assert raised.value.field == field


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_anything_for_any_argument_of_4_bits(name: str) -> None:
    """It is accepted, or refused by an exception of dmlcpu."""
    data_type = TensorDataType[name]
    packed_call = {"input": CODES, "scale": 0.5, "zero_point": 3, "input_data_type": data_type, "sizes": (4, 12)}
    made_call = {"input": X, "scale": 0.5, "zero_point": 3, "output_data_type": data_type, "out": None}
    refusals = 0
    unsized = {**packed_call, "sizes": None}
    for function, good in (
        (dmlcpu.dequantize, packed_call),
        (dmlcpu.dequantize, unsized),
        (dmlcpu.quantize, made_call),
    ):
        function(**good)
        for argument in good:
            for value in anything():
                try:
                    function(**{**good, argument: value})
                except dmlcpu.DmlError:
                    refusals += 1
    assert refusals > 2500


def test_a_lower_level_has_no_blocks() -> None:
    device = dmlcpu.Device(dmlcpu.FeatureLevel.LEVEL_6_2)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError):
        dmlcpu.quantize(X, 1.0, device=device)


def test_expressions() -> None:
    sample = Sample("INT8")
    builder = dmlcpu.GraphBuilder(dmlcpu.Device())
    x = dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc(TensorDataType.FLOAT32, SHAPE))
    codes = dmlcpu.quantize(x, sample.scale, sample.zero_point)
    floats = dmlcpu.dequantize(codes, sample.scale, 3)
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [codes, floats])
    results = graph.dispatch(input_0=sample.floats)
    expected = sample.quantized(sample.scale, sample.zero_point)
    assert_equal(results.output_0, expected)
    assert_equal(results.output_1, dmlcpu.dequantize(expected, sample.scale, 3))
    zero_point = np.full(1, -3, ml_dtypes.int4)
    small = [
        dmlcpu.quantize(x, 1.0, output_data_type=TensorDataType.INT4),
        dmlcpu.quantize(x, 1.0, zero_point),
    ]
    results = builder.build(dmlcpu.ExecutionFlags.NONE, small).dispatch(input_0=sample.floats)
    assert_equal(results.output_0, dmlcpu.quantize(sample.floats, 1.0, output_data_type=TensorDataType.INT4))
    assert_equal(results.output_1, dmlcpu.quantize(sample.floats, 1.0, zero_point))
