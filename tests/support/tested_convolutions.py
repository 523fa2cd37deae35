"""The convolutions that tests go through: at the ends of tiles, strips and blocks of every path, and random ones."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from convolution_shapes import ConvolutionShape

__all__ = [
    "depthwise_shapes",
    "edge_shapes",
    "few_channel_shapes",
    "grouped_shapes",
    "planar_depthwise_shapes",
    "planar_shapes",
    "random_shapes",
    "repeated_channel_shapes",
    "window_shapes",
    "winograd_shapes",
]

EDGE_CHANNELS = (1, 3, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65)
EDGE_PIXELS = (1, 5, 7, 15, 16, 17, 33)


def square(kernel: int) -> dict[str, Any]:
    """A kernel and the padding that keeps the size."""
    half = (kernel // 2, kernel // 2)
    return {"kernel": (kernel, kernel), "start_padding": half, "end_padding": half}


def planar_shapes() -> list[ConvolutionShape]:
    """Pointwise ones, around the pixels and the channels of a panel, an area, a step and a tile of planes."""
    shapes = [ConvolutionShape(channels, 33, (5, 13), (1, 1)) for channels in EDGE_CHANNELS if channels != 1]
    shapes += [ConvolutionShape(7, channels, (8, 8), (1, 1), batch=2) for channels in EDGE_CHANNELS if channels > 4]
    shapes += [ConvolutionShape(47, 48, (pixels,), (1,)) for pixels in (32, 33, 63, 64, 65, 79, 81, 97, 129)]
    # Several tiles of an image, and rows and panels whose distance would be a multiple of some lines.
    return [
        *shapes,
        ConvolutionShape(1024, 40, (25, 25), (1, 1)),
        ConvolutionShape(256, 70, (50, 45), (1, 1), batch=3),
        ConvolutionShape(2048, 2064, (7, 7), (1, 1)),
    ]


def planar_depthwise_shapes() -> list[ConvolutionShape]:
    """Depthwise ones, around the channels and the outputs of a block, of one row of outputs and of several."""
    three, five = square(3), square(5)
    shapes = [ConvolutionShape(1, 1, (8, 11), groups=channels, **three) for channels in (2, 3, 4, 5, 15, 16, 17, 35)]
    shapes += [ConvolutionShape(1, 1, (9, width), groups=40, strides=(2, 2), **three) for width in (13, 14, 31, 33, 97)]
    # Rows that go down an image, with more steps than a block has and with fewer than outputs wait, and such as do not.
    small, tall = [(7, 7), (40, 3), (100, 1), (1, 3), (2, 6)], [(14, 16), (16, 14), (17, 16), (18, 32), (33, 64)]
    shapes += [ConvolutionShape(1, 1, size, groups=9, **three) for size in small + tall]
    shapes += [ConvolutionShape(1, 1, size, groups=6, **five) for size in small + tall]
    two = {"groups": 7, "strides": (2, 2)}
    shapes += [
        ConvolutionShape(1, 1, size, **two, **window) for size in ((63, 31), (64, 64)) for window in (three, five)
    ]
    far = {"start_padding": (16, 16), "end_padding": (16, 16)}
    shapes += [
        ConvolutionShape(1, 1, (2, 2), (3, 3), groups=5, **far),
        ConvolutionShape(1, 1, (1, 2), (5, 5), groups=5, **far),
        ConvolutionShape(1, 1, (4, 64), groups=6, **five),
        ConvolutionShape(1, 1, (40, 64), groups=6, strides=(1, 5), **three),
        ConvolutionShape(1, 1, (70, 16), groups=6, strides=(4, 1), dilations=(2, 1), **five),
        ConvolutionShape(1, 1, (23, 19), groups=7, strides=(2, 1), dilations=(2, 3), **three),
    ]
    # Rows of outputs that are too far apart for one load, and images of few channels, which threads cut.
    return [
        *shapes,
        ConvolutionShape(1, 1, (8, 9), groups=33, **three),
        ConvolutionShape(1, 1, (130, 70), groups=8, batch=2, **five),
        ConvolutionShape(1, 1, (12, 20), groups=34, batch=3, strides=(2, 1), **five),
        ConvolutionShape(1, 1, (20, 60), (3, 4), groups=6, dilations=(3, 15), strides=(1, 3)),
        ConvolutionShape(1, 1, (3, 3), (3, 3), groups=5, start_padding=(7, 9), end_padding=(8, 30)),
    ]


def edge_shapes() -> list[ConvolutionShape]:
    shapes = []
    for size in (1, 3):
        same = square(size)
        for channels in EDGE_CHANNELS:
            shapes.append(ConvolutionShape(channels, 33, (3, 5), **same))
            shapes.append(ConvolutionShape(16, channels, (3, 5), **same))
        shapes += [ConvolutionShape(17, 16, (3, pixels), **same) for pixels in EDGE_PIXELS]
        shapes += [ConvolutionShape(4, 17, (pixels, 2), batch=2, **same) for pixels in EDGE_PIXELS]
    three, around = square(3), {"start_padding": (1, 1), "end_padding": (1, 1)}
    for channels in EDGE_CHANNELS:
        shapes.append(ConvolutionShape(1, 1, (5, 7), groups=channels, **three))
    shapes += [ConvolutionShape(1, 2, (6, 17), groups=17, strides=(2, 2), **three)]
    shapes += [ConvolutionShape(5, 3, (4, 17), groups=3, dilations=(2, 1), **three)]
    shapes += [
        ConvolutionShape(3, 64, (15, 17), (7, 7), strides=(2, 2), start_padding=(3, 3), end_padding=(3, 3)),
        ConvolutionShape(3, 8, (2, 3), (3, 3), start_padding=(5, 7), end_padding=(6, 4)),
        ConvolutionShape(3, 8, (2, 3), (2, 2), strides=(3, 2), start_padding=(4, 0), end_padding=(0, 9)),
        ConvolutionShape(5, 6, (9, 8), (3, 2), batch=3, dilations=(2, 3), start_padding=(2, 0), end_padding=(0, 3)),
        ConvolutionShape(64, 16, (7, 7), (1, 1), strides=(2, 2)),
        # Output rows too short for tiles: gathered, to be one run.
        ConvolutionShape(64, 256, (9, 7), (1, 1), batch=2, strides=(2, 2)),
        ConvolutionShape(512, 5, (3, 3), (3, 3)),
        # Read in place although the last step of k reaches into the next pixels, and behind the last one into none.
        *(ConvolutionShape(channels, 7, (257,), (1,)) for channels in (1, 3, 5, 24)),
        ConvolutionShape(3, 5, (11, 13), (1, 1), groups=2, batch=3),
        # Gathered as whole pixels, in several tiles and of several images, or a group at a time.
        *(ConvolutionShape(channels, 7, (9, 61), (1, 1)) for channels in (3, 5, 58, 67)),
        *(ConvolutionShape(4, 9, (3, 35), (1, 1), groups=groups, batch=3) for groups in (2, 256, 257)),
        # Tiles that copy what they read, of several images; rows of the output longer than tiles.
        ConvolutionShape(128, 3, (40, 40), batch=3, **three),
        ConvolutionShape(128, 3, (70, 70), batch=2, **three),
        ConvolutionShape(64, 5, (131, 131), strides=(2, 2), **three),
        ConvolutionShape(64, 3, (90, 90), (3, 2), dilations=(2, 2), start_padding=(2, 2), end_padding=(2, 0)),
        ConvolutionShape(16, 4, (70, 600), **three),
        ConvolutionShape(32, 3, (70, 140), groups=2, **three),
        ConvolutionShape(32, 1, (370, 370), (2, 1), start_padding=(1, 0)),
        ConvolutionShape(32, 40, (3, 1000), **three),
        # More images than are copied at a time, since tiles would have much in common; pixels, and windows' rows.
        *(
            ConvolutionShape(channels, outputs, (90, 250), (3, 2), batch=3, dilations=(12, 1), **around)
            for channels, outputs in ((64, 1), (16, 40))
        ),
        # Pixels of a copy that are whole steps apart, in bands of rows, too.
        *(ConvolutionShape(channels, 33, (6, 19), **three) for channels in (24, 32, 40, 48, 72, 96, 160)),
        ConvolutionShape(32, 16, (9, 11), strides=(2, 1), dilations=(1, 2), batch=2, **three),
        ConvolutionShape(40, 8, (12, 9), batch=3, **square(5)),
        ConvolutionShape(480, 20, (3, 19), (1, 3), start_padding=(0, 1), end_padding=(0, 1)),
        ConvolutionShape(32, 3, (90, 100), **three),
    ]
    shapes += window_row_shapes()
    shapes += [ConvolutionShape(17, 33, (1, 1), (1, 1), batch=pixels) for pixels in EDGE_PIXELS]
    # More pixels and channels than one tile and one block hold.
    shapes.append(ConvolutionShape(20, 150, (17, 19), **three))
    for pixels in EDGE_PIXELS:
        shapes.append(ConvolutionShape(7, 9, (pixels,), (3,), batch=2, start_padding=(1, 0), end_padding=(1, 0)))
    return shapes


def window_row_shapes() -> list[ConvolutionShape]:
    """Copies in which each window has its own rows: one, several together, the last of them too many, or all.

    And such without gaps, whose windows begin at cache lines, or every second one amid them.
    """
    same = {"start_padding": (2, 1), "end_padding": (1, 2)}
    return [
        *(ConvolutionShape(channels, 33, (6, 19), **square(3)) for channels in (7, 8, 16, 20, 21, 22, 42, 43, 80)),
        ConvolutionShape(16, 40, (7, 9), batch=3, dilations=(2, 1), **square(3)),
        ConvolutionShape(16, 40, (9, 14), strides=(2, 1), **square(3)),
        ConvolutionShape(16, 40, (9, 14), strides=(1, 2), **square(3)),
        ConvolutionShape(24, 70, (13, 15), (4, 3), strides=(3, 3), batch=2, **same),
        *(ConvolutionShape(3, 64, (size, 23), (5, 6), strides=(2, 2), **same) for size in (11, 12)),
        *(ConvolutionShape(3, 64, (19, 21), (9, size), **same) for size in (7, 9)),
        ConvolutionShape(3, 64, (35, 31), (11, 11), strides=(4, 4), batch=2),
        ConvolutionShape(3, 100, (32, 48), (16, 16), strides=(16, 16)),
        ConvolutionShape(8, 64, (6, 7), (5, 5), start_padding=(7, 7), end_padding=(6, 9)),
        ConvolutionShape(16, 33, (90, 100), **square(3)),  # some rows at a time
        *(ConvolutionShape(channels, 40, (23, size), **square(3)) for channels in (32, 96) for size in (23, 24)),
        ConvolutionShape(32, 70, (27, 300), (2, 3), batch=2, dilations=(2, 1), **same),
        ConvolutionShape(32, 40, (19, 46), strides=(2, 2), batch=2, **square(3)),
        ConvolutionShape(32, 20, (25, 25), **square(5)),
        ConvolutionShape(16, 70, (51, 50), strides=(2, 2), **square(3)),
        ConvolutionShape(3, 64, (200, 210), (7, 7), strides=(2, 2), start_padding=(3, 3), end_padding=(3, 3)),
    ]


def depthwise_shapes() -> list[ConvolutionShape]:
    """Windows of one to several groups of four taps, in one row, one column or both; strips and bands of outputs."""
    shapes = []
    for kernel in ((1, 1), (1, 3), (1, 9), (3, 1), (9, 1), (2, 2), (4, 4), (5, 5), (6, 3), (7, 7)):
        before, after = (kernel[0] // 2, kernel[1] // 2), ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
        shapes.append(ConvolutionShape(1, 1, (9, 21), kernel, groups=18, start_padding=before, end_padding=after))
        for steps in ((2, 2), (1, 3), (3, 1)):
            padding: dict[str, Any] = {"start_padding": (4, 2), "end_padding": (5, 7)}
            shapes.append(ConvolutionShape(1, 1, (7, 16), kernel, groups=5, batch=2, strides=steps, **padding))
            shapes.append(ConvolutionShape(1, 1, (16, 17), kernel, groups=3, strides=steps, dilations=(1, 1)))
        shapes.append(ConvolutionShape(1, 1, (20, 26), kernel, groups=17, dilations=(2, 3)))
        shapes.append(ConvolutionShape(1, 1, (20, 27), kernel, groups=17, dilations=(2, 3), strides=(2, 2)))
    same = {"start_padding": (1, 1), "end_padding": (2, 1)}
    shapes += [ConvolutionShape(1, 1, (35, 130), (3, 4), groups=70, start_padding=(1, 1), end_padding=(1, 2))]
    shapes += [ConvolutionShape(1, 1, (37, 133), (4, 3), groups=65, strides=(2, 2), **same)]
    # Pairs of rows and columns in groups of four: even and odd kernels, rows beyond the image, strips of a few columns.
    for kernel in ((5, 6), (6, 6), (7, 4), (5, 2), (8, 3)):
        pairs: dict[str, Any] = {"kernel": kernel, "strides": (2, 2), "start_padding": (2, 1), "end_padding": (3, 6)}
        shapes += [ConvolutionShape(1, 1, (11, 22), groups=33, batch=2, **pairs)]
        shapes += [
            ConvolutionShape(1, 1, (8, 7), groups=64, **pairs),
            ConvolutionShape(1, 1, (37, 84), groups=90, **pairs),
        ]
    shapes += [ConvolutionShape(1, 1, (1, 1), (2, 2), groups=3, start_padding=(9, 9), end_padding=(8, 8))]
    for kernel_1d in (1, 4, 5, 6, 7, 9):
        shapes.append(ConvolutionShape(1, 1, (19,), (kernel_1d,), groups=18, strides=(2, 9), start_padding=(3, 9)))
    shapes.append(ConvolutionShape(1, 1, (300,), (31,), groups=33, start_padding=(15, 0), end_padding=(15, 0)))
    shapes.append(ConvolutionShape(1, 1, (300,), (11,), groups=65, batch=2, strides=(1, 1), dilations=(7, 1)))
    # Pixels a cache line further apart than their codes, for a row of taps that is too long beside them.
    for steps in (1, 2):
        shapes.append(ConvolutionShape(1, 1, (3, 9), (1, 17), groups=512, strides=(1, steps), start_padding=(0, 8)))
    shapes.append(ConvolutionShape(1, 1, (70,), (33,), groups=256, batch=2, dilations=(2, 1), end_padding=(5, 0)))
    return shapes


def window_shapes() -> list[ConvolutionShape]:
    """Windows of 3x3 and 5x5 taps: blocks of 64, 32 and 16 channels, rows cut into parts and phases, strips, bands."""
    shapes = []
    for kernel in (3, 5):
        window: dict[str, Any] = {"kernel": (kernel, kernel), "end_padding": (kernel // 2, kernel // 2)}
        for groups in (32, 33, 48, 63, 64, 65, 80, 97, 112):
            for steps in ((1, 1), (2, 2)):
                padding = {"start_padding": (kernel // 2, kernel // 2)}
                shapes.append(ConvolutionShape(1, 1, (5, 9), groups=groups, strides=steps, **padding, **window))
        for steps, rows, columns in (((1, 2), 7, 6), ((2, 1), 8, 7), ((1, 3), 5, 9), ((1, 1), 5, 5)):
            shapes.append(ConvolutionShape(1, 1, (rows, columns), groups=50, batch=2, strides=steps, **window))
        for columns in (1, 2, 3, 4):
            padding = {"start_padding": (kernel, kernel - 1)}
            shapes.append(ConvolutionShape(1, 1, (columns, columns), groups=36, **padding, **window))
        shapes.append(ConvolutionShape(1, 1, (9, 8), groups=32, dilations=(2, 1), **window))
        # Columns apart: steps that divide the distance or not, and fewer columns than it.
        for steps, dilations in (((1, 1), (1, 2)), ((2, 2), (2, 2)), ((1, 4), (3, 6)), ((2, 2), (1, 3))):
            padding = {"start_padding": (kernel, 2 * dilations[1] + 1), "end_padding": (2, 3 * dilations[1])}
            attributes: dict[str, Any] = {"strides": steps, "dilations": dilations, **padding}
            shapes.append(ConvolutionShape(1, 1, (13, 11), (kernel, kernel), groups=97, batch=2, **attributes))
            shapes.append(ConvolutionShape(1, 1, (13, 3), (kernel, kernel), groups=48, **attributes))
        shapes.append(ConvolutionShape(1, 1, (37, 300), groups=130, strides=(2, 1), **window))
    return shapes


def repeated_channel_shapes() -> list[ConvolutionShape]:
    """Several output channels of each input channel: around the codes that are repeated one by one, on every window."""
    shapes = []
    for outputs in range(2, 10):
        shapes += [ConvolutionShape(1, outputs, (3, 6), groups=groups, **square(3)) for groups in (2, 7, 8, 9, 33)]
        shapes.append(ConvolutionShape(1, outputs, (5, 1), (5, 1), batch=3, groups=11))
    for kernel in ((1, 1), (2, 3), (5, 5), (7, 7)):
        attributes: dict[str, Any] = {"kernel": kernel, "start_padding": (1, 2), "end_padding": (2, 1)}
        shapes.append(ConvolutionShape(1, 2, (9, 21), groups=17, batch=2, strides=(2, 1), **attributes))
        shapes.append(ConvolutionShape(1, 3, (20, 13), groups=40, dilations=(2, 2), **attributes))
    shapes.append(ConvolutionShape(1, 4, (90,), (9,), groups=20, batch=2, start_padding=(4, 0), end_padding=(4, 0)))
    # More images than are copied at a time.
    shapes.append(ConvolutionShape(1, 2, (60, 50), groups=150, batch=3, strides=(2, 2), **square(3)))
    return shapes


def few_channel_shapes() -> list[ConvolutionShape]:
    """Up to eight output channels: parts of vectors of pixels and of groups of channels, windows, strips and bands."""
    shapes = []
    same = square(3)
    for outputs in range(1, 10):
        shapes.append(ConvolutionShape(5, outputs, (3, 29 + outputs), **same))
        shapes.append(ConvolutionShape(8, outputs, (5, 7), (1, 1), batch=2))
    for channels in (1, 2, 3, 4, 6, 65):
        shapes.append(ConvolutionShape(channels, 3, (4, 40), batch=2, **same))
        shapes.append(ConvolutionShape(channels, 2, (19, 70), (2, 5), strides=(3, 1), end_padding=(1, 4)))
        shapes.append(ConvolutionShape(channels, 1, (9, 44), (3, 3), dilations=(2, 5), start_padding=(7, 3)))
    shapes += [
        ConvolutionShape(4, 2, (2, 3), (3, 3), start_padding=(30, 40), end_padding=(1, 35)),
        ConvolutionShape(700, 3, (2, 500), **same),
        ConvolutionShape(300, 5, (40, 50), (1, 1)),
        ConvolutionShape(7, 4, (301,), (9,), start_padding=(4, 0), end_padding=(4, 0)),
    ]
    return shapes


def grouped_shapes() -> list[ConvolutionShape]:
    """Groups of 4, 8 and 16 channels: around the blocks of vectors, on every step and window, in strips and bands."""
    shapes = []
    same = square(3)
    for channels in (4, 8, 16):
        for groups in sorted({lanes * 4 // channels for lanes in (4, 6, 8, 10, 12, 16, 20, 32, 36, 52)} - {0}):
            shapes.append(ConvolutionShape(channels, channels, (3, 7), groups=groups, **same))
        # Pixels that share lanes: whole ones, some more, and fewer than are joined.
        for groups, columns in itertools.product((1, 2, 3, 5, 6), (1, 5, 8, 21)):
            shapes.append(ConvolutionShape(channels, channels, (2, columns), groups=groups, **same))
        groups = 144 // channels
        for pixels in (1, 2, 3, 4, 5, 6, 8):
            shapes.append(ConvolutionShape(channels, channels, (2, pixels), batch=2, groups=groups, **same))
        for kernel in ((1, 1), (1, 5), (4, 1), (2, 2), (5, 4)):
            sizes: dict[str, Any] = {"groups": groups, "kernel": kernel}
            shapes.append(ConvolutionShape(channels, channels, (13, 15), strides=(2, 3), **sizes))
            shapes.append(ConvolutionShape(channels, channels, (13, 14), dilations=(3, 2), batch=2, **sizes))
            shapes.append(
                ConvolutionShape(channels, channels, (6, 9), start_padding=(4, 0), end_padding=(1, 5), **sizes)
            )
        padding: dict[str, Any] = {"start_padding": (9, 8), "end_padding": (8, 9)}
        shapes.append(ConvolutionShape(channels, channels, (1, 2), (3, 3), groups=groups, strides=(2, 2), **padding))
        for kernel_1d in (1, 3, 6):
            one_dimension: dict[str, Any] = {"strides": (2, 9), "start_padding": (3, 9)}
            shapes.append(ConvolutionShape(channels, channels, (19,), (kernel_1d,), groups=groups, **one_dimension))
        shapes.append(ConvolutionShape(channels, channels, (6, 90), groups=512 // channels, **same))
    return shapes


def winograd_shapes() -> list[ConvolutionShape]:
    """Windows of 3x3 that become tiles of 4x4 outputs: every rest of rows and columns, parts of channels, blocks."""
    same = square(3)
    shapes = [
        ConvolutionShape(channels, 16, (9, 10), **same)
        for channels in (16, 20, 32, 36, 48, 72, 80, 112, 116, 128, 224, 228, 240, 464)  # 112, 224: the most in a part
    ]
    # Channels that are no whole group of the kernels.
    shapes += [ConvolutionShape(channels, 17, (9, 10), **same) for channels in (33, 49, 66, 79, 111, 225, 453)]
    shapes += [ConvolutionShape(32, channels, (8, 12), **same) for channels in (15, 17, 31, 33, 48, 65)]
    for rows, columns in ((6, 6), (10, 9), (9, 10), (6, 70)):
        shapes.append(ConvolutionShape(64, 32, (rows, columns), (3, 3), batch=2))
        shapes.append(ConvolutionShape(64, 32, (rows, columns), (3, 3), start_padding=(5, 0), end_padding=(1, 6)))
    # Large enough for AVX-512 to gain, in one part of the channels and in several, and for blocks of rows.
    shapes += [ConvolutionShape(96, 97, (rows, columns), (3, 3)) for rows, columns in ((27, 29), (28, 31), (29, 30))]
    shapes += [
        ConvolutionShape(128, 96, (29, 30), **same),
        ConvolutionShape(240, 64, (27, 31), **same),
        ConvolutionShape(76, 60, (28, 29), **same),
        ConvolutionShape(109, 64, (28, 29), batch=2, **same),
        ConvolutionShape(237, 60, (27, 31), **same),
        # Groups, of panels in part, whose pixels are copied as a whole or by groups.
        ConvolutionShape(24, 20, (13, 15), groups=3, batch=2, **same),
        ConvolutionShape(32, 40, (9, 18), groups=2, **same),
        ConvolutionShape(116, 17, (14, 10), groups=2, **same),
        ConvolutionShape(64, 97, (28, 30), groups=3, **same),
        ConvolutionShape(76, 40, (28, 15), groups=4, **same),
        ConvolutionShape(224, 64, (61, 60), **same),
        ConvolutionShape(240, 128, (13, 15), batch=6, **same),
        # Two threads divide the panels, the last of which is a part of one; the first also where products are fast.
        ConvolutionShape(96, 121, (20, 20), **same),
        ConvolutionShape(256, 249, (14, 15), **same),
    ]
    return shapes + dilated_winograd_shapes()


def dilated_winograd_shapes() -> list[ConvolutionShape]:
    """Those whose tiles have outputs that are apart: of phases of one length and of two, along each axis and both."""
    shapes = []
    for dilations, size in (
        ((2, 2), (16, 17)),
        ((1, 2), (8, 13)),
        ((3, 1), (22, 8)),
        ((2, 3), (15, 34)),
        ((5, 4), (38, 33)),
    ):
        same: dict[str, Any] = {"dilations": dilations, "start_padding": dilations, "end_padding": dilations}
        shapes.append(ConvolutionShape(64, 33, size, (3, 3), batch=2, **same))
        shapes.append(ConvolutionShape(240, 16, size, (3, 3), **same))
    two: dict[str, Any] = {"kernel": (3, 3), "dilations": (2, 2)}
    return [
        *shapes,
        ConvolutionShape(64, 32, (20, 28), **two),
        ConvolutionShape(64, 32, (27, 24), start_padding=(5, 0), end_padding=(0, 6), **two),
        ConvolutionShape(32, 40, (16, 30), groups=2, start_padding=(2, 2), end_padding=(2, 2), **two),
        # Large enough for AVX-512 to gain, in blocks of rows, and in parts of the panels.
        ConvolutionShape(96, 97, (61, 60), batch=2, **two),
        ConvolutionShape(240, 64, (57, 62), **two),
        ConvolutionShape(128, 249, (24, 26), start_padding=(2, 2), end_padding=(2, 2), **two),
    ]


@st.composite
def random_shapes(draw: st.DrawFn) -> ConvolutionShape:
    """Made from the output's sizes, so that every draw is a convolution."""
    axes = draw(st.sampled_from((1, 2, 2, 2)))
    lengths: dict[str, list[int]] = {"input": [], "kernel": [], "strides": [], "dilations": []}
    start_padding, end_padding = [], []
    for _ in range(axes):
        kernel, stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        output, rest = draw(st.integers(1, 6)), draw(st.integers(0, stride - 1))
        padded = (output - 1) * stride + (kernel - 1) * dilation + 1 + rest
        start = draw(st.integers(0, min(5, padded - 1)))
        end = draw(st.integers(0, min(5, padded - 1 - start)))
        for name, value in zip(lengths, (padded - start - end, kernel, stride, dilation), strict=True):
            lengths[name].append(value)
        start_padding.append(start)
        end_padding.append(end)
    # Entries behind the last spatial axis are ignored; ones that would matter show it if they are not.
    surplus = draw(st.sampled_from(((), (5,))))
    is_depthwise = draw(st.booleans())
    return ConvolutionShape(
        channels_in=1 if is_depthwise else draw(st.integers(1, 20)),
        channels_out=draw(st.integers(1, 2 if is_depthwise else 20)),
        input=tuple(lengths["input"]),
        kernel=tuple(lengths["kernel"]),
        batch=draw(st.integers(1, 3)),
        groups=draw(st.integers(1, 35 if is_depthwise else 3)),
        strides=(*lengths["strides"], *surplus),
        dilations=(*lengths["dilations"], *surplus),
        start_padding=(*start_padding, *surplus),
        end_padding=(*end_padding, *surplus),
    )
