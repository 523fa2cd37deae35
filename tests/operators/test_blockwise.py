"""QUANTIZE and DEQUANTIZE on random layouts, blocks and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

import dmlcpu
from block_shapes import CODE_TYPES, blocked_case, blocked_cases
from dispatching import assert_matches_reference, bound_case, dispatch, expected_storage
from filled_tensors import filled
from fills import INTEGERS, SCALES, input_fills
from operator_case import OperatorCase
from strategies import Run, runs
from strided_tensor import NUMPY_TYPES, PACKED_TYPES, StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


@given(runs(blocked_cases()))
def test_objects_equal_the_reference(devices: Devices, run: Run) -> None:
    """Packed tensors are bound flat only."""
    shaped = [field for field in run.shaped if run.case.tensors[field].data_type not in PACKED_TYPES]  # type: ignore[union-attr]
    assert_matches_reference(devices, run.case, owned=run.owned, shaped=shaped)


# How weights are cut: along the last axis, along the one before, by row, by column, in all, by element, odd lengths.
LAYOUTS = [
    ((96, 1024), (96, 16)),
    ((96, 1024), (96, 32)),
    ((96, 1024), (96, 64)),
    ((96, 1024), (96, 128)),
    ((96, 1024), (3, 1024)),
    ((96, 1024), (96, 1)),
    ((96, 1024), (1, 1024)),
    ((96, 1024), (1, 1)),
    ((96, 1024), (96, 1024)),
    ((65, 1055), (65, 211)),
    ((65, 1055), (13, 5)),
    ((65, 1055), (65, 1)),
    ((1, 65537), (1, 1)),
    ((3, 131072), (3, 4096)),
    ((3, 131073), (3, 1)),
    ((2, 3, 4, 5, 600), (2, 1, 2, 5, 20)),
]


@pytest.mark.parametrize(("sizes", "blocks"), LAYOUTS, ids=str)
@pytest.mark.parametrize("codes", CODE_TYPES)
@pytest.mark.parametrize("operator", ["QUANTIZE", "DEQUANTIZE"])
def test_tensors_of_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    operator: str,
    codes: str,
    sizes: tuple[int, ...],
    blocks: tuple[int, ...],
) -> None:
    case = blocked_case(random_numbers, operator, (codes, "FLOAT32"), sizes, blocks)
    assert_matches_reference(devices, case)


@pytest.mark.parametrize("blocks", [(70, 40), (70, 20), (70, 2), (2, 1280), (7, 1280), (2, 40)], ids=str)
@pytest.mark.parametrize("operator", ["QUANTIZE", "DEQUANTIZE"])
def test_rows_with_gaps(
    devices: Devices, random_numbers: np.random.Generator, operator: str, blocks: tuple[int, ...]
) -> None:
    """Kernels take them where they are; what lies between them stays as it is."""
    sizes, given_strides, made_strides = (70, 1280), (1283, 1), (1301, 1)
    given_type, made_type = ("FLOAT32", "UINT8") if operator == "QUANTIZE" else ("UINT8", "FLOAT32")
    every = {
        "input_tensor": filled(
            random_numbers, given_type, sizes, input_fills(NUMPY_TYPES[given_type])[0], given_strides
        ),
        "quantization_tensors[0]": filled(random_numbers, "FLOAT32", blocks, SCALES[0]),
        "quantization_tensors[1]": filled(random_numbers, "UINT8", blocks, INTEGERS[0]),
        "output_tensor": blank_tensor(made_type, sizes, made_strides),
    }
    assert_matches_reference(devices, OperatorCase(operator, every, {"quantization_type": 2}))


@pytest.mark.parametrize("data_type", ["UINT4", "INT4"])
def test_every_tie_with_every_zero_point_of_4_bits(devices: Devices, data_type: str) -> None:
    """Rounding after the zero point would fail half of them; both halves of a byte see each."""
    ties = np.repeat(np.concatenate([np.arange(-34.5, 35), [np.nan, np.inf, -np.inf, 0.0]]), 3).astype(np.float32)
    values = np.tile(ties, 16)
    sizes, blocks = (16, ties.size), (16, 1)
    every = {
        "input_tensor": StridedTensor("FLOAT32", sizes, None, values),
        "quantization_tensors[0]": StridedTensor("FLOAT32", blocks, None, np.ones(16, np.float32)),
        "quantization_tensors[1]": StridedTensor(
            data_type, blocks, None, np.arange(0x10, 0x100, 0x22).astype(np.uint8)
        ),
        "output_tensor": blank_tensor(data_type, sizes, None),
    }
    assert_matches_reference(devices, OperatorCase("QUANTIZE", every, {"quantization_type": 2}))


@pytest.mark.parametrize("codes", CODE_TYPES)
def test_every_code_without_a_zero_point(devices: Devices, codes: str) -> None:
    """Unsigned codes have their zero in the middle."""
    buffer = np.arange(256).astype(NUMPY_TYPES[codes]) if codes != "INT8" else np.arange(-128, 128).astype(np.int8)
    sizes = (512,) if codes in PACKED_TYPES else (256,)
    every = {
        "input_tensor": StridedTensor(codes, sizes, None, buffer),
        "quantization_tensors[0]": StridedTensor("FLOAT32", (1,), None, np.float32([0.1])),
        "output_tensor": blank_tensor("FLOAT32", sizes, None),
    }
    case = OperatorCase("DEQUANTIZE", every, {"quantization_type": 1})
    assert_matches_reference(devices, case)
    middle = {"UINT8": 128, "INT8": 0, "UINT4": 8, "INT4": 0}[codes]
    assert case.expected()["output_tensor"][np.flatnonzero(every["input_tensor"].logical() == middle)].tolist() == (
        [0.0] * (32 if codes in PACKED_TYPES else 1)
    )


def test_threads_do_not_lose_halves_of_bytes(random_numbers: np.random.Generator) -> None:
    """Rows of an odd length share bytes: many threads write them, many times."""
    case = blocked_case(random_numbers, "QUANTIZE", ("UINT4", "FLOAT32"), (20011, 31), (20011, 1))
    [tensor] = case.outputs.values()
    expected = expected_storage(tensor, case.expected()["output_tensor"])
    device, given = dmlcpu.Device(num_threads=8), bound_case(case)
    for _ in range(5):
        assert dispatch(device, given)["output_tensor"].tobytes() == expected.tobytes()
