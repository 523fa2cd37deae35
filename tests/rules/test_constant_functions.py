"""Numpy's functions of constants have the results of onnx's evaluator, to the bit."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from dmlcpu.onnx.constants import constant_functions
from dmlcpu.onnx.constants.constant_functions import by_numpy
from dmlcpu.onnx.constants.element_functions import ELEMENT_FUNCTIONS
from dmlcpu.onnx.constants.folding import is_computed_beforehand
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.refusals import NotFolded, NotNative

Array = NDArray[Any]

INTEGERS: Final = np.array([[-7, 0, 3], [250, -1, 12]], np.int64)
OTHERS: Final = np.array([5, -2, 0], np.int64)
FLOATS: Final = np.array([[0.5, -0.0, np.inf], [1e-30, -2.25, np.nan]], np.float32)
FACTORS: Final = np.float32([[3], [-0.1]])
BOOLS: Final = np.array([[True, False, True], [False, False, True]])
MIXED: Final = {"int64": INTEGERS, "int32": INTEGERS.astype(np.int32), "float32": FLOATS, "uint8": BOOLS.view(np.uint8)}

CASES: Final[dict[str, tuple[str, list[Array], dict[str, Any]]]] = {
    **{
        f"{name} {dtype}": (name, [array, array[:1] if dtype == "uint8" else array[1]], {})
        for name in ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
        for dtype, array in MIXED.items()
    },
    "Div float32": ("Div", [FLOATS, FACTORS], {}),
    "Div int64": ("Div", [np.array([[7], [0], [(1 << 62) + 1]]), np.array([3, 1 << 40])], {}),
    "Div uint8": ("Div", [np.uint8([255, 9, 0]), np.uint8([2, 10, 1])], {}),
    **{name: (name, [BOOLS, BOOLS[1]], {}) for name in ("And", "Or", "Xor")},
    "Not": ("Not", [BOOLS], {}),
    "Not of one": ("Not", [np.array(True)], {}),
    "Slice of one": ("Slice", [np.array(3), np.zeros(0, np.int64), np.zeros(0, np.int64)], {}),
    **{
        f"{name} {dtype}": (name, [MIXED[dtype]], {})
        for name in ("Neg", "Abs", "Sign")
        for dtype in ("int64", "float32")
    },
    **{f"{name} uint8": (name, [MIXED["uint8"]], {}) for name in ("Abs", "Sign")},
    "GatherND": ("GatherND", [INTEGERS, np.array([[[1, 2]], [[0, -1]]])], {}),
    "GatherND of rows": ("GatherND", [FLOATS, np.array([[1], [0], [-2]])], {}),
    "GatherND of one": ("GatherND", [OTHERS, np.array([2])], {}),
    "ScatterND": ("ScatterND", [INTEGERS, np.array([[1, 2], [0, -1]]), np.array([4, 5])], {}),
    "ScatterND of rows": ("ScatterND", [FLOATS, np.array([[[1]], [[1]]]), np.stack([FLOATS[:1], -FLOATS[1:]])], {}),
    "ScatterND twice": ("ScatterND", [OTHERS, np.array([[1], [1], [0], [1]]), np.array([4, 5, 6, 7])], {}),
    "ScatterND of nothing": ("ScatterND", [OTHERS, np.zeros((0, 1), np.int64), OTHERS[:0]], {}),
    "Sqrt": ("Sqrt", [np.abs(FLOATS)], {}),
    **{f"{name} of doubles": (name, [np.arange(6.0) / 7], {}) for name in ("Exp", "Log", "Sin", "Cos")},
    "Where": ("Where", [BOOLS, INTEGERS[:, :1], OTHERS], {}),
    "Where of floats": ("Where", [BOOLS[0], FLOATS, FACTORS], {}),
    "Cast to FLOAT": ("Cast", [INTEGERS], {"to": 1}),
    "Cast to INT64": ("Cast", [FLOATS[:1, :2]], {"to": 7}),
    "Cast to BOOL": ("Cast", [INTEGERS], {"to": 9}),
    "Cast of BOOL": ("Cast", [BOOLS], {"to": 6}),
    "MatMul": ("MatMul", [FLOATS.T[:, :1], FACTORS.T], {}),
    "MatMul of doubles": ("MatMul", [np.arange(12.0).reshape(2, 2, 3) / 7, np.arange(3.0)], {}),
    "MatMul of batches": ("MatMul", [np.float32([[[1, 7]], [[0.5, -3]]]), np.float32([[3, 0.25], [9, -2]])], {}),
    "Einsum": ("Einsum", [FACTORS[:, 0], FACTORS[::-1, 0]], {"equation": "i,j->ij"}),
    "Einsum of matrices": ("Einsum", [FLOATS, FACTORS, OTHERS.astype(np.float32)], {"equation": "a b, ac, b -> cb"}),
    "Einsum without an arrow": ("Einsum", [FACTORS, np.float32([[1, 7]])], {"equation": "jk, kj"}),
    "Einsum of doubles": ("Einsum", [np.arange(3.0), np.arange(4.0) / 3], {"equation": "Y,x->Yx"}),
    "Range": ("Range", [np.array(3), np.array(20), np.array(4)], {}),
    "Range backwards": ("Range", [np.array(3), np.array(-20), np.array(-4)], {}),
    "Range of floats": ("Range", [np.array(number, np.float32) for number in (0.1, 1.3, 0.3)], {}),
    "Range of doubles": ("Range", [np.array(number) for number in (3.0, -1.0, -0.7)], {}),
    "Range of nothing": ("Range", [np.array(3), np.array(3), np.array(1)], {}),
    "ConstantOfShape": ("ConstantOfShape", [np.array([2, 3])], {}),
    "ConstantOfShape by a value": ("ConstantOfShape", [np.array([4])], {"value": np.array([-9])}),
    "ConstantOfShape of nothing": ("ConstantOfShape", [np.array([0, 4])], {"value": np.array([True])}),
    "EyeLike": ("EyeLike", [INTEGERS], {}),
    "EyeLike of a diagonal": ("EyeLike", [FLOATS], {"k": -1, "dtype": 9}),
    **{
        f"OneHot {axis}": ("OneHot", [INTEGERS, np.array(4), np.array([-3, 5])], {"axis": axis})
        for axis in (0, 1, 2, -1, -3)
    },
    "OneHot of floats": ("OneHot", [np.array(2, np.int32), np.array(3), np.float32([0.25, -1.5])], {}),
    "OneHot of bytes": ("OneHot", [OTHERS, np.array(7), np.uint8([200, 3])], {}),
    "NonZero": ("NonZero", [INTEGERS], {}),
    "NonZero of BOOL": ("NonZero", [BOOLS[1]], {}),
    "NonZero of nothing": ("NonZero", [FLOATS[:0]], {}),
    "Expand": ("Expand", [INTEGERS[:, None], np.array([4, 1])], {}),
    "Expand to fewer axes": ("Expand", [FLOATS, np.array([1])], {}),
    "Gather": ("Gather", [INTEGERS, np.array([[1, -1], [0, 0]])], {"axis": 1}),
    "Gather one": ("Gather", [FLOATS, np.array(1)], {}),
    "Slice": ("Slice", [INTEGERS, np.array([0, -2]), np.array([1, 1 << 62]), np.array([0, -1])], {}),
    "Slice backwards": ("Slice", [OTHERS, np.array([-1]), np.array([-(1 << 62)]), np.array([0]), np.array([-2])], {}),
    "Slice of nothing": ("Slice", [OTHERS, np.array([2]), np.array([1])], {}),
    "Concat": ("Concat", [INTEGERS, INTEGERS[:1]], {"axis": 0}),
    "Unsqueeze": ("Unsqueeze", [OTHERS, np.array([0, -1])], {}),
    "Squeeze": ("Squeeze", [FACTORS, np.array([1])], {}),
    "Squeeze all": ("Squeeze", [FACTORS[:1]], {}),
    "Transpose": ("Transpose", [INTEGERS], {}),
    "Transpose by axes": ("Transpose", [INTEGERS[None]], {"perm": [1, 0, 2]}),
    "Reshape": ("Reshape", [INTEGERS, np.array([0, -1, 1])], {}),
    "Reshape to nothing": ("Reshape", [INTEGERS[:0], np.array([3, 0])], {"allowzero": 1}),
    "Reshape to a length": ("Reshape", [INTEGERS, np.array([3, -1])], {"allowzero": 1}),
    **{f"Flatten {axis}": ("Flatten", [INTEGERS[None, :, None]], {"axis": axis}) for axis in (0, 2, 4, -1)},
    "Flatten one": ("Flatten", [np.array(3)], {}),
    "Flatten of BOOL": ("Flatten", [BOOLS], {}),
    "Pad": ("Pad", [INTEGERS, np.array([1, 0, 2, 3])], {}),
    "Pad by a value": ("Pad", [FLOATS, np.array([1, 0, 2, 3]), np.array(-0.5, np.float32)], {}),
    "Pad BOOL": ("Pad", [BOOLS, np.array([0, 1, 0, 0]), np.array(True)], {}),
    "Trilu": ("Trilu", [np.arange(12).reshape(3, 4)], {}),
    **{
        f"Clip {dtype}": ("Clip", [array, np.array(2, dtype), np.array(11, dtype)], {})
        for dtype, array in MIXED.items()
    },
    "Clip of codes": ("Clip", [INTEGERS.astype(np.int8), np.int8([-4]), np.array(3, np.int8)], {}),
    "Clip between limits that cross": ("Clip", [OTHERS, np.array(4), np.array(-1)], {}),
    "Clip from below": ("Clip", [FLOATS, np.array(0.25, np.float32)], {}),
    "Clip": ("Clip", [FLOATS], {}),
    **{
        f"{name} {axes}": (name, [MIXED["int32"]], {} if axes is None else {"axes": axes, "keepdims": 0})
        for name in ("ReduceMax", "ReduceMin", "ReduceProd")
        for axes in (None, [0], [-1, 0])
    },
    "ReduceSum": ("ReduceSum", [INTEGERS.astype(np.int32) << 24], {}),
    "ReduceSum of nothing to do": ("ReduceSum", [INTEGERS, np.array([1])], {"noop_with_empty_axes": 1}),
    "ReduceSum by axes": ("ReduceSum", [np.uint8([[200, 100], [3, 4]]), np.array([1])], {"keepdims": 0}),
    "ReduceMax of one": ("ReduceMax", [np.array(3)], {}),
    "CumSum": ("CumSum", [np.int8([[100, 100], [1, -3]]), np.array(1)], {}),
    "CumSum of columns": ("CumSum", [INTEGERS, np.array(-2)], {}),
    "CumProd": ("CumProd", [np.uint8([[100, 100], [1, 3]]), np.array(1)], {}),
    "Mod": ("Mod", [INTEGERS, np.array([3, -4, 7])], {}),
    "Mod uint8": ("Mod", [np.uint8([[255, 9, 0]]), np.uint8([2, 10, 1])], {}),
    "Tile": ("Tile", [INTEGERS, np.array([2, 3])], {}),
    "Tile of nothing": ("Tile", [OTHERS, np.array([0])], {}),
    **{name: (name, [FLOATS], {}) for name in ("Floor", "Ceil")},
    "Trilu below": ("Trilu", [np.arange(12).reshape(3, 4), np.array(-1)], {"upper": 0}),
}


DEQUANTIZED: Final[dict[str, tuple[list[Array], dict[str, Any]]]] = {
    "one scale": ([np.uint8([[0, 255], [7, 8]]), np.array(0.1, np.float32), np.array(7, np.uint8)], {}),
    "rows": ([np.int8([[-128, 127], [7, 8]]), np.float32([0.1, 3]), np.int8([7, -2])], {"axis": 0}),
    "32 bits": ([np.array([[1 << 30], [-3]], np.int32), np.float32([0.3]), np.array(1, np.int32)], {}),
    "no zero points": ([INTEGERS.astype(np.int32), np.float32([2, 3, 0.7])], {}),
}


# Of operators that version 17 does not have.
FIRST_VERSIONS: Final = {"CumProd": 26}


def model_of(operator: str, arrays: list[Array], attributes: dict[str, Any], version: int = 17) -> onnx.ModelProto:
    inputs = [
        onnx.helper.make_tensor_value_info(f"x{index}", onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for index, array in enumerate(arrays)
    ]
    given = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    node = onnx.helper.make_node(operator, [value.name for value in inputs], ["y"], **given)
    graph = onnx.helper.make_graph([node], "graph", inputs, [onnx.helper.make_empty_tensor_value_info("y")])
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", FIRST_VERSIONS.get(operator, version))]
    )


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_evaluators(case: str) -> None:
    operator, arrays, attributes = CASES[case]
    proto = model_of(operator, arrays, attributes)
    with np.errstate(all="ignore"):
        ours = by_numpy(load_model(proto.SerializeToString()).nodes[0], arrays)
        [expected] = ReferenceEvaluator(proto).run(None, {f"x{index}": array for index, array in enumerate(arrays)})
    assert ours is not None
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    assert ours.tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", DEQUANTIZED)
@pytest.mark.parametrize("version", [13, 21])
def test_dequantized_codes_are_the_evaluators(case: str, version: int) -> None:
    """It has the operator from version 19 on, and the results are those of the versions before."""
    arrays, attributes = DEQUANTIZED[case]
    node = load_model(model_of("DequantizeLinear", arrays, attributes, version).SerializeToString()).nodes[0]
    evaluator = ReferenceEvaluator(model_of("DequantizeLinear", arrays, attributes, 21))
    [expected] = evaluator.run(None, {f"x{index}": array for index, array in enumerate(arrays)})
    np.testing.assert_array_equal(by_numpy(node, arrays), expected, strict=True)


def test_clip_without_a_lower_limit() -> None:
    node = onnx.helper.make_node("Clip", ["x0", "", "x1"], ["y"])
    proto = model_of("Clip", [FLOATS, np.float32(1)], {})
    proto.graph.node[0].CopyFrom(node)
    ours = by_numpy(load_model(proto.SerializeToString()).nodes[0], [FLOATS, np.array(1, np.float32)])
    assert ours is not None
    np.testing.assert_array_equal(ours, np.minimum(FLOATS, np.float32(1)))


def test_clip_of_a_number_by_limits_with_an_axis() -> None:
    """The number keeps its shape, as with onnxruntime; the evaluator's has the limits' axis."""
    arrays = [np.array(7, np.int8), np.int8([-4]), np.int8([3])]
    ours = by_numpy(load_model(model_of("Clip", arrays, {}).SerializeToString()).nodes[0], arrays)
    assert ours is not None
    np.testing.assert_array_equal(ours, np.array(3, np.int8), strict=True)


NOT_COMPUTED: Final[dict[str, tuple[str, list[Array], dict[str, Any]]]] = {
    "types that differ": ("Add", [INTEGERS, FLOATS], {}),
    "a quotient by 0": ("Div", [np.abs(OTHERS), np.abs(OTHERS)], {}),
    "a quotient below 0": ("Div", [OTHERS, np.array([2])], {}),
    "a quotient of types that differ": ("Div", [np.array([4]), np.int32([2])], {}),
    "pairs of indices for one axis": ("GatherND", [OTHERS, np.array([[0, 1]])], {}),
    "indices out of range of an axis": ("GatherND", [OTHERS, np.array([[3]])], {}),
    "indices in batches": ("GatherND", [INTEGERS, np.array([[1], [0]])], {"batch_dims": 1}),
    "shapes that do not fit": ("Add", [INTEGERS, OTHERS[:2]], {}),
    "a range without steps": ("Range", [np.array(0), np.array(9), np.array(0)], {}),
    "a range too long": ("Range", [np.array(0), np.array(1 << 40), np.array(1)], {}),
    "a range of floats too long": ("Range", [np.float32(0), np.float32(1), np.float32(1e-9)], {}),
    "a range to no number": ("Range", [np.float32(0), np.float32(np.nan), np.float32(1)], {}),
    "a diagonal of one axis": ("EyeLike", [OTHERS], {}),
    "a diagonal of texts": ("EyeLike", [INTEGERS], {"dtype": 8}),
    "indices of a large depth": ("OneHot", [OTHERS, np.array(1 << 30), OTHERS[:2]], {}),
    "indices by floats": ("OneHot", [FLOATS, np.array(3), OTHERS[:2]], {}),
    "one of conditions": ("OneHot", [OTHERS, np.array(3), BOOLS[0, :2]], {}),
    "scales of blocks": ("DequantizeLinear", [INTEGERS.astype(np.int8), FLOATS, INTEGERS.astype(np.int8)], {}),
    "scales of an axis that is not there": ("DequantizeLinear", [np.int8([1, 2]), FACTORS.reshape(-1)], {}),
    "another type of zero points": ("DequantizeLinear", [np.int8([1, 2]), np.float32(1), np.uint8(0)], {}),
    "less than nothing around": ("Pad", [INTEGERS, np.array([0, -1, 0, 0])], {}),
    "what is there around": ("Pad", [INTEGERS, np.array([0, 1, 0, 0])], {"mode": "edge"}),
    "too much around": ("Pad", [INTEGERS, np.array([1 << 30, 0, 0, 0])], {}),
    "axes that are not there": ("Pad", [INTEGERS, np.array([1, 0, 0, 0, 1, 1])], {}),
    "an array too large": ("ConstantOfShape", [np.array([1 << 30, 1 << 30])], {}),
    "lengths below 0": ("ConstantOfShape", [np.array([-1, -1])], {}),
    "an expansion too large": ("Expand", [OTHERS, np.array([1 << 30, 1])], {}),
    "a sum too large": ("Add", [np.zeros((1 << 11, 1)), np.zeros((1, 1 << 11))], {}),
    "indices out of range": ("Gather", [INTEGERS, np.array(2)], {}),
    "indices of indices": ("Gather", [np.zeros((2, 1 << 11)), np.zeros(1 << 11, np.int64)], {}),
    "whole arrays written": ("ScatterND", [OTHERS, np.zeros((2, 0), np.int64), np.stack([OTHERS, -OTHERS])], {}),
    "sums written": ("ScatterND", [OTHERS, np.array([[1]]), np.array([4])], {"reduction": "add"}),
    "one number written for all": ("ScatterND", [OTHERS, np.array([[1], [0]]), np.array([4])], {}),
    "places out of range": ("ScatterND", [OTHERS, np.array([[3]]), np.array([4])], {}),
    "a condition of numbers": ("Where", [INTEGERS, INTEGERS, INTEGERS], {}),
    "sums of products of types that differ": ("Einsum", [FACTORS, OTHERS], {"equation": "ij,k->ik"}),
    "sums of products of other lengths": ("Einsum", [FLOATS[0], FLOATS], {"equation": "i,ij->j"}),
    "a product of integers": ("MatMul", [INTEGERS, OTHERS], {}),
    "a product of what has no axes": ("MatMul", [np.float32(2), FLOATS], {}),
    "a product of many products": ("MatMul", [np.zeros((64, 256), np.float32), np.zeros((256, 65), np.float32)], {}),
    "a cast to text": ("Cast", [INTEGERS], {"to": 8}),
    "limits of another type": ("Clip", [INTEGERS, np.array(1.5)], {}),
    "several limits": ("Clip", [INTEGERS, OTHERS], {}),
    "a limit that is no number": ("Clip", [FLOATS, np.array(np.nan, np.float32)], {}),
    "an extreme of nothing": ("ReduceMax", [INTEGERS[:0]], {}),
    "an extreme of floats": ("ReduceMax", [FLOATS], {}),
    "sums backwards": ("CumSum", [INTEGERS, np.array(0)], {"reverse": 1}),
    "sums without the last": ("CumSum", [INTEGERS, np.array(0)], {"exclusive": 1}),
    "products backwards": ("CumProd", [INTEGERS, np.array(0)], {"reverse": 1}),
    "a remainder by 0": ("Mod", [INTEGERS, OTHERS], {}),
    "a remainder of the dividend's sign": ("Mod", [INTEGERS, np.array([3])], {"fmod": 1}),
    "tiles too large": ("Tile", [OTHERS, np.array([1 << 30])], {}),
    "tiles of more axes": ("Tile", [OTHERS, np.array([2, 2])], {}),
    "another number of elements": ("Reshape", [INTEGERS, np.array([5])], {}),
}


@pytest.mark.parametrize(("operator", "attributes"), [("MatMul", {}), ("Einsum", {"equation": "ij,jk->ik"})])
def test_sums_of_products_are_rounded_once(
    operator: str, attributes: dict[str, Any], random_numbers: np.random.Generator
) -> None:
    """In single precision the order of sums, and with it the last bits, are the processor's."""
    a, b = (random_numbers.standard_normal(shape).astype(np.float32) for shape in ((16, 200), (200, 16)))
    made = by_numpy(load_model(model_of(operator, [a, b], attributes).SerializeToString()).nodes[0], [a, b])
    assert made is not None
    expected = [
        [math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in b.T.tolist()] for row in a.tolist()
    ]
    assert made.tobytes() == np.float32(expected).tobytes()


