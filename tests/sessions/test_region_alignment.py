"""Regions of images whose means or maxima are taken, which a function of arrays computes: RoiAlign."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from dmlcpu import _core
from onnx_models import Builder, results_of_onnxruntime

Array = NDArray[Any]


def aligned(
    images: Array,
    boxes: Array,
    of_images: Array,
    cells: tuple[int, int],
    samples: int,
    scale: float,
    half_pixel: bool,
    largest: bool,
) -> Array:
    """Sample by sample, in float64; where these are is computed in float32, as it decides which pixels count."""
    result = np.zeros((len(boxes), images.shape[1], *cells))
    offset = np.float32(0.5 if half_pixel else 0)
    for region, box in enumerate(boxes * np.float32(scale) - offset):
        places = []
        for axis, count in ((1, cells[0]), (0, cells[1])):
            length = box[axis + 2] - box[axis]
            cell = (length if half_pixel else max(length, np.float32(1))) / np.float32(count)
            number = samples or max(int(np.ceil(cell)), 0)
            steps = (np.arange(number, dtype=np.float32) + np.float32(0.5)) * cell / np.float32(max(number, 1))
            places.append([[box[axis] + np.float32(place) * cell + step for step in steps] for place in range(count)])
        for y, x in np.ndindex(*cells):
            grid = [(a, b) for a in places[0][y] for b in places[1][x]]
            products = [weighted_pixels(images[of_images[region]], sample) for sample in grid]
            if products:
                of_all = np.concatenate(products)
                result[region, :, y, x] = of_all.max(0) if largest else of_all.sum(0) / len(grid)
    return result


def weighted_pixels(image: Array, sample: tuple[float, float]) -> Array:
    """The four that a sample is between, or 0 outside."""
    if any(not -1 <= place <= size for place, size in zip(sample, image.shape[1:], strict=True)):
        return np.zeros((1, image.shape[0]))
    axes = []
    for place, size in zip(sample, image.shape[1:], strict=True):
        inside = min(max(float(place), 0.0), size - 1.0)
        low = int(inside)
        axes.append([(low, 1 - (inside - low)), (min(low + 1, size - 1), inside - low)])
    return np.stack(
        [of_row * of_column * image[:, y, x] for y, of_row in axes[0] for x, of_column in axes[1]],
    )


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 2, 9), (17, 23, 5), (64, 7, 7)])
def test_aligned_regions(
    devices: Mapping[str, dmlcpu.Device],
    size: tuple[int, int, int],
    samples: int,
    half_pixel: bool,
    largest: bool,
    random_numbers: np.random.Generator,
) -> None:
    """Regions that reach outside, of hardly any size, and so large that pixels between samples are not read."""
    images = random_numbers.normal(0, 1, (2, *size)).astype(np.float32)
    corners = random_numbers.uniform(-6, 2 * max(size), (9, 2))
    ends = corners + random_numbers.uniform(0, 2 * max(size), (9, 2)) * random_numbers.choice([0.1, 1, 3], (9, 1))
    boxes = np.concatenate([corners, ends], 1).astype(np.float32)
    boxes[7] = boxes[7, [2, 3, 0, 1]]  # ends before it begins
    boxes[8] = [np.nan, 0, 5, 5]
    of_images = random_numbers.integers(0, 2, 9)
    for cells in ((1, 1), (3, 4), (7, 7)):
        asked = (*cells, samples, 0.5, half_pixel, largest)
        first = _core.roi_align(images, boxes, of_images, *asked, "scalar", 1)
        assert first.shape == (9, size[0], *cells)
        expected = aligned(images, boxes[:8], of_images, cells, samples, 0.5, half_pixel, largest)
        np.testing.assert_allclose(first[:8], expected, 0, 4e-6)
        assert not first[8].any()
        for label, device in devices.items():
            result = _core.roi_align(images, boxes, of_images, *asked, device.isa, device.num_threads)
            assert np.array_equal(result, first), label


def test_regions_of_nothing(isa: str) -> None:
    images, boxes = np.ones((1, 2, 0, 5), np.float32), np.ones((3, 4), np.float32)
    result = _core.roi_align(images, boxes, np.zeros(3, np.int64), 2, 2, 2, 1.0, False, False, isa, 1)
    assert result.tolist() == np.zeros((3, 2, 2, 2)).tolist()
    result = _core.roi_align(images, boxes[:0], np.zeros(0, np.int64), 2, 2, 2, 1.0, False, False, isa, 1)
    assert result.shape == (0, 2, 2, 2)


def region_model(version: int = 17, **attributes: Any) -> bytes:
    builder = Builder(version)
    names = [builder.input("float32", ("n", 8, 9, 9), "x"), builder.input("float32", ("r", 4), "rois")]
    names.append(builder.input("int64", ("r",), "batch_indices"))
    builder.output(builder.node("RoiAlign", names, **attributes), "float32")
    return builder.build()


def regions(count: int) -> dict[str, Array]:
    random = np.random.default_rng((SEED, count))
    corners = random.uniform(0, 9, (count, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 9, (count, 2))], 1).astype(np.float32)
    x = random.normal(0, 1, (2, 8, 9, 9)).astype(np.float32)
    return {"x": x, "rois": boxes, "batch_indices": random.integers(0, 2, count)}


@pytest.mark.parametrize("version", [10, 16, 17])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_a_model(version: int, mode: str) -> None:
    model = region_model(version, mode=mode, output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.5)
    session = dmlcpu.InferenceSession(model)
    for count in (1, 0, 4):
        feeds = regions(count)
        [ours], [expected] = session.run(None, feeds), results_of_onnxruntime(model, feeds)
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, 0, 0 if mode == "max" else 4e-6)
    [part] = session.partitions()
    assert part.provider == "dmlcpu"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"batch_indices": np.int64([0, 2, 0])}, "region 1 is of image 2, of 2"),
        ({"batch_indices": np.int64([0, -1, 0])}, "region 1 is of image -1, of 2"),
        ({"batch_indices": np.int64([0])}, r"rois \(3, 4\) and batch_indices \(1,\)"),
        ({"rois": np.float32([[0, 0, 1e9, 1]] * 3)}, "a region is too large"),
    ],
)
def test_regions_that_are_refused(changed: dict[str, Array], told: str) -> None:
    session = dmlcpu.InferenceSession(region_model())
    with pytest.raises(dmlcpu.DmlError, match=told):
        session.run(None, {**regions(3), **changed})


CHANGING = """
import sys, threading
import numpy as np
from dmlcpu import _core

