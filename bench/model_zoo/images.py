"""What networks are calibrated and compared on: crops of photographs that a package ships, and lines of text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.model_zoo.packages import MissingPackageError, file_of

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "centred",
    "imagenet",
    "nsfw",
    "page_crops",
    "photograph_crops",
    "text_detector",
    "text_lines",
    "text_reader",
]

Floats = NDArray[np.float32]

_PHOTOGRAPHS = (
    "astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "motorcycle_right.png",
    "hubble_deep_field.jpg", "ihc.png", "retina.jpg", "coins.png",
)  # fmt: skip
_PAGES = ("page.png", "text.png")
_WORDS = (
    "eight", "bit", "integers", "run", "through", "vector", "units", "invoice", "total", "1,299.00", "EUR", "latency",
    "2048", "kernels", "3.14", "GHz", "model", "server", "request", "42", "quantized", "linear", "convolution",
)  # fmt: skip
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


@cache
def _photographs(names: tuple[str, ...]) -> tuple[Image, ...]:
    """Return photographs of scikit-image, or where it is not installed coloured noise of several sizes."""
    from PIL import Image

    try:
        paths = [file_of("skimage", "scikit-image", f"data/{name}") for name in names]
    except MissingPackageError:
        return tuple(_noise(seed) for seed in range(len(names)))
    return tuple(Image.open(path).convert("RGB") for path in paths)


def _noise(seed: int) -> Image:
    from PIL import Image

    random = np.random.default_rng(seed)
    total = np.zeros((384, 512, 3), np.float32)
    for cells in (3, 8, 24, 96):
        coarse = random.integers(0, 256, (cells, cells, 3), np.uint8)
        total += np.asarray(Image.fromarray(coarse).resize((512, 384), Image.Resampling.BICUBIC), np.float32)
    return Image.fromarray((total / 4).astype(np.uint8))


def photograph_crops(count: int, seed: int) -> list[Image]:
    """Return square crops of photographs, at least half as large as the photograph."""
    return _crops(_PHOTOGRAPHS, count, seed)


def page_crops(count: int, seed: int) -> list[Image]:
    """Return square crops of pages of text, and some of photographs."""
    return _crops((*_PAGES, *_PAGES, *_PAGES, *_PHOTOGRAPHS[:3]), count, seed)


def _crops(names: tuple[str, ...], count: int, seed: int) -> list[Image]:
    random = np.random.default_rng(seed)
    images = _photographs(names)
    crops = []
    for index in range(count):
        image = images[index % len(images)]
        side = int(min(image.size) * random.uniform(0.5, 1))
        left, top = (int(random.integers(0, length - side + 1)) for length in image.size)
        crops.append(image.crop((left, top, left + side, top + side)))
    return crops


def text_lines(count: int, seed: int) -> list[Image]:
    """Return lines of a few words each, dark on light, with some noise."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        words = " ".join(random.choice(_WORDS, random.integers(2, 5)))
        font = ImageFont.load_default(int(random.integers(24, 36)))
        right, bottom = (int(length) for length in font.getbbox(words)[2:])
        paper, ink = int(random.integers(170, 256)), int(random.integers(0, 80))
        line = Image.new("RGB", (right + 16, bottom + 14), (paper,) * 3)
        ImageDraw.Draw(line).text((8, 5), words, font=font, fill=(ink,) * 3)
        noisy = np.asarray(line, np.float32) + random.normal(0, 6, (*line.size[::-1], 1))
        lines.append(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)))
    return lines


def centred(image: Image, side: int) -> Floats:
    """Return the square in the middle of an image, scaled: {side, side, 3}, 0 to 255."""
    from PIL import Image as Images

    width, height = image.size
    square = min(width, height)
    left, top = (width - square) // 2, (height - square) // 2
    cropped = image.crop((left, top, left + square, top + square))
    return np.asarray(cropped.resize((side, side), Images.Resampling.BICUBIC), np.float32)


def imagenet(image: Image) -> Floats:
    """As classifiers of ImageNet read images: {3, 224, 224}."""
    return _planes((centred(image, 224) / 255 - _MEAN) / _DEVIATION)


def nsfw(image: Image) -> Floats:
    """As open_nsfw reads images: {224, 224, 3}, blue first."""
    return np.ascontiguousarray(centred(image, 224)[:, :, ::-1] - np.array([104, 117, 123], np.float32))


def text_detector(image: Image) -> Floats:
    """As PP-OCR's detector reads pages: {3, 320, 480}."""
    from PIL import Image as Images

    pixels = np.asarray(image.resize((480, 320), Images.Resampling.BICUBIC), np.float32)
    return _planes(pixels / 127.5 - 1)


def text_reader(image: Image) -> Floats:
    """As PP-OCR's reader reads lines: {3, 48, 320}, blue first, the rest of the line grey."""
    from PIL import Image as Images

    width = min(320, max(16, round(image.width * 48 / image.height)))
    line = np.zeros((48, 320, 3), np.float32)
    line[:, :width] = np.asarray(image.resize((width, 48), Images.Resampling.BILINEAR), np.float32) / 127.5 - 1
    return _planes(line[:, :, ::-1])


def _planes(pixels: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)


Images = Callable[[int, int], "list[Image]"]
"""Makes images: how many, and with which seed."""