def test_every_function_is_asked_for() -> None:
    """A function has no effect unless ``folding`` knows its operator; those of elements fill tables, too."""
    functions = constant_functions._FUNCTIONS.keys() - ELEMENT_FUNCTIONS.keys()
    assert len(functions) > 50
    assert sorted(name for name in functions if not is_computed_beforehand(name)) == []


@pytest.mark.parametrize("case", NOT_COMPUTED)
def test_the_evaluator_is_asked(case: str) -> None:
    """Of what is not valid or may be too large, which it is asked before anything is computed."""
    operator, arrays, attributes = NOT_COMPUTED[case]
    node = load_model(model_of(operator, arrays, attributes).SerializeToString()).nodes[0]
    assert by_numpy(node, arrays) is None


@pytest.mark.parametrize("index", [5, -3, (1 << 63) - 1])
def test_indices_that_the_evaluator_takes_for_others(index: int) -> None:
    """It counts them round and round the axis, step by step: without an end, for large ones."""
    arrays = [FLOATS[0], np.array([index, 0, 0])] if index != -3 else [FLOATS[:1, :2], np.array([[index]])]
    node = load_model(model_of("GatherElements", arrays, {"axis": 0}).SerializeToString()).nodes[0]
    with pytest.raises(NotNative, match="out of range"):
        by_numpy(node, arrays)