isa = sys.argv[1]
images, of_images = np.ones((1, 16, 32, 32), np.float32), np.zeros(2000, np.int64)
good = 2, 2, 8, 8
boxes = np.full((2000, 4), good, np.float32)
done, changes = threading.Event(), 0

def change():
    global changes
    while not done.is_set():
        of_images[1000:], boxes[1000:] = 1 << 30, (2, 2, 1e6, 1e6)
        done.wait(0.0005)
        of_images[1000:], boxes[1000:] = 0, good
        done.wait(0.002)
        changes += 1

other = threading.Thread(target=change, daemon=True)
other.start()
for samples, largest in ((0, False), (0, True), (2, False), (2, True)):
    print(samples, largest, flush=True)
    runs, enough = 0, changes + 200
    while other.is_alive() and (changes < enough or runs < 20):
        runs += 1
        try:
            _core.roi_align(images, boxes, of_images, 3, 3, samples, 1.0, False, largest, isa, 1)
        except ValueError:
            done.wait(0.001)
done.set()
other.join()
"""


def test_regions_that_change_during_a_run(isa: str) -> None:
    """Another thread writes to arrays that are read without the GIL: any result, but no fault."""
    run = subprocess.run([sys.executable, "-c", CHANGING, isa], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, ""), f"samples, largest: {run.stdout}"


def test_cells_that_are_refused() -> None:
    session = dmlcpu.InferenceSession(region_model(output_height=2000))
    with pytest.raises(dmlcpu.InvalidModelError, match="got 2000 x 1 cells, expected 1 to 1024 each way"):
        session.run(None, regions(3))
