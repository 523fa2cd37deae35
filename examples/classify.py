"""Classify photographs with a trained int8 ResNet-8: python examples/classify.py PHOTO...

Prints, for each photograph, the ten classes of CIFAR-10 with their probabilities.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dmlcpu

try:
    from PIL import Image, ImageOps
except ModuleNotFoundError:
    sys.exit("photographs are read with Pillow, which is not installed: pip install '.[examples]'")

FOLDER = Path(__file__).parent / "image_classification"
SAMPLE_PHOTO, MODEL = FOLDER / "chelsea.png", FOLDER / "resnet8_int8.onnx"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SIDE = 32
BAR_WIDTH = 40


def turned(image: Image.Image) -> Image.Image:
    """Return an image as its EXIF orientation says, or as it lies where that cannot be read."""
    try:
        return ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # of many types
        return image.copy()


def read_photo(path: Path) -> NDArray[np.int8]:
    """Return the centre square of a photograph as the network wants it: {1, 32, 32, 3}, each pixel less 128.

    Raises ValueError, with a reason in one line, for a file that cannot be read as an image.
    """
    try:
        with Image.open(path) as image:
            image.load()  # damaged pixels are an error, damaged EXIF is none
            file_format, upright = image.format, turned(image)
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise ValueError(f"cannot be read as an image ({type(error).__name__})") from error
    # PGM's pixels of 16 bits, and PNG's in older versions of Pillow, have the mode of 32.
    if upright.mode.startswith("I;16") or (upright.mode == "I" and file_format in ("PNG", "PPM")):
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))  # convert() clips what is above 255
    elif upright.mode in ("I", "F"):
        raise ValueError(f"has pixels of mode {upright.mode}, of which nothing tells black and white")
    upright = upright.convert("RGB")
    side = min(upright.size)
    left, top = (upright.width - side) // 2, (upright.height - side) // 2
    square = upright.crop((left, top, left + side, top + side))
    pixels = np.asarray(square.resize((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.BOX))
    return (pixels.astype(np.int16) - 128).astype(np.int8)[np.newaxis]


def format_table(probabilities: NDArray[np.float32]) -> str:
    """Return one line for each class, the most probable first; probabilities: {10}, in the order of CLASSES."""
    lines = [f"  {'class':<10}  probability"]
    for index in np.argsort(-probabilities, kind="stable"):
        probability = float(probabilities[index])
        bar = "#" * round(BAR_WIDTH * probability)
        lines.append(f"  {CLASSES[index]:<10}  {probability:11.3f}  {bar}".rstrip())
    return "\n".join(lines)


def main() -> None:
    """Classify the photographs that the command line names, or the sample."""
    parser = argparse.ArgumentParser(description="Classify photographs with a trained int8 ResNet-8.")
    parser.add_argument("photos", nargs="*", type=Path, metavar="PHOTO", help="image file (default: the sample, a cat)")
    photos = parser.parse_args().photos or [SAMPLE_PHOTO]

    images = []
    for photo in photos:
        try:
            images.append(read_photo(photo))
        except ValueError as error:
            parser.exit(2, f"{parser.prog}: {photo}: {error}\n")

    session = dmlcpu.InferenceSession(MODEL)
    (image_input,) = session.get_inputs()
    for photo, image in zip(photos, images, strict=True):
        ((probabilities,),) = session.run(None, {image_input.name: image})
        print(f"{photo}\n\n{format_table(probabilities)}\n")


if __name__ == "__main__":
    main()