def test_a_length_that_the_evaluator_takes_for_an_unknown_one() -> None:
    arrays = [INTEGERS, np.array([-5])]
    with pytest.raises(NotNative, match="a shape of"):
        by_numpy(load_model(model_of("Reshape", arrays, {}).SerializeToString()).nodes[0], arrays)


def test_triangles_of_no_elements() -> None:
    """No mask is made of rows and columns that no array has."""
    arrays = [np.zeros((0, 400_000, 400_000), np.float32)]
    ours = by_numpy(load_model(model_of("Trilu", arrays, {}).SerializeToString()).nodes[0], arrays)
    assert ours is not None
    assert ours.shape == arrays[0].shape


def test_a_squeeze_of_no_axes() -> None:
    """It is one of all axes of length 1 to onnxruntime; the evaluator squeezes none."""
    arrays = [FACTORS[None], np.zeros(0, np.int64)]
    ours = by_numpy(load_model(model_of("Squeeze", arrays, {}).SerializeToString()).nodes[0], arrays)
    assert ours is not None
    np.testing.assert_array_equal(ours, FACTORS[:, 0], strict=True)


@pytest.mark.parametrize("start", [2, -4])
def test_a_slice_with_steps_but_no_axes(start: int) -> None:
    """Backwards from before the first element the evaluator takes nothing, onnxruntime the first."""
    arrays = [OTHERS, np.array([start]), np.array([-4]), np.array([-2])]
    proto = model_of("Slice", arrays, {})
    proto.graph.node[0].input.insert(3, "")
    node = load_model(proto.SerializeToString()).nodes[0]
    if start == 2:
        np.testing.assert_array_equal(by_numpy(node, arrays), OTHERS[::-2], strict=True)
    else:
        with pytest.raises(NotFolded, match="backwards"):
            by_numpy(node, arrays)


