"""`quantized_linear_add` and `quantized_linear_convolution`: every form of an argument, against the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
import reference
from argument_forms import one_element_forms
from conftest import SEED
from dispatching import assert_equal
from dmlcpu import TensorDataType

INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)

# --- quantized_linear_add ---------------------------------------------------------------------------------------


ADD_PARAMETERS = ("a_scale", "a_zero_point", "b_scale", "b_zero_point", "output_scale", "output_zero_point")


def addition(a_shape: Sequence[int] = (2, 3, 4), b_shape: Sequence[int] = (2, 3, 4)) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    return {
        "a": rng.integers(0, 256, a_shape, np.uint8),
        "a_scale": np.float32(0.5),
        "a_zero_point": np.uint8(130),
        "b": rng.integers(-128, 128, b_shape, np.int8),
        "b_scale": np.float32(0.25),
        "b_zero_point": np.int8(-3),
        "output_scale": np.float32(0.75),
        "output_zero_point": np.int8(5),
    }


def expected_sum(arguments: dict[str, Any], output_data_type: np.dtype[Any] = INT8) -> NDArray[Any]:
    shape = np.broadcast_shapes(arguments["a"].shape, arguments["b"].shape)
    logical = {name: None if value is None else np.asarray(value).reshape(-1) for name, value in arguments.items()}
    logical |= {name: np.broadcast_to(arguments[name], shape) for name in ("a", "b")}
    wanted = {**logical, "output_data_type": output_data_type}
    return reference.evaluate("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", wanted)["output_tensor"].reshape(shape)


def test_parameters_of_add() -> None:
    arguments = addition()
    expected = expected_sum(arguments)
    for name in ADD_PARAMETERS:
        for form in one_element_forms(arguments[name]):
            assert_equal(dmlcpu.quantized_linear_add(**{**arguments, name: form}), expected, name)
    numbers = {name: arguments[name].item() for name in ADD_PARAMETERS}
    result = dmlcpu.quantized_linear_add(**{**arguments, **numbers}, output_data_type=TensorDataType.INT8)
    assert_equal(result, expected)


def test_absent_zero_points_of_add_are_0() -> None:
    names = ("a_zero_point", "b_zero_point", "output_zero_point")
    for absent in [[name] for name in names] + [names]:
        arguments = {**addition(), **dict.fromkeys(absent)}
        output_type = UINT8 if "output_zero_point" in absent else INT8
        assert_equal(dmlcpu.quantized_linear_add(**arguments), expected_sum(arguments, output_type), absent)


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((2, 3, 4), (3, 1)),
        ((1, 4), (2, 3, 4)),
        ((), (2, 3)),
        ((3,), ()),
        ((), ()),
        ((2, 1, 4), (1, 3, 1)),
        ((8, 1), (5,)),
    ],
)
def test_operands_of_add_broadcast(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    arguments = addition(a_shape, b_shape)
    result = dmlcpu.quantized_linear_add(**arguments)
    assert result.shape == np.broadcast_shapes(a_shape, b_shape)
    assert result.flags.writeable
    assert_equal(result, expected_sum(arguments))


def test_a_new_output_of_add_has_the_memory_order_of_its_operands() -> None:
    arguments = addition()
    a, b = arguments["a"], arguments["b"]
    for given_a in (a, a.transpose(1, 2, 0).copy().transpose(2, 0, 1), np.broadcast_to(a[:, :1], a.shape), a[:1, :1]):
        for given_b in (b, b.transpose(1, 2, 0).copy().transpose(2, 0, 1)):
            like = np.add(given_a, given_b, dtype=np.int8, casting="unsafe")
            result = dmlcpu.quantized_linear_add(**{**arguments, "a": given_a, "b": given_b})
            if given_a.strides == given_b.strides or 0 in given_a.strides or given_a.size < b.size:
                assert result.strides == like.strides
            assert_equal(result, expected_sum({**arguments, "a": given_a, "b": given_b}))


def test_operands_of_add_of_any_strides() -> None:
    arguments = addition()
    expected = expected_sum(arguments)
    a, b = arguments["a"], arguments["b"]
    for given_a in (a, np.asfortranarray(a), a[::-1].copy()[::-1], np.repeat(a, 2, axis=1)[:, ::2]):
        for given_b in (b, b.transpose(1, 2, 0).copy().transpose(2, 0, 1), b[..., ::-1].copy()[..., ::-1]):
            assert_equal(dmlcpu.quantized_linear_add(**{**arguments, "a": given_a, "b": given_b}), expected)


def test_output_type_of_add() -> None:
    arguments = {**addition(), "output_zero_point": 5}
    assert dmlcpu.quantized_linear_add(**arguments).dtype == UINT8
    assert dmlcpu.quantized_linear_add(**{**arguments, "a": arguments["b"], "a_zero_point": 0}).dtype == INT8
    assert dmlcpu.quantized_linear_add(**{**arguments, "output_zero_point": np.int8(5)}).dtype == INT8
    out = np.zeros((2, 3, 4), np.int8)
    assert dmlcpu.quantized_linear_add(**arguments, out=out) is out
    assert_equal(out, expected_sum(addition()))
    result = dmlcpu.quantized_linear_add(**arguments, output_data_type=TensorDataType.INT8)
    assert_equal(result, out)


def test_out_of_add_may_not_be_an_operand() -> None:
    arguments = addition()
    before = arguments["b"].copy()
    with pytest.raises(dmlcpu.BindingError) as raised:
        dmlcpu.quantized_linear_add(**arguments, out=arguments["b"])
    assert raised.value.field == "output_tensor"
    assert (arguments["b"] == before).all()


# --- quantized_linear_convolution -------------------------------------------------------------------------------


WINDOWS = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "group_count": 1}


def convolution(spatial: tuple[int, ...] = (7, 6), groups: int = 1) -> dict[str, Any]:
    """4 input and 6 output channels; a scale, a zero point and a bias for each output channel."""
    rng = np.random.default_rng(SEED)
    return {
        "input": rng.integers(0, 256, (2, 4, *spatial), np.uint8),
        "input_scale": np.float32(0.5),
        "input_zero_point": np.uint8(100),
        "filter": rng.integers(-128, 128, (6, 4 // groups, *(3 for _ in spatial)), np.int8),
        "filter_scale": rng.uniform(0.1, 1, 6).astype(np.float32),
        "filter_zero_point": rng.integers(-9, 9, 6, np.int8),
        "bias": rng.integers(-9999, 9999, 6, np.int32),
        "output_scale": np.float32(200),
        "output_zero_point": np.int8(-7),
    }


def expected_convolution(
    arguments: dict[str, Any], output_data_type: np.dtype[Any] = INT8, **windows: Any
) -> NDArray[Any]:
    spatial = arguments["input"].ndim - 2
    logical = {name: None if value is None else np.asarray(value) for name, value in arguments.items()}
    for name in ("filter_scale", "filter_zero_point", "bias"):
        if logical[name] is not None:
            logical[name] = logical[name].reshape(1, -1, *(1 for _ in range(spatial)))
    for name in ("input_scale", "input_zero_point", "output_scale", "output_zero_point"):
        if logical[name] is not None:
            logical[name] = logical[name].reshape((1,) * (spatial + 2))
    for name, value in {**WINDOWS, **windows}.items():
        logical[name] = (value,) * spatial if isinstance(value, int) and name != "group_count" else value
    wanted = {**logical, "output_data_type": output_data_type}
    return reference.evaluate("QUANTIZED_LINEAR_CONVOLUTION", wanted)["output_tensor"]


@pytest.mark.parametrize(
    "windows",
    [
        {},
        {"strides": 2},
        {"strides": (2, 1), "dilations": [1, 2]},
        {"start_padding": 1, "end_padding": 2},
        {"start_padding": (0, 2), "end_padding": (1, 0), "strides": range(2, 4)},
        {"group_count": 2, "strides": np.int64(3)},
        {"group_count": np.int8(2), "strides": np.array([1, 2])},
    ],
)
def test_attributes_of_convolution(windows: dict[str, Any]) -> None:
    arguments = convolution(groups=int(windows.get("group_count", 1)))
    plain = {name: int(value) if np.ndim(value) == 0 else tuple(value) for name, value in windows.items()}
    assert_equal(dmlcpu.quantized_linear_convolution(**arguments, **windows), expected_convolution(arguments, **plain))


def test_convolution_of_one_spatial_axis() -> None:
    arguments = convolution((9,))
    for windows in ({}, {"strides": 2, "start_padding": 1}, {"strides": (2,), "dilations": [2], "end_padding": (3,)}):
        result = dmlcpu.quantized_linear_convolution(**arguments, **windows)
        assert_equal(result, expected_convolution(arguments, **windows))


def test_parameters_of_convolution() -> None:
    arguments = convolution()
    expected = expected_convolution(arguments)
    for name in ("input_scale", "input_zero_point", "output_scale", "output_zero_point"):
        for form in one_element_forms(arguments[name]):
            assert_equal(dmlcpu.quantized_linear_convolution(**{**arguments, name: form}), expected, name)
    for name in ("filter_scale", "filter_zero_point", "bias"):
        line = arguments[name]
        for form in (
            line[::-1].copy()[::-1],
            np.repeat(line, 3)[::3],
            line.reshape(1, 6, 1, 1),
            line.reshape(6, 1, 1, 1),
        ):
            assert_equal(dmlcpu.quantized_linear_convolution(**{**arguments, name: form}), expected, name)


@pytest.mark.parametrize(
    "scale", [0.5, np.float32(0.5), np.full(6, 0.5, np.float32)], ids=["number", "single", "channels"]
)
@pytest.mark.parametrize("zero_point", [None, 3, np.int8(3), np.full(6, 3, np.int8)], ids=str)
def test_filter_parameters_mix(scale: Any, zero_point: Any) -> None:
    """One for all beside one for each channel."""
    arguments = {**convolution(), "filter_scale": scale, "filter_zero_point": zero_point}
    full = {**arguments, "filter_scale": np.full(6, 0.5, np.float32)}
    if zero_point is not None:
        full["filter_zero_point"] = np.full(6, 3, np.int8)
    assert_equal(dmlcpu.quantized_linear_convolution(**arguments), expected_convolution(full))


def test_absent_arguments_of_convolution() -> None:
    names = ("input_zero_point", "filter_zero_point", "bias", "output_zero_point")
    for absent in [[name] for name in names] + [names]:
        arguments = {**convolution(), **dict.fromkeys(absent)}
        output_type = UINT8 if "output_zero_point" in absent else INT8
        expected = expected_convolution(arguments, output_type)
        assert_equal(dmlcpu.quantized_linear_convolution(**arguments), expected, absent)


def test_one_channel() -> None:
    """A parameter of one element is then one for each channel too, a bias included."""
    arguments = convolution()
    few = {**arguments, "filter": arguments["filter"][:1], "bias": np.int32([77])}
    few |= {name: arguments[name][:1] for name in ("filter_scale", "filter_zero_point")}
    expected = expected_convolution(few)
    assert_equal(dmlcpu.quantized_linear_convolution(**few), expected)
    numbers = {"bias": 77, "filter_zero_point": int(few["filter_zero_point"][0])}
    assert_equal(dmlcpu.quantized_linear_convolution(**{**few, **numbers}), expected)
    deep = {name: few[name].reshape((1,) * 5) for name in ("bias", "filter_scale")}  # more axes than the output
    assert_equal(dmlcpu.quantized_linear_convolution(**{**few, **deep}), expected)


def channels_last(content: NDArray[Any]) -> NDArray[Any]:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(content, 1, -1)), -1, 1)


def test_memory_order_of_convolution() -> None:
    arguments = convolution()
    expected = expected_convolution(arguments)
    x, w = arguments["input"], arguments["filter"]
    for given in (x, channels_last(x), x[:, ::-1].copy()[:, ::-1], np.repeat(x, 2, axis=3)[..., ::2]):
        for weights in (w, channels_last(w), np.asfortranarray(w), w[..., ::-1, :].copy()[..., ::-1, :]):
            result = dmlcpu.quantized_linear_convolution(**{**arguments, "input": given, "filter": weights})
            assert_equal(result, expected)
            is_last = given.strides[1] == 1
            assert (result.strides[1] == 1) is is_last
            assert np.moveaxis(result, 1, -1).flags.c_contiguous is is_last
            assert result.flags.c_contiguous is not is_last


def test_memory_order_where_the_input_has_none() -> None:
    """One pixel or one channel lies as any order has it: the output is packed {N, C, H, W}."""
    arguments = {**convolution((1, 1)), "filter_zero_point": None}
    for shape, padding in (((2, 4, 1, 1), 1), ((2, 1, 5, 6), 1)):
        x = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
        filters = np.ones((6, shape[1], 3, 3), np.int8)
        for given in (x, channels_last(x)):
            case = {**arguments, "input": given, "filter": filters}
            result = dmlcpu.quantized_linear_convolution(**case, start_padding=padding, end_padding=padding)
            assert result.flags.c_contiguous
            assert 0 not in result.strides
            assert_equal(result, expected_convolution(case, start_padding=padding, end_padding=padding))


def test_out_of_convolution() -> None:
    arguments = convolution()
    expected = expected_convolution(arguments)
    for out in (np.zeros_like(expected), channels_last(expected) * 0, np.zeros((2, 6, 5, 9), np.int8)[..., 1::2]):
        assert dmlcpu.quantized_linear_convolution(**arguments, out=out) is out
        assert_equal(out, expected)


def test_output_type_of_convolution() -> None:
    arguments = {**convolution(), "output_zero_point": 5}
    assert dmlcpu.quantized_linear_convolution(**arguments).dtype == UINT8
    signed = {**arguments, "input": arguments["filter"][:, :4], "input_zero_point": 0}
    assert dmlcpu.quantized_linear_convolution(**signed).dtype == INT8
    result = dmlcpu.quantized_linear_convolution(**arguments, output_data_type=TensorDataType.INT8)
    assert_equal(result, expected_convolution({**arguments, "output_zero_point": np.int8(5)}))


def test_a_device_is_used(devices: dict[str, dmlcpu.Device]) -> None:
    arguments = convolution()
    expected = expected_convolution(arguments)
    for label, device in devices.items():
        assert_equal(dmlcpu.quantized_linear_convolution(**arguments, device=device), expected, label)
    old = dmlcpu.Device(dmlcpu.FeatureLevel.LEVEL_2_0)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="LEVEL_2_1"):
        dmlcpu.quantized_linear_convolution(**arguments, device=old)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="LEVEL_4_0"):
        dmlcpu.quantized_linear_add(**addition(), device=old)
