"""The matrix products on random layouts, tile edges and adversarial values, against the references."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
import reference
from dispatching import assert_equal, assert_matches_reference
from fills import INPUT_FLOATS, INTEGERS, SCALES, Fill, highest_integers, lowest_integers
from matrix_shapes import OPERATORS, MatrixShape, MatrixTypes, matrix_case
from operator_case import OperatorCase, with_rank_of
from strategies import (
    BYTE_TYPES,
    Run,
    arrays,
    drawn_input,
    drawn_output,
    drawn_zero_points,
    one_element_sizes,
    runs,
)
from strided_tensor import NUMPY_TYPES

Devices = Mapping[str, dmlcpu.Device]

INTEGER_TYPES = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32")
OUTPUT_TYPES = {
    "MATRIX_MULTIPLY_INTEGER": ("INT32",),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": BYTE_TYPES,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": ("FLOAT32", "FLOAT16"),
}

# Around the sizes of tiles and panels, of whole steps of k, of strips and of blocks that sums wait in; more rows than
# are streamed, and than a tile holds.
EDGE_SHAPES = [
    *(MatrixShape(m, 64, 33) for m in (1, 2, 5, 13, 14, 15, 16, 17, 28, 31, 32, 33, 65)),
    *(MatrixShape(7, k, 19) for k in (1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 130, 259, 700)),
    *(MatrixShape(m, 20, n) for m in (3, 40) for n in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 513)),
    *(MatrixShape(1, 1, 1, batch) for batch in ((), (3,), (2, 3))),
    MatrixShape(300, 70, 150),
    MatrixShape(2, 1000, 2100),
    MatrixShape(34, 300, 600, (2,)),
    # Enough for several threads, which divide columns and rows.
    MatrixShape(100, 230, 197),
    MatrixShape(65, 200, 513),
    MatrixShape(5, 700, 1031),
    MatrixShape(9, 513, 301, (3,)),
    *(MatrixShape(m, 33, 18, (2, 3)) for m in (1, 9, 37)),
    # Sums that no core's cache holds, a few rows at a time.
    MatrixShape(301, 9, 2003),
    MatrixShape(41, 9, 7001, (2,)),
    # Rows of a, or those of a packed tile, that are whole pages apart.
    *(MatrixShape(m, 4096, 33) for m in (8, 9, 30)),
    MatrixShape(17, 4093, 33),
    MatrixShape(29, 8192, 18),
]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("shape", EDGE_SHAPES, ids=str)
def test_shapes_at_tile_edges(
    devices: Devices, random_numbers: np.random.Generator, operator: str, shape: MatrixShape
) -> None:
    types = [MatrixTypes(a, b, OUTPUT_TYPES[operator][-1]) for a in BYTE_TYPES for b in BYTE_TYPES]
    for index, layout in enumerate(({}, {"by_line": False}, {"is_transposed": True}, {"is_shared": True})):
        case = matrix_case(operator, shape, types[index], random_numbers, **layout)
        assert_matches_reference(devices, case)
        case = matrix_case(operator, shape, types[3 - index], random_numbers, **layout)
        constants = {field for field in case.inputs if field.startswith("b_")}
        assert_matches_reference(devices, case, owned=constants)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("fill", [highest_integers, lowest_integers], ids=["highest", "lowest"])
def test_sums_that_wrap(devices: Devices, random_numbers: np.random.Generator, operator: str, fill: Fill) -> None:
    """255 x 127 in 70000 terms is beyond int32, and so are the sums of zero points."""
    for a_type, b_type in itertools.product(BYTE_TYPES, repeat=2):
        types = MatrixTypes(a_type, b_type, OUTPUT_TYPES[operator][0])
        for m in (2, 33):
            case = matrix_case(operator, MatrixShape(m, 70_000, 5), types, random_numbers, operand_fill=fill)
            absent = dict.fromkeys(("a_zero_point_tensor", "b_zero_point_tensor"))
            assert_matches_reference(devices, case, owned={"b_tensor"} if m == 2 else ())
            assert_matches_reference(devices, OperatorCase(case.operator, {**case.tensors, **absent}, {}))


LENGTHS = st.integers(1, 9) | st.sampled_from((15, 16, 17, 31, 33, 40, 64, 65, 70))
BATCHES = st.sampled_from(((), (), (1,), (2,), (3,), (2, 3), (1, 2), (3, 1)))


@st.composite
def matrix_shapes(draw: st.DrawFn) -> MatrixShape:
    return MatrixShape(draw(LENGTHS), draw(LENGTHS), draw(LENGTHS), draw(BATCHES))


def ranks(sizes: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """The same with some leading ones added or left out, 2 to 4 axes."""
    least = 2 + next((len(sizes) - 2 - axis for axis in range(len(sizes) - 2) if sizes[axis] != 1), 0)
    padded = (1,) * (4 - len(sizes)) + sizes
    return st.integers(least, 4).map(lambda rank: padded[4 - rank :])


@st.composite
def parameter_sizes(draw: st.DrawFn, line: tuple[int, ...]) -> tuple[int, ...]:
    """Of one element, or of the line after some ones."""
    if draw(st.booleans()):
        return draw(one_element_sizes(4))
    return (1,) * draw(st.integers(0, 4 - len(line))) + line


@st.composite
def cases(draw: st.DrawFn, operator: str) -> OperatorCase:
    shape = draw(matrix_shapes())
    is_float, has_scales = operator == OPERATORS[2], operator != OPERATORS[0]
    operand_types = BYTE_TYPES * 3 + (INTEGER_TYPES if is_float else ())
    a_type, b_type = draw(st.sampled_from(operand_types)), draw(st.sampled_from(operand_types))
    output_type = draw(st.sampled_from(OUTPUT_TYPES[operator]))
    scale_type = output_type if is_float else "FLOAT32"
    output_sizes = draw(ranks((*shape.batch, shape.m, shape.n)))
    a_line, b_line = draw(parameter_sizes((shape.m, 1))), draw(parameter_sizes((shape.n,)))
    output_line = draw(parameter_sizes((shape.m, 1)))
    tensors: dict[str, Any] = {
        "a_tensor": drawn_input(draw, a_type, draw(ranks((*shape.batch, shape.m, shape.k))), INTEGERS)
    }
    if has_scales:
        tensors["a_scale_tensor"] = drawn_input(draw, scale_type, a_line, SCALES)
    tensors["a_zero_point_tensor"] = drawn_zero_points(draw, a_type, a_line)
    tensors["b_tensor"] = drawn_input(draw, b_type, draw(ranks((*shape.batch, shape.k, shape.n))), INTEGERS)
    if has_scales:
        tensors["b_scale_tensor"] = drawn_input(draw, scale_type, b_line, SCALES)
    tensors["b_zero_point_tensor"] = drawn_zero_points(draw, b_type, b_line)
    if is_float:
        tensors["bias_tensor"] = (
            drawn_input(draw, output_type, output_sizes, INPUT_FLOATS) if draw(st.booleans()) else None
        )
    elif has_scales:
        tensors["output_scale_tensor"] = drawn_input(draw, "FLOAT32", output_line, SCALES)
        tensors["output_zero_point_tensor"] = drawn_zero_points(draw, output_type, output_line)
    tensors["output_tensor"] = drawn_output(draw, output_type, output_sizes)
    return OperatorCase(operator, tensors, {})


@pytest.mark.parametrize("operator", OPERATORS)
@given(data=st.data())
def test_objects_equal_the_reference(devices: Devices, operator: str, data: st.DataObject) -> None:
    run: Run = data.draw(runs(cases(operator)))
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=run.shaped)


@pytest.mark.parametrize("operator", OPERATORS)
@given(data=st.data())
def test_functions_equal_the_reference(devices: Devices, operator: str, data: st.DataObject) -> None:
    """Batch axes broadcast as in numpy; parameters are of one element, or of one for each row or column."""
    shape = data.draw(matrix_shapes())
    is_float, has_scales = operator == OPERATORS[2], operator != OPERATORS[0]
    a_type, b_type = (NUMPY_TYPES[data.draw(st.sampled_from(BYTE_TYPES))] for _ in range(2))
    output_type = NUMPY_TYPES[data.draw(st.sampled_from(OUTPUT_TYPES[operator]))]
    scale_type = output_type if is_float else NUMPY_TYPES["FLOAT32"]
    batches = [data.draw(st.sampled_from([shape.batch, (), tuple(1 for _ in shape.batch)])) for _ in range(2)]

    def parameters(kind: str, dtype: np.dtype[Any], *lines: tuple[int, ...]) -> Any:
        fills = SCALES if kind == "scale" else INTEGERS
        given = arrays(dtype, data.draw(st.sampled_from([(1,), *lines])), fills)
        return data.draw(given if kind == "scale" else st.none() | given)

    rows, columns = ((shape.m,), (shape.m, 1)), ((shape.n,), (1, shape.n))
    arguments: dict[str, Any] = {"a": data.draw(arrays(a_type, (*batches[0], shape.m, shape.k), INTEGERS))}
    if has_scales:
        arguments["a_scale"] = parameters("scale", scale_type, *rows)
    arguments["a_zero_point"] = parameters("zero point", a_type, *rows)
    arguments["b"] = data.draw(arrays(b_type, (*batches[1], shape.k, shape.n), INTEGERS))
    if has_scales:
        arguments["b_scale"] = parameters("scale", scale_type, *columns)
    arguments["b_zero_point"] = parameters("zero point", b_type, *columns)
    sizes = (*np.broadcast_shapes(*batches), shape.m, shape.n)
    if is_float:
        bias_shape = data.draw(st.sampled_from([sizes, (shape.n,), (shape.m, 1), (1,)]))
        arguments["bias"] = data.draw(st.none() | arrays(output_type, bias_shape, INPUT_FLOATS))
    elif has_scales:
        arguments["output_scale"] = parameters("scale", scale_type, *rows)
        arguments["output_zero_point"] = parameters("zero point", output_type, *rows)
    wanted = {name: None if value is None else np.asarray(value) for name, value in arguments.items()}
    [expected] = reference.evaluate(operator, {**wanted, "output_data_type": output_type}).values()
    expected = np.broadcast_to(with_rank_of(expected, sizes), sizes)
    options = {"output_data_type": dmlcpu.TensorDataType[output_type.name.upper()]} if has_scales else {}
    for label, device in devices.items():
        result = getattr(dmlcpu, operator.lower())(**arguments, **options, device=device)
        assert_equal(result, expected, label)


def test_rounding_ties_with_odd_zero_points(devices: Devices) -> None:
    """A multiplier of one half makes every odd sum a tie."""
    values = np.arange(256, dtype=np.uint8).reshape(32, 8)
    identity = np.eye(8, dtype=np.int8)
    halves = np.rint((values.astype(np.float32) - 128) / 2)
    for zero_point, a_scale in itertools.product((1, 127, 255), (0.5, np.full(32, 0.5, np.float32))):
        arguments = (values, a_scale, np.uint8(128), identity, 1.0, None, 1.0, np.uint8(zero_point))
        for label, device in devices.items():
            result = dmlcpu.quantized_linear_matrix_multiply(*arguments, device=device)
            assert result.tolist() == np.clip(halves + zero_point, 0, 255).astype(np.uint8).tolist(), label


def test_the_scales_group_as_directml_groups_them(devices: Devices, random_numbers: np.random.Generator) -> None:
    """bs * (as / os) and (bs * as) / os differ in the last bit, and here in a code."""
    a = np.arange(256, dtype=np.uint8)[:, None]
    products = a.astype(np.float32) * np.float32(127)
    found = 0
    for _ in range(200_000):
        if found == 3:
            break
        a_scale, b_scale, scale = random_numbers.uniform(0.1, 1, 3).astype(np.float32) * np.float32([1, 1, 99])
        multipliers = (b_scale * (a_scale / scale), (b_scale * a_scale) / scale)
        expected, other = (np.clip(np.rint(products * factor), 0, 255).astype(np.uint8) for factor in multipliers)
        if (expected == other).all():
            continue
        found += 1
        for label, device in devices.items():
            result = dmlcpu.quantized_linear_matrix_multiply(
                a, a_scale, None, np.int8([[127]]), b_scale, None, scale, None, device=device
            )
            assert result.tolist() == expected.tolist(), label
    assert found == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("result", [np.float32, np.float16])
def test_floats_that_are_no_numbers_are_all_the_same(
    devices: Devices, dtype: type[np.generic], result: type[np.floating[Any]]
) -> None:
    """Whichever meet, and whether an infinity times 0 makes one: which of two is left depends on instructions."""
    kinds = np.array([np.nan, -np.nan, np.inf, 1], result)
    a, b = np.array([[1], [0]], dtype), np.array([[1, 0]], dtype)
    some = 0
    for a_scale, b_scale, bias in itertools.product(kinds, kinds, [*kinds, None]):
        biases = None if bias is None else np.full((2, 2), bias)
        for label, device in devices.items():
            arguments = (a, a_scale, None, b, b_scale, None, biases)
            values = dmlcpu.matrix_multiply_integer_to_float(*arguments, device=device)
            assert values.dtype == result
            others = values[np.isnan(values)]
            some += len(others)
            assert {*others.view(f"u{others.itemsize}").tolist()} <= {0x7FC00000, 0x7E00}, (label, arguments)
    assert some > 0


def test_outputs_that_are_given() -> None:
    a, b = np.ones((2, 3), np.uint8), np.ones((3, 4), np.int8)
    out = np.zeros((4, 2), np.int32).T
    assert dmlcpu.matrix_multiply_integer(a, None, b, None, out=out) is out
    assert (out == 3).all()
    halves = dmlcpu.matrix_multiply_integer_to_float(a, np.float16(0.5), None, b, 1.0, None)
    assert halves.dtype == np.float16
    assert (halves == 1.5).all()
    assert dmlcpu.matrix_multiply_integer_to_float(a, 0.5, None, b, 1.0, None).dtype == np.float32
    codes = np.zeros((2, 4), np.int8)
    assert dmlcpu.quantized_linear_matrix_multiply(a, 1.0, None, b, 1.0, None, 1.0, None, out=codes) is codes
    assert (codes == 3).all()