@pytest.mark.parametrize(
    ("equation", "shapes", "dtype"),
    [
        ("...i,j->...ij", [(2, 3), (4,)], np.float32),
        ("ij,jk->ik", [(2, 3)], np.float32),
        ("ij,jk->ik", [(2, 3), (3, 2)], np.int64),
        ("ij,jk->ik", [(1 << 8, 1 << 8), (1 << 8, 1 << 8)], np.float32),
        ("ij,ij->ij", [(1 << 11, 1), (1, 1 << 11)], np.float32),
    ],
)
def test_sums_of_products_that_are_not_computed(equation: str, shapes: Any, dtype: Any) -> None:
    """The evaluator would compute as many as there are."""
    arrays = [np.zeros(shape, dtype) for shape in shapes]
    node = load_model(model_of("Einsum", arrays, {"equation": equation}).SerializeToString()).nodes[0]
    with pytest.raises(NotFolded, match=r"axes|products"):
        by_numpy(node, arrays)


@pytest.mark.parametrize("wrong", ["type", "axes", "images", "lengths", "size", "no lengths", "no size"])
def test_grids_that_are_not_computed(wrong: str) -> None:
    """The evaluator is not asked, whose results are others than onnxruntime's."""
    theta, size = np.ones((2, 2, 3), np.float64 if wrong == "type" else np.float32), np.array([2, 1, 4, 5])
    arrays = {
        "axes": [theta[:, :, :2], size],
        "images": [theta[:1], size],
        "lengths": [theta, np.array([2, 1, 0, 5])],
        "size": [theta, np.array([2, 1, 1 << 40, 1 << 40])],
        "no lengths": [theta, size[:2]],
        "no size": [theta, size[:1]],
    }.get(wrong, [theta, size])
    node = load_model(model_of("AffineGrid", arrays, {}, 20).SerializeToString()).nodes[0]
    with pytest.raises(NotFolded):
        by_numpy(node, arrays)


@pytest.mark.parametrize("values", [[0, -np.inf], [-np.inf, 0], [1e10, 0.1]])
def test_one_of_values_is_it_to_the_bit(values: list[float]) -> None:
    """The evaluator makes it of their difference, which may be no number, or another one."""
    off, on = np.float32(values)
    arrays = [np.array([2, -3]), np.array(3), np.float32(values)]
    node = load_model(model_of("OneHot", arrays, {}).SerializeToString()).nodes[0]
    made = by_numpy(node, arrays)
    assert made is not None
    assert np.array_equal(made, np.float32([[off, off, on], [on, off, off]]))
