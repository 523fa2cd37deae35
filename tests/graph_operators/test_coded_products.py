"""DEQUANTIZED_PRODUCT and QUANTIZED_BLOCK_PRODUCT on random layouts, against references."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS, INTEGERS, SCALES
from laid_out import packed
from native_operator import run_native
from reference.matrix_multiply_integer_to_float import chain_of_products
from reference.quantized_block_product import quantized_block_product
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
OPERATORS = ("DEQUANTIZED_PRODUCT", "QUANTIZED_BLOCK_PRODUCT")
OWNED = ("b_tensor", "scale_tensor", "zero_point_tensor")
LENGTHS = st.integers(1, 9) | st.sampled_from((15, 16, 17, 33, 63, 64, 65, 130))


def blocks_of(k: int, block_size: int, bits: int) -> tuple[int, int]:
    """How many blocks a column has, and the bytes of one."""
    return math.ceil(k / block_size), math.ceil(block_size * bits / 8)


def codes_of_columns(b: NDArray[Any], k: int, block_size: int, bits: int) -> NDArray[np.uint8]:
    """{k, n}, of bytes {n, bytes of a column}."""
    count, _ = blocks_of(k, block_size, bits)
    blocks = b.reshape(len(b), count, -1)
    if bits == 4:
        blocks = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(len(b), count, -1)
    return blocks[..., :block_size].reshape(len(b), -1)[:, :k].T


@np.errstate(all="ignore")
def product(operator: str, tensors: Mapping[str, StridedTensor], block_size: int, bits: int) -> NDArray[np.float32]:
    a = tensors["a_tensor"].logical()
    codes = codes_of_columns(tensors["b_tensor"].logical(), a.shape[-1], block_size, bits)
    scale, zero_point = (tensors[name].logical().T for name in ("scale_tensor", "zero_point_tensor"))
    if operator == "QUANTIZED_BLOCK_PRODUCT":
        return quantized_block_product(a, codes, scale, zero_point, block_size)
    of_block = np.arange(a.shape[-1]) // block_size
    values = (codes.astype(np.float32) - zero_point[of_block].astype(np.float32)) * scale[of_block]
    return chain_of_products(a, values)


def run(
    device: dmlcpu.Device, operator: str, tensors: Mapping[str, StridedTensor], block_size: int, bits: int
) -> NDArray[Any]:
    attributes = {"bits": [bits], "block_size": [block_size]}
    return run_native(device, operator, tensors, attributes, owned=OWNED)["output_tensor"]


def assert_product(
    devices: Devices, operator: str, tensors: Mapping[str, StridedTensor], block_size: int, bits: int
) -> None:
    expected = expected_storage(tensors["output_tensor"], product(operator, tensors, block_size, bits))
    for label, device in devices.items():
        result = run(device, operator, tensors, block_size, bits)
        assert_equal(result, expected, label)


@given(st.data())
def test_products_on_any_layout(devices: Devices, data: st.DataObject) -> None:
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    m, k, n = (data.draw(LENGTHS) for _ in range(3))
    operator, bits = data.draw(st.sampled_from(OPERATORS)), data.draw(st.sampled_from((4, 8)))
    sizes = st.sampled_from((16, 32, 48, 128, 256))
    block_size = data.draw(sizes if operator == "QUANTIZED_BLOCK_PRODUCT" else sizes | st.just(k))
    count, bytes_of_block = blocks_of(k, block_size, bits)
    tensors = {
        "a_tensor": data.draw(input_tensors("FLOAT32", (*batch, m, k), INPUT_FLOATS)),
        "b_tensor": data.draw(input_tensors("UINT8", (n, count * bytes_of_block), INTEGERS)),
        "scale_tensor": data.draw(input_tensors("FLOAT32", (n, count), SCALES)),
        "zero_point_tensor": data.draw(input_tensors("UINT8", (n, count), INTEGERS)),
        "output_tensor": data.draw(output_tensors("FLOAT32", (*batch, m, n))),
    }
    assert_product(devices, operator, tensors, block_size, bits)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block_size", [32, 48, 128, 192, 256, 400])
@pytest.mark.parametrize("m", [1, 4, 5, 8, 9, 131])
def test_products_of_several_tiles(
    devices: Devices, random_numbers: np.random.Generator, operator: str, bits: int, block_size: int, m: int
) -> None:
    if operator == "QUANTIZED_BLOCK_PRODUCT" and block_size == 400:
        block_size = 16
    k, n = 400, 130
    count, bytes_of_block = blocks_of(k, block_size, bits)
    tensors = {
        "a_tensor": packed(random_numbers.normal(size=(m, k)).astype(np.float32)),
        "b_tensor": packed(random_numbers.integers(0, 256, (n, count * bytes_of_block), np.uint8)),
        "scale_tensor": packed(random_numbers.random((n, count), np.float32)),
        "zero_point_tensor": packed(random_numbers.integers(0, 1 << bits, (n, count), np.uint8)),
        "output_tensor": blank_tensor("FLOAT32", (m, n), None),
    }
    assert_product(devices, operator, tensors, block_size, bits)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 63, 64, 65, 130])
@pytest.mark.parametrize("gap", [0, 3])
def test_columns_side_by_side(
    devices: Devices, random_numbers: np.random.Generator, operator: str, bits: int, n: int, gap: int
) -> None:
    """The codes of a row are neighbours, of as many columns as a panel has, or fewer, or more."""
    m, k, block_size = 2, 352, 32
    count, bytes_of_block = blocks_of(k, block_size, bits)
    b = random_numbers.integers(0, 256, (count * bytes_of_block, n + gap), np.uint8)
    tensors = {
        "a_tensor": packed(random_numbers.normal(size=(m, k)).astype(np.float32)),
        "b_tensor": StridedTensor("UINT8", (n, len(b)), (1, n + gap), b.reshape(-1)[: b.size - gap]),
        "scale_tensor": packed(random_numbers.random((n, count), np.float32)),
        "zero_point_tensor": packed(random_numbers.integers(0, 1 << bits, (n, count), np.uint8)),
        "output_tensor": blank_tensor("FLOAT32", (m, n), None),
    }
    assert_product(devices, operator, tensors, block_size, bits)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_sums(devices: Devices, bits: int) -> None:
    """Of integers, in the largest blocks: 8 bits times 7, without a zero point or with the largest."""
    m, k, n = 3, 512, 66
    a = np.where(np.arange(m * k).reshape(m, k) // 256 % 2 == 0, 127, -127).astype(np.float32)
    points = np.where(np.arange(n) % 2 == 0, 0, (1 << bits) - 1)
    tensors = {
        "a_tensor": packed(a),
        "b_tensor": packed(np.where(points[:, None] == 0, 255, 0).astype(np.uint8).repeat(k * bits // 8, 1)),
        "scale_tensor": packed(np.ones((n, 2), np.float32)),
        "zero_point_tensor": packed(points[:, None].astype(np.uint8).repeat(2, 1)),
        "output_tensor": blank_tensor("FLOAT32", (m, n), None),
    }
    assert_product(devices, "QUANTIZED_BLOCK_PRODUCT", tensors, 256, bits)


def shaped(
    bits: int = 4, block_size: int = 32, **changed: tuple[int, ...]
) -> tuple[dict[str, StridedTensor], int, int]:
    """Tensors of a product of 3 x 64 by 64 x 5, some of other sizes."""
    sizes = {
        "a_tensor": (3, 64),
        "b_tensor": (5, 64 * bits // 8),
        "scale_tensor": (5, 2),
        "zero_point_tensor": (5, 2),
        "output_tensor": (3, 5),
    }
    codes = ("b_tensor", "zero_point_tensor")
    tensors = {
        name: packed(np.zeros(shape, np.uint8 if name in codes else np.float32))
        for name, shape in {**sizes, **changed}.items()
    }
    return tensors, block_size, bits


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (shaped(bits=2), "codes have 4 or 8 bits"),
        (shaped(block_size=0), "block_size is out of range"),
        (shaped(block_size=2**62), "block_size is out of range"),
        (shaped(block_size=2**50), "b is too large to be packed"),
        (shaped(block_size=36), "several blocks are of whole 32-bit words"),
        (shaped(block_size=16), "a scale and a zero point for each block"),
        (shaped(b_tensor=(5, 33)), "a column's codes are its blocks"),
        (shaped(b_tensor=(160,)), "codes of rank 2"),
        (shaped(a_tensor=(64,)), "matrices are of rank 2 to 4"),
        (shaped(scale_tensor=(5, 3)), "a scale and a zero point for each block"),
        (shaped(zero_point_tensor=(4, 2)), "a scale and a zero point for each block"),
        (shaped(zero_point_tensor=(10,)), "a scale and a zero point for each block"),
        (shaped(output_tensor=(3, 6)), "the sizes of the matrices do not fit together"),
        (shaped(output_tensor=(15,)), "matrices are of rank 2 to 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("operator", OPERATORS)
def test_refusals(
    devices: Devices, operator: str, case: tuple[dict[str, StridedTensor], int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(next(iter(devices.values())), operator, *case)


@pytest.mark.parametrize("block_size", [8, 24, 272])
def test_blocks_of_quantized_rows(devices: Devices, block_size: int) -> None:
    count = -(-64 // block_size)
    parameters = {"scale_tensor": (5, count), "zero_point_tensor": (5, count), "b_tensor": (5, count * block_size)}
    case = shaped(8, block_size, **parameters)
    with pytest.raises(ValueError, match="blocks are of 16 to 256 terms, a multiple of 16"):
        run(next(iter(devices.values())), "QUANTIZED_BLOCK_PRODUCT", *case)


def test_codes_that_are_not_owned(devices: Devices) -> None:
    tensors, block_size, bits = shaped()
    attributes = {"bits": [bits], "block_size": [block_size]}
    with pytest.raises(ValueError, match="b, its scales and zero points are owned"):
        run_native(next(iter(devices.values())), "DEQUANTIZED_PRODUCT", tensors, attributes, owned=OWNED[:2])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("sizes", [(2**31, 2**31), (2**57 + 1, 1), (1, 2**62)])
def test_codes_that_no_memory_has(devices: Devices, operator: str, sizes: tuple[int, int]) -> None:
    """One code, repeated, would be packed."""
    n, k = sizes
    one, code = np.zeros(1, np.float32), np.zeros(1, np.uint8)
    tensors = {
        "a_tensor": StridedTensor("FLOAT32", (1, k), (0, 0), one),
        "b_tensor": StridedTensor("UINT8", (n, k), (0, 0), code),
        "scale_tensor": StridedTensor("FLOAT32", (n, 1), (0, 0), one),
        "zero_point_tensor": StridedTensor("UINT8", (n, 1), (0, 0), code),
        "output_tensor": StridedTensor("FLOAT32", (1, n), (0, 1), one),
    }
    with pytest.raises(ValueError, match=r"b is too large to be packed|block_size is out of range"):
        run(next(iter(devices.values())), operator, tensors, k, 8)
