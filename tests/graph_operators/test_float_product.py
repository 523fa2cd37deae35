"""FLOAT_PRODUCT, REDUCE_MEAN and REDUCE_SUM on random layouts, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS
from laid_out import packed
from native_operator import run_native
from reference.matrix_multiply_integer_to_float import chain_of_products
from reference.softmax import row_sums
from strategies import input_tensors, output_tensors, tensor_sizes
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
LENGTHS = st.integers(1, 9) | st.sampled_from((15, 16, 17, 33, 64, 65, 130))


def assert_product(
    devices: Devices, a: StridedTensor, b: StridedTensor, output: StridedTensor, *, owned: bool = False
) -> None:
    with np.errstate(all="ignore"):
        expected = expected_storage(output, chain_of_products(a.logical(), b.logical()))
    tensors = {"a_tensor": a, "b_tensor": b, "output_tensor": output}
    for label, device in devices.items():
        result = run_native(device, "FLOAT_PRODUCT", tensors, {}, owned=["b_tensor"] if owned else [])["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_products_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    m, k, n = (data.draw(LENGTHS) for _ in range(3))
    a = data.draw(input_tensors("FLOAT32", (*batch, m, k), INPUT_FLOATS))
    batch_of_b = data.draw(st.sampled_from([batch, (), tuple(1 for _ in batch), (1, *batch[1:])[: len(batch)]]))
    b = data.draw(input_tensors("FLOAT32", (*batch_of_b, k, n), INPUT_FLOATS))
    assert_product(devices, a, b, data.draw(output_tensors("FLOAT32", (*batch, m, n))), owned=data.draw(st.booleans()))


@pytest.mark.parametrize(
    "shape", [(1, 300, 70), (131, 129, 67), (257, 5, 129), (4, 128, 64), (9, 1030, 66), (70, 950, 65)]
)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_products_of_several_tiles(
    devices: Devices,
    random_numbers: np.random.Generator,
    shape: tuple[int, int, int],
    transposed: bool,
    owned: bool,
    repeated: bool,
) -> None:
    """Two products, each with a matrix of its own or both with the first one."""
    m, k, n = shape
    a = packed(random_numbers.normal(size=(2, m, k)).astype(np.float32))
    b = packed(random_numbers.normal(size=(2, k, n)).astype(np.float32))
    if transposed:
        b = StridedTensor("FLOAT32", (2, k, n), (k * n, 1, k), b.buffer)
    if repeated:
        b = StridedTensor("FLOAT32", (2, k, n), (0, *(b.strides or b.packed_strides)[1:]), b.buffer[: k * n])
    output = blank_tensor("FLOAT32", (2, m, n), (m * n + 3, n, 1))  # not evenly apart: no rows of one product
    assert_product(devices, a, b, output, owned=owned)


@pytest.mark.parametrize("columns", [15, 16, 17, 63, 64, 65, 80])
@pytest.mark.parametrize(
    ("m", "k"),
    [(1, 130), (2, 1025), (3, 1030), (4, 1025), (5, 9), (6, 1026), (7, 33), (13, 2100), (129, 40), (129, 770)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_at_the_edges_of_panels(
    devices: Devices, random_numbers: np.random.Generator, m: int, k: int, columns: int, transposed: bool
) -> None:
    """Of constant matrices, in one block of terms and in several."""
    a = packed(random_numbers.normal(size=(m, k)).astype(np.float32))
    values = random_numbers.normal(size=k * columns).astype(np.float32)
    b = StridedTensor("FLOAT32", (k, columns), (1, k) if transposed else (columns, 1), values)
    assert_product(devices, a, b, blank_tensor("FLOAT32", (m, columns), None), owned=True)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("m", "k"), [(1, 9), (7, 4), (8, 3), (15, 17), (16, 5), (33, 130), (150, 257), (300, 64)])
@pytest.mark.parametrize("owned", [False, True])
def test_products_of_a_few_columns(
    devices: Devices, random_numbers: np.random.Generator, m: int, k: int, columns: int, owned: bool
) -> None:
    """Of a matrix as it lies, with gaps between its rows, and of one transposed; to sums apart from each other."""
    a = random_numbers.normal(size=2 * m * (k + 3)).astype(np.float32)
    b = packed(random_numbers.normal(size=(2, k, columns)).astype(np.float32))
    for strides in ((m * (k + 3), k + 3, 1), (m * k, 1, m)):
        left = StridedTensor("FLOAT32", (2, m, k), strides, a)
        for output in ((m * columns, columns, 1), (m * (columns + 2), columns + 2, 1), (m * columns, 1, m)):
            assert_product(devices, left, b, blank_tensor("FLOAT32", (2, m, columns), output), owned=owned)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [511, 513, 700, 1024, 1040, 2100])
@pytest.mark.parametrize("k", [7, 8, 129, 260])
def test_products_of_a_few_rows(
    devices: Devices, random_numbers: np.random.Generator, rows: int, columns: int, k: int
) -> None:
    """By a matrix as it lies, with gaps between its rows or without, for each product or for both."""
    a = packed(random_numbers.normal(size=(2, rows, k)).astype(np.float32))
    b = random_numbers.normal(size=2 * k * (columns + 5)).astype(np.float32)
    output = blank_tensor("FLOAT32", (2, rows, columns), (rows * columns + 3, columns, 1))
    for strides in ((k * (columns + 5), columns + 5, 1), (k * columns, columns, 1), (0, columns, 1)):
        assert_product(devices, a, StridedTensor("FLOAT32", (2, k, columns), strides, b), output)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 127, 129, 300])
@pytest.mark.parametrize("k", [1, 3, 64, 131])
def test_products_of_a_row_by_neighbouring_rows(
    devices: Devices, random_numbers: np.random.Generator, columns: int, k: int
) -> None:
    """As keys are that a transposition turns, with gaps between columns or without; results are neighbours or not."""
    a = packed(random_numbers.normal(size=(2, 1, k)).astype(np.float32))
    b = random_numbers.normal(size=2 * columns * (k + 3)).astype(np.float32)
    for strides in ((columns * (k + 3), 1, k + 3), (columns * k, 1, k), (0, 1, k)):
        for output in ((columns, columns, 1), (columns * 2 + 1, columns * 2, 2)):
            matrices = StridedTensor("FLOAT32", (2, k, columns), strides, b)
            assert_product(devices, a, matrices, blank_tensor("FLOAT32", (2, 1, columns), output))


def assert_means(devices: Devices, x: StridedTensor, axis: int, output: StridedTensor) -> None:
    """And of sums."""
    with np.errstate(all="ignore"):
        sums = row_sums(np.moveaxis(x.logical(), axis, -1))
        results = {"REDUCE_SUM": sums, "REDUCE_MEAN": sums / np.float32(x.sizes[axis])}
    tensors = {"input_tensor": x, "output_tensor": output}
    for operator, rows in results.items():
        expected = expected_storage(output, np.moveaxis(rows, -1, axis))
        for label, device in devices.items():
            result = run_native(device, operator, tensors, {"axis": [axis]})["output_tensor"]
            assert_equal(result, expected, f"{operator}, {label}")


@given(st.data())
def test_means_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    sizes = data.draw(tensor_sizes())
    axis = data.draw(st.integers(0, len(sizes) - 1))
    x = data.draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS))
    assert_means(devices, x, axis, data.draw(output_tensors("FLOAT32", (*sizes[:axis], 1, *sizes[axis + 1 :]))))


@pytest.mark.parametrize(
    "sizes", [(2, 3, 40_001), (3, 15, 129), (2, 16, 7), (1, 17, 257), (2, 50, 5_003), (2, 600, 150)]
)
def test_means_of_columns(devices: Devices, random_numbers: np.random.Generator, sizes: tuple[int, ...]) -> None:
    """Of fewer rows and more than partial sums, and more columns than one block takes, or a task."""
    x = packed(random_numbers.normal(1, 3, sizes).astype(np.float32))
    assert_means(devices, x, 1, blank_tensor("FLOAT32", (sizes[0], 1, sizes[2]), None))


@pytest.mark.parametrize("columns", [2, 3, 15, 16])
@pytest.mark.parametrize(("blocks", "length"), [(15, 3), (16, 3), (16, 16), (9217, 3), (700, 17), (2000, 100)])
@pytest.mark.parametrize("gap", [0, 3])
def test_means_of_narrow_blocks_of_columns(
    devices: Devices, random_numbers: np.random.Generator, columns: int, blocks: int, length: int, gap: int
) -> None:
    """Brought together where there are many; more than one task; results that are neighbours and that are not."""
    x = packed(random_numbers.normal(1, 3, (2, blocks, length, columns)).astype(np.float32))
    strides = (blocks * (columns + gap), columns + gap, columns + gap, 1)
    assert_means(devices, x, 2, blank_tensor("FLOAT32", (2, blocks, 1, columns), strides))


@pytest.mark.parametrize("length", [*range(1, 18), 33])
@pytest.mark.parametrize("rows", [3, 4, 17, 20_001])
@pytest.mark.parametrize("gaps", [(0, 0), (0, 2), (5, 0)], ids=str)
def test_means_of_short_rows(
    devices: Devices, random_numbers: np.random.Generator, length: int, rows: int, gaps: tuple[int, int]
) -> None:
    """In the lanes of vectors or by themselves, whether rows and results lie one behind the other or not."""
    values = random_numbers.normal(1, 3, 2 * rows * (length + gaps[0])).astype(np.float32)
    values[::7] = -0.0
    step = length + gaps[0]
    x = StridedTensor("FLOAT32", (2, rows, length), (rows * step, step, 1), values)
    output = blank_tensor("FLOAT32", (2, rows, 1), (rows * (1 + gaps[1]), 1 + gaps[1], 1))
    assert_means(devices, x, 2, output)


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("FLOAT_PRODUCT", [(3, 4), (5, 6), (3, 6)]),
        ("FLOAT_PRODUCT", [(3, 4), (4, 6), (3, 5)]),
        ("FLOAT_PRODUCT", [(4,), (4, 6), (6,)]),
        ("FLOAT_PRODUCT", [(2, 3, 4), (3, 4, 6), (2, 3, 6)]),
        ("REDUCE_MEAN", [(3, 4), (3, 4)]),
        ("REDUCE_MEAN", [(3, 4), (3,)]),
        ("REDUCE_MEAN", [(3, 4), (2, 1)]),
        ("REDUCE_SUM", [(3, 4), (3, 4)]),
    ],
)
def test_refusals(devices: Devices, operator: str, shapes: list[tuple[int, ...]]) -> None:
    names = ("a_tensor", "b_tensor", "output_tensor") if len(shapes) == 3 else ("input_tensor", "output_tensor")
    tensors = {name: packed(np.zeros(shape, np.float32)) for name, shape in zip(names, shapes, strict=True)}
    with pytest.raises(ValueError, match=rf"{operator}|sizes"):
        run_native(next(iter(devices.values())), operator, tensors, {"axis": [1]})


@pytest.mark.parametrize("sizes", [(2**31, 2**31), (2**57 + 1, 1)])
def test_matrices_that_no_memory_has(devices: Devices, sizes: tuple[int, int]) -> None:
    """One float, repeated: an owned b would be packed."""
    one = np.zeros(1, np.float32)
    tensors = {
        "a_tensor": StridedTensor("FLOAT32", (1, sizes[0]), (0, 0), one),
        "b_tensor": StridedTensor("FLOAT32", sizes, (0, 0), one),
        "output_tensor": StridedTensor("FLOAT32", (1, sizes[1]), (0, 1), one),
    }
    with pytest.raises(ValueError, match="b is too large to be packed"):
        run_native(next(iter(devices.values())), "FLOAT_PRODUCT", tensors, {}, owned=["b_tensor"])
