"""What the messages of refusals say, where they are to lead a newcomer to the right call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu

IMAGE = np.zeros((1, 2, 4, 4), np.uint8)
FILTER = np.zeros((3, 2, 2, 2), np.int8)


def convolved(**changes: Any) -> Any:
    arguments: dict[str, Any] = {"input": IMAGE, "input_zero_point": 0, "filter": FILTER, "filter_zero_point": 0}
    return dmlcpu.convolution_integer(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"start_padding": (1, 2, 3, 4)},
            "convolution_integer: start_padding: got 4 entries, expected 2, one for each spatial axis of the input, "
            "or one number for all; ONNX's pads are those of start_padding and then those of end_padding",
        ),
        (
            {"strides": (1, 1, 1)},
            "convolution_integer: strides: got 3 entries, expected 2, one for each spatial axis of the input, "
            "or one number for all",
        ),
        (
            {"input": IMAGE[0], "filter": FILTER[0], "dilations": (1, 1)},
            "convolution_integer: dilations: got 2 entries, expected 1, for the input's spatial axis, "
            "or one number for all",
        ),
    ],
)
def test_attributes_have_an_entry_for_each_spatial_axis(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        convolved(**attributes)
    assert str(raised.value) == message
