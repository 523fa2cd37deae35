"""Windows of FLOAT_POOLING: attributes that tests change, and the output that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["ATTRIBUTES", "FUNCTIONS", "Attributes", "output_sizes", "planes_apart"]

Attributes = Mapping[str, Sequence[int]]

ATTRIBUTES: Attributes = {
    "function": (0,),
    "include_padding": (0,),
    "strides": (2, 2),
    "dilations": (1, 1),
    "window_size": (3, 2),
    "start_padding": (1, 0),
    "end_padding": (1, 0),
}

# Function and include_padding. Padding counts where a sum is divided, by averages alone: of a sum's plan it is always
# set, and plans of extremes read it nowhere.
FUNCTIONS = ((0, 0), (0, 1), (1, 0), (2, 1), (3, 0))


def output_sizes(sizes: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    names = ("window_size", "strides", "dilations", "start_padding", "end_padding")
    numbers = zip(sizes[2:], *(attributes[name] for name in names), strict=True)
    spatial = ((size + start + end - (w - 1) * d - 1) // step + 1 for size, w, step, d, start, end in numbers)
    return (*sizes[:2], *spatial)


def planes_apart(sizes: tuple[int, ...], gap: int) -> tuple[int, ...]:
    """The strides of planes with a gap behind each, and one of the columns in a row of {N, C, H, W}."""
    _, channels, rows, columns = sizes
    plane = rows * columns + gap
    return (channels * plane, plane, columns, 1)
