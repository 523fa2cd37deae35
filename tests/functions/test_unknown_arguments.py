"""Arguments that functions do not have: the message names the one that is likely to be meant."""

from __future__ import annotations

import numpy as np
import pytest

import dmlcpu


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("groups", "; the nearest is 'group_count'"),
        ("group", "; the nearest is 'group_count'"),
        ("stride", "; the nearest is 'strides'"),
        ("dilation", "; the nearest is 'dilations'"),
        ("dtype", "; the nearest is 'output_data_type'"),
        ("pads", "; its arguments are start_padding and end_padding, the halves of ONNX's pads"),
        ("padding", "; its arguments are start_padding and end_padding, the halves of ONNX's pads"),
        ("kernel_shape", "; its arguments are input, input_scale, input_zero_point, filter, "),
    ],
)
def test_of_a_convolution(argument: str, told: str) -> None:
    image, box = np.zeros((1, 1, 4, 4), np.uint8), np.ones((1, 1, 3, 3), np.int8)
    expected = f"quantized_linear_convolution: got an unexpected keyword argument {argument!r}{told}"
    with pytest.raises(TypeError) as raised:
        dmlcpu.quantized_linear_convolution(image, 1.0, 0, box, 1.0, 0, None, 1.0, 0, **{argument: 1})  # type: ignore[arg-type]
    assert str(raised.value).startswith(expected)


def test_of_other_functions() -> None:
    with pytest.raises(TypeError, match=r"'kernel_shape'; the nearest is 'window_size'$"):
        dmlcpu.quantized_linear_average_pooling(np.zeros((1, 1, 4, 4), np.uint8), 1.0, 0, 1.0, 0, kernel_shape=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'pads'; its arguments are input, scale, zero_point, axis, out, "):
        dmlcpu.quantize_linear(np.float32([1]), 0.5, pads=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"missing a required argument: 'scale'$"):
        dmlcpu.quantize_linear(np.float32([1]))  # type: ignore[call-arg]
