"""The shape files of the measurements read as what they say."""

from __future__ import annotations

import pytest

from bench.shapes import ConvolutionShape, available_shape_files, parse_shape, read_shapes


@pytest.mark.parametrize("name", available_shape_files())
def test_every_shape_reads_back(name: str) -> None:
    shapes = read_shapes(name, 2)
    assert len(set(shapes)) == len(shapes) > 0
    for shape in shapes:
        batch, line = str(shape).split("x", 1)
        assert (batch, parse_shape(line, 2)) == ("2", shape)
        assert min(shape.output_size) >= 1
        assert shape.channels % shape.groups == shape.filters % shape.groups == 0


def test_a_line() -> None:
    shape = parse_shape("64x24x160  96x3x5 s2,1 p1,2 d3 g32", 8)
    assert shape == ConvolutionShape(
        batch=8,
        channels=64,
        size=(24, 160),
        filters=96,
        kernel=(3, 5),
        strides=(2, 1),
        padding=(1, 2),
        dilations=(3, 3),
        groups=32,
    )
    assert shape.output_size == (10, 152)
    assert shape.operations == 2 * 8 * 96 * 10 * 152 * 2 * 3 * 5


@pytest.mark.parametrize("line", ["", "64x56x56", "64x56 64x3x3", "64x56x56 64x3x3 q1", "64x56x56 64x3x3 s"])
def test_what_is_no_convolution_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError, match="expected a line such as"):
        parse_shape(line, 1)


def test_a_network_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="resnet50"):
        read_shapes("resnet", 1)
