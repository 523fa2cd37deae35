"""Images as inputs of models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlcpu.cli.failures import needed_module
from dmlcpu.errors import BindingError, DmlError
from dmlcpu.shown_values import counted

__all__ = ["PixelScaling", "read_image"]


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """How the images of an input lie.

    Attributes:
        channel_axis: 1 or 3 of four axes, 0 or 2 of three.
        channels: 1 or 3.
        height, width: None where the model leaves them free.
    """

    channel_axis: int
    channels: int
    height: int | None
    width: int | None


def image_layout(shape: Sequence[int | str | None]) -> ImageLayout | None:
    """Find the axis of the channels: the first or last one of an image that is 1 or 3 long. None if neither is.

    >>> image_layout(["batch", 3, 224, 224])
    ImageLayout(channel_axis=1, channels=3, height=224, width=224)
    >>> image_layout([1, 59, 49, 1])
    ImageLayout(channel_axis=3, channels=1, height=59, width=49)
    """
    if len(shape) not in (3, 4):
        return None
    first = len(shape) - 3
    for axis, (row, column) in ((first, (first + 1, first + 2)), (first + 2, (first, first + 1))):
        channels = shape[axis]
        if channels in (1, 3):
            height, width = (length if isinstance(length, int) else None for length in (shape[row], shape[column]))
            return ImageLayout(axis, int(channels), height, width)
    return None


@dataclass(frozen=True, slots=True)
class PixelScaling:
    """From pixels to floats: ``(pixel * scale - mean) / std``; mean and std have 1 element or one a channel."""

    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @classmethod
    def parsed(cls, scale: float, mean: str, std: str) -> PixelScaling:
        """Return what options say.

        Raises:
            DmlError: They are no numbers.

        >>> PixelScaling.parsed(1.0, "127.5", "58,57,57")
        PixelScaling(scale=1.0, mean=(127.5,), std=(58.0, 57.0, 57.0))
        """
        if not math.isfinite(scale):
            raise DmlError(f"--scale: got {scale}, expected a finite number")
        return cls(scale, _numbers("--mean", mean), _numbers("--std", std))

    def scaled(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Scale pixels {row, column, channel}.

        Raises:
            DmlError: There are not as many means or deviations as channels.
        """
        for option, numbers in (("--mean", self.mean), ("--std", self.std)):
            if len(numbers) not in (1, pixels.shape[-1]):
                given, channels = counted(len(numbers), "number"), counted(pixels.shape[-1], "channel")
                raise DmlError(f"{option} has {given}, the image {channels}")
        if 0 in self.std:
            raise DmlError("--std has a 0")
        return np.asarray((pixels * self.scale - np.asarray(self.mean)) / np.asarray(self.std), np.float64)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise DmlError(f"{option}: got {text!r}, expected finite numbers with commas between them")
    return numbers


def read_image(
    path: Path, name: str, shape: Sequence[int | str | None], dtype: np.dtype[Any], scaling: PixelScaling
) -> NDArray[Any]:
    """Return an image file as an input of a model: resized to its size, in its layout and type.

    UINT8 inputs get pixels, INT8 ones pixels less 128, floating-point ones scaled pixels. Images lie as their EXIF
    orientation says, if it can be read; of 16-bit pixels the upper 8 count.

    Args:
        path: The file.
        name, shape, dtype: Of the input. Free lengths are the image's own.
        scaling: Of pixels, for floating-point inputs.

    Raises:
        BindingError: The input is none for images, or one of codes, which are not scaled.
        DmlError: The file is no image, or one whose pixels have no known range.
        ImportError: Pillow is not installed.
        OSError: The file cannot be read.
    """
    layout = image_layout(shape)
    if layout is None:
        raise BindingError(f"input {name!r}: its shape {tuple(shape)} is none of images of 1 or 3 channels", name)
    if dtype.kind != "f" and scaling != PixelScaling():
        message = f"--scale, --mean and --std are for inputs of floats, and this one takes {dtype}"
        raise BindingError(f"input {name!r}: {message}", name)
    pixels = _pixels(path, layout)
    if dtype == np.uint8:
        array: NDArray[Any] = pixels
    elif dtype == np.int8:
        array = (pixels ^ 128).view(np.int8)  # less 128
    elif dtype.kind == "f":
        array = scaling.scaled(pixels).astype(dtype)
    else:
        raise BindingError(f"input {name!r}: images become uint8, int8 or floats, not {dtype}", name)
    if layout.channel_axis == len(shape) - 3:
        array = array.transpose(2, 0, 1)
    return np.ascontiguousarray(array[np.newaxis] if len(shape) == 4 else array)


def _pixels(path: Path, layout: ImageLayout) -> NDArray[np.uint8]:
    """Return pixels {row, column, channel}, upright."""
    pillow = needed_module("PIL.Image", "dmlcpu[cli]", f"{path} is read with Pillow")
    operations = needed_module("PIL.ImageOps", "dmlcpu[cli]", f"{path} is read with Pillow")
    try:
        with pillow.open(path) as image:
            upright = _turned(image, operations)
            if _has_16_bits(upright.mode, image.format):  # convert() clips what is above 255
                upright = pillow.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
            elif upright.mode in ("I", "F"):
                raise DmlError(f"{path}: its pixels are of mode {upright.mode}, of which nothing tells black and white")
            converted = upright.convert("RGB" if layout.channels == 3 else "L")
    except Exception as error:  # decoders raise many types on damaged files
        if isinstance(error, DmlError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        told = f"no .npy, .npz or .pb file, and it cannot be read as an image ({type(error).__name__})"
        raise DmlError(f"{path}: {told}") from None
    size = (layout.width or converted.width, layout.height or converted.height)
    resized = converted.resize(size, pillow.Resampling.BILINEAR)
    return np.asarray(resized, np.uint8).reshape(size[1], size[0], layout.channels)


def _turned(image: Any, operations: ModuleType) -> Any:
    """Return an image as its EXIF orientation says, or as it lies where that cannot be read."""
    image.load()  # damaged pixels are an error, damaged EXIF is none
    try:
        return operations.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # of many types
        return image


def _has_16_bits(mode: str, file_format: str | None) -> bool:
    """Return whether pixels have 16 bits: PGM's, and PNG's in older versions of Pillow, have the mode of 32."""
    return mode.startswith("I;16") or (mode == "I" and file_format in ("PNG", "PPM"))
