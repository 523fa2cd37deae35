"""`quantized_linear_average_pooling`: every form of an argument, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
import reference
from argument_forms import one_element_forms
from conftest import SEED
from dispatching import assert_equal

INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)

POOLING_WINDOWS = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "include_padding": False}


def pooling(spatial: tuple[int, ...] = (7, 6)) -> dict[str, Any]:
    """3 channels; an input scale and zero point for each."""
    rng = np.random.default_rng(SEED)
    return {
        "input": rng.integers(-128, 128, (2, 3, *spatial), np.int8),
        "input_scale": rng.uniform(0.1, 1, 3).astype(np.float32),
        "input_zero_point": rng.integers(-9, 9, 3, np.int8),
        "output_scale": np.float32(0.75),
        "output_zero_point": np.int8(-7),
    }


def expected_pooling(arguments: dict[str, Any], **windows: Any) -> NDArray[Any]:
    spatial = arguments["input"].ndim - 2
    logical = {name: None if value is None else np.asarray(value) for name, value in arguments.items()}
    for name in ("input_scale", "input_zero_point", "output_scale", "output_zero_point"):
        if logical[name] is not None:
            logical[name] = logical[name].reshape(1, -1, *(1 for _ in range(spatial)))
    for name, value in {**POOLING_WINDOWS, **windows}.items():
        logical[name] = (value,) * spatial if isinstance(value, int) and name != "include_padding" else value
    wanted = {**logical, "output_data_type": arguments["input"].dtype}
    return reference.evaluate("QUANTIZED_LINEAR_AVERAGE_POOLING", wanted)["output_tensor"]


@pytest.mark.parametrize(
    "windows",
    [
        {"window_size": 3},
        {"window_size": (7, 6)},
        {"window_size": np.array([2, 3]), "strides": (2, 1), "dilations": [1, 2]},
        {"window_size": 2, "start_padding": 1, "end_padding": 2},
        {"window_size": range(2, 4), "start_padding": (0, 2), "include_padding": True},
        {"window_size": np.int8(2), "strides": np.int64(3), "include_padding": 1},
        {"window_size": 2, "end_padding": 1, "include_padding": np.True_},
        {"window_size": 2, "end_padding": 1, "include_padding": np.False_},
    ],
)
def test_attributes_of_pooling(windows: dict[str, Any]) -> None:
    plain = {name: int(value) if np.ndim(value) == 0 else tuple(value) for name, value in windows.items()}
    for spatial in ((7, 6), (7, 7, 6)):
        arguments = pooling(spatial)
        if len(spatial) > 2 and any(isinstance(value, tuple) for value in plain.values()):
            continue
        result = dmlcpu.quantized_linear_average_pooling(**arguments, **windows)
        assert_equal(result, expected_pooling(arguments, **plain))


def test_parameters_of_pooling() -> None:
    arguments = pooling()
    expected = expected_pooling(arguments, window_size=3)
    for name in ("output_scale", "output_zero_point"):
        for form in one_element_forms(arguments[name]):
            result = dmlcpu.quantized_linear_average_pooling(**{**arguments, name: form}, window_size=3)
            assert_equal(result, expected, name)
    for name in ("input_scale", "input_zero_point"):
        line = arguments[name]
        for form in (line, line.reshape(3, 1, 1), line.reshape(1, 3, 1, 1), np.repeat(line, 2)[::2]):
            result = dmlcpu.quantized_linear_average_pooling(**{**arguments, name: form}, window_size=3)
            assert_equal(result, expected, name)
    numbers = {"output_scale": 0.75, "output_zero_point": -7}
    assert_equal(dmlcpu.quantized_linear_average_pooling(**{**arguments, **numbers}, window_size=3), expected)


def test_absent_zero_points_of_pooling() -> None:
    for absent in (("input_zero_point",), ("output_zero_point",), ("input_zero_point", "output_zero_point")):
        arguments = {**pooling(), **dict.fromkeys(absent)}
        expected = expected_pooling(arguments, window_size=2)
        assert_equal(dmlcpu.quantized_linear_average_pooling(**arguments, window_size=2), expected, absent)


def test_memory_order_and_out_of_pooling() -> None:
    arguments = pooling()
    expected = expected_pooling(arguments, window_size=2)
    last = np.ascontiguousarray(arguments["input"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for given in (arguments["input"], last, arguments["input"][:, :, ::-1][:, :, ::-1]):
        result = dmlcpu.quantized_linear_average_pooling(**{**arguments, "input": given}, window_size=2)
        assert_equal(result, expected)
        assert (result.strides[1] == 1) == (given.strides[1] == 1)
    out = np.zeros((2, 3, 6, 10), np.int8)[..., ::2]
    assert dmlcpu.quantized_linear_average_pooling(**arguments, window_size=2, out=out) is out
    assert_equal(out, expected)


def test_pooling_runs_on_the_given_device() -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError):
        dmlcpu.quantized_linear_average_pooling(
            **pooling(), window_size=2, device=dmlcpu.Device(feature_level=dmlcpu.FeatureLevel.LEVEL_6_1)
        )
