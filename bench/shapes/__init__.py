"""Convolutions of networks, one file a network; README.md beside this file tells how a line reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ConvolutionShape", "available_shape_files", "parse_shape", "read_shapes"]

_FOLDER = Path(__file__).parent
_LINE = re.compile(r"(?P<input>\d+x\d+x\d+)\s+(?P<filter>\d+x\d+x\d+)(?P<options>(\s+[spdg]\d+(,\d+)?)*)\s*")


@dataclass(frozen=True)
class ConvolutionShape:
    """One convolution; pairs are (height, width)."""

    batch: int
    channels: int
    size: tuple[int, int]
    filters: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        height, width = (
            (size + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                self.size, self.kernel, self.strides, self.padding, self.dilations, strict=True
            )
        )
        return height, width

    @property
    def operations(self) -> int:
        """Multiplications and additions, those on padding included."""
        terms = self.channels // self.groups * self.kernel[0] * self.kernel[1]
        return 2 * self.batch * self.filters * self.output_size[0] * self.output_size[1] * terms

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is a group of its own."""
        return self.groups == self.channels == self.filters > 1

    def __str__(self) -> str:
        """Return the line that reads as this shape, the batch before it."""
        options = [
            letter + (str(pair[0]) if pair[0] == pair[1] else f"{pair[0]},{pair[1]}")
            for letter, pair, default in (("s", self.strides, 1), ("p", self.padding, 0), ("d", self.dilations, 1))
            if pair != (default, default)
        ]
        options += [f"g{self.groups}"] if self.groups != 1 else []
        sizes = f"{self.batch}x{self.channels}x{self.size[0]}x{self.size[1]}"
        return " ".join([sizes, f"{self.filters}x{self.kernel[0]}x{self.kernel[1]}", *options])


def parse_shape(line: str, batch: int) -> ConvolutionShape:
    """Return the convolution of one line of a shape file.

    Raises:
        ValueError: The line does not read as a convolution.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise ValueError(f"{line!r}: expected a line such as '64x56x56 64x3x3 s2 p1 d1 g1'")
    channels, height, width = map(int, match["input"].split("x"))
    filters, kernel_height, kernel_width = map(int, match["filter"].split("x"))
    options = {"s": (1, 1), "p": (0, 0), "d": (1, 1), "g": (1, 1)}
    for option in match["options"].split():
        numbers = [int(number) for number in option[1:].split(",")]
        options[option[0]] = (numbers[0], numbers[-1])
    return ConvolutionShape(
        batch=batch,
        channels=channels,
        size=(height, width),
        filters=filters,
        kernel=(kernel_height, kernel_width),
        strides=options["s"],
        padding=options["p"],
        dilations=options["d"],
        groups=options["g"][0],
    )


def available_shape_files() -> list[str]:
    """Return the names of the shape files, without their ending."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


def read_shapes(name: str, batch: int) -> list[ConvolutionShape]:
    """Return the convolutions of a shape file, by its name or its path.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line does not read as a convolution.
    """
    path = Path(name) if name.endswith(".txt") else _FOLDER / f"{name}.txt"
    if not path.exists():
        raise FileNotFoundError(f"no shapes named {name!r}; there are {', '.join(available_shape_files())}")
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [parse_shape(line, batch) for line in lines if line]
