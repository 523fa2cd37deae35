"""Images as inputs: layouts, types, scaling, orientation, and pixels of more than 8 bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import classify
import dmlcpu
from command_line import PHOTO
from dmlcpu.cli.images import PixelScaling, read_image


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 20, 30, 3), np.uint8), ((1, 3, 20, 30), np.int8), ((1, 20, 30), np.uint8), ((20, 30, 1), np.int8)],
)
def test_images_become_codes_in_the_layout_of_the_input(shape: tuple[int, ...], dtype: type[Any]) -> None:
    with Image.open(PHOTO) as image:
        colours = image.convert("RGB" if 3 in shape else "L").resize((30, 20), Image.Resampling.BILINEAR)
    pixels = np.asarray(colours).reshape(20, 30, -1).astype(int) - (128 if dtype is np.int8 else 0)
    if shape[-1] not in (1, 3):
        pixels = pixels.transpose(2, 0, 1)
    array = read_image(PHOTO, "x", shape, np.dtype(dtype), PixelScaling())
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, pixels.reshape(shape))


def test_images_become_scaled_floats() -> None:
    with Image.open(PHOTO) as image:
        pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)[np.newaxis].astype(np.float64)
    scaling = PixelScaling.parsed(0.5, "1,2,3", "4")
    array = read_image(PHOTO, "x", ("N", 3, None, "width"), np.dtype(np.float32), scaling)
    expected = (pixels * 0.5 - np.float64([1, 2, 3]).reshape(1, 3, 1, 1)) / 4
    np.testing.assert_array_equal(array, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scaling", [PixelScaling(scale=1.0), PixelScaling(mean=(0.5,)), PixelScaling(std=(2.0,))])
def test_codes_are_not_scaled(dtype: type, scaling: PixelScaling) -> None:
    message = f"input 'x': --scale, --mean and --std are for inputs of floats, and this one takes {np.dtype(dtype)}"
    with pytest.raises(dmlcpu.BindingError, match=re.escape(message)):
        read_image(PHOTO, "x", (1, 3, 32, 32), np.dtype(dtype), scaling)


def gray_image(random_numbers: np.random.Generator) -> Image.Image:
    return Image.fromarray(random_numbers.integers(0, 256, (32, 32), np.uint8))


@pytest.mark.parametrize("shape", [(1, 32, 32, 1), (1, 32, 32, 3)])
@pytest.mark.parametrize(
    ("order", "name", "modes"),
    [
        ("<", "16.tif", {"I;16"}),
        (">", "16.tif", {"I;16B"}),
        ("<", "16.png", {"I;16", "I"}),  # I of Pillow 10
        ("<", "16.pgm", {"I"}),
    ],
)
def test_the_upper_8_of_16_bits_count(
    random_numbers: np.random.Generator, tmp_path: Path, shape: tuple[int, ...], order: str, name: str, modes: set[str]
) -> None:
    image, low = gray_image(random_numbers), random_numbers.integers(0, 256, (32, 32), np.uint16)
    image.save(tmp_path / "8.png")
    wide = ((np.asarray(image).astype(np.uint16) << 8) + low).astype(f"{order}u2")
    mode = "I;16" if order == "<" else "I;16B"
    if name == "16.pgm":  # Pillow 10 does not write it
        (tmp_path / name).write_bytes(b"P5 32 32 65535\n" + wide.astype(">u2").tobytes())
    else:
        Image.frombytes(mode, (32, 32), wide.tobytes()).save(tmp_path / name)
    with Image.open(tmp_path / name) as reread:
        assert reread.mode in modes
    narrow, taken = (
        read_image(tmp_path / file, "x", shape, np.dtype(np.uint8), PixelScaling()) for file in ("8.png", name)
    )
    np.testing.assert_array_equal(taken, narrow)
    narrow, taken = (classify.read_photo(tmp_path / file) for file in ("8.png", name))
    np.testing.assert_array_equal(taken, narrow)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_of_no_known_range_are_refused(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "wide.tif"
    Image.new(mode, (4, 4)).save(path)
    message = f"{path}: its pixels are of mode {mode}, of which nothing tells black and white"
    with pytest.raises(dmlcpu.DmlError, match=re.escape(message)):
        read_image(path, "x", (1, 4, 4, 3), np.dtype(np.uint8), PixelScaling())
    with pytest.raises(ValueError, match=f"of mode {mode}, of which nothing tells black and white"):
        classify.read_photo(path)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_lie_as_their_exif_orientation_says(
    random_numbers: np.random.Generator, tmp_path: Path, orientation: int
) -> None:
    pixels = random_numbers.integers(0, 256, (5, 9), np.uint8)
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = orientation
    image.save(tmp_path / "turned.png", exif=exif)
    upright = [
        pixels,
        pixels[:, ::-1],
        pixels[::-1, ::-1],
        pixels[::-1],
        pixels.T,
        np.rot90(pixels, -1),
        pixels[::-1, ::-1].T,
        np.rot90(pixels),
    ][orientation - 1]
    array = read_image(tmp_path / "turned.png", "x", (1, None, None, 1), np.dtype(np.uint8), PixelScaling())
    np.testing.assert_array_equal(array[0, :, :, 0], upright)


@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0XX*\0\0\0\0\0"])
def test_images_lie_as_they_are_where_exif_is_damaged(
    random_numbers: np.random.Generator, tmp_path: Path, exif: bytes
) -> None:
    image = gray_image(random_numbers)
    image.save(tmp_path / "damaged.png", exif=exif)
    array = read_image(tmp_path / "damaged.png", "x", (32, 32, 1), np.dtype(np.uint8), PixelScaling())
    np.testing.assert_array_equal(array[:, :, 0], np.asarray(image))
    image.save(tmp_path / "whole.png")
    whole, taken = (classify.read_photo(tmp_path / file) for file in ("whole.png", "damaged.png"))
    np.testing.assert_array_equal(taken, whole)
