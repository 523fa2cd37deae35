"""FLOAT_RESAMPLE on random layouts, taps and adversarial values, against the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal, expected_storage
from fills import INPUT_FLOATS
from laid_out import channels_last, packed, part_of_joined
from native_operator import run_native
from reference.quantized_resample import Taps, between
from resample_taps import attributes_of, random_taps, scaled_taps
from strategies import AXIS_SIZES, generators, input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]


def assert_resample(devices: Devices, x: StridedTensor, output: StridedTensor, rows: Taps, columns: Taps) -> None:
    with np.errstate(all="ignore"):
        wide = between(x.logical()[..., columns.lower], x.logical()[..., columns.upper], columns.weight)
        values = between(wide[:, :, rows.lower], wide[:, :, rows.upper], rows.weight.reshape(-1, 1))
    expected = expected_storage(output, values)
    tensors = {"input_tensor": x, "output_tensor": output}
    for label, device in devices.items():
        result = run_native(device, "FLOAT_RESAMPLE", tensors, attributes_of(rows, columns))["output_tensor"]
        assert_equal(result, expected, label)


@given(st.data())
def test_any_layout(devices: Devices, data: st.DataObject) -> None:
    images, channels = data.draw(st.integers(1, 3)), data.draw(AXIS_SIZES)
    height, width, output_height, output_width = (data.draw(st.integers(1, 9)) for _ in range(4))
    x = data.draw(input_tensors("FLOAT32", (images, channels, height, width), INPUT_FLOATS))
    output = data.draw(output_tensors("FLOAT32", (images, channels, output_height, output_width)))
    rng = data.draw(generators())
    columns = random_taps(rng, width, output_width, nearest=False)
    assert_resample(devices, x, output, random_taps(rng, height, output_height, nearest=False), columns)


@pytest.mark.parametrize("layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize("output_layout", [packed, channels_last, part_of_joined])
@pytest.mark.parametrize(
    ("sizes", "output_sizes"), [((2, 21, 33, 33), (129, 129)), ((1, 3, 40, 61), (80, 123)), ((1, 5, 20, 20), (10, 9))]
)
def test_layouts_of_networks(
    devices: Devices,
    random_numbers: np.random.Generator,
    layout: Callable[[np.ndarray], StridedTensor],
    output_layout: Callable[[np.ndarray], StridedTensor],
    sizes: tuple[int, ...],
    output_sizes: tuple[int, int],
) -> None:
    x = layout(random_numbers.normal(0, 9, sizes).astype(np.float32))
    output = output_layout(np.zeros((*sizes[:2], *output_sizes), np.float32))
    rows, columns = (scaled_taps(*pair, nearest=False) for pair in zip(sizes[2:], output_sizes, strict=True))
    assert_resample(devices, x, output, rows, columns)


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ("lower_rows", [0, 1, 2, 4]),
        ("upper_columns", [-1, 0, 1]),
        ("row_weights", [0, 0, 0]),
        ("column_weights", [int(np.float32(1.5).view(np.uint32))] * 3),
        ("column_weights", [1 << 32] * 3),
        ("lower_columns", None),
    ],
)
def test_refuses_taps(device: dmlcpu.Device, changed: str, values: list[int] | None) -> None:
    attributes = attributes_of(scaled_taps(4, 4, False), scaled_taps(5, 3, False))
    attributes.pop(changed)
    if values is not None:
        attributes[changed] = values
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", (1, 2, 4, 5), None),
        "output_tensor": blank_tensor("FLOAT32", (1, 2, 4, 3), None),
    }
    with pytest.raises(ValueError, match=rf"FLOAT_RESAMPLE.*{changed}"):
        run_native(device, "FLOAT_RESAMPLE", tensors, attributes)


@pytest.mark.parametrize("sizes", [(1, 3, 4, 3), (2, 2, 4, 3), (2, 4, 3)])
def test_refuses_other_images(device: dmlcpu.Device, sizes: tuple[int, ...]) -> None:
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", (1, 2, 4, 5), None),
        "output_tensor": blank_tensor("FLOAT32", sizes, None),
    }
    attributes = attributes_of(scaled_taps(4, 4, False), scaled_taps(5, 3, False))
    with pytest.raises(ValueError, match="FLOAT_RESAMPLE"):
        run_native(device, "FLOAT_RESAMPLE", tensors, attributes)
