"""ConvTranspose between dequantize and quantize: the bits of the integer transposed convolution, on every device.

onnxruntime computes it in floating point, so that its codes may differ by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.rules.convolution.transposed_phases import are_cheaper_together, phases_of
from onnx_models import Builder, codes, results_of_onnxruntime
from reference.transposed_convolution import requantized, transposed_convolution_sums

Array = NDArray[Any]
Rng = np.random.Generator
TYPES: Final = ("uint8", "int8")
POINTS: Final[Mapping[str, int]] = {"uint8": 121, "int8": -7}
X_SCALE: Final = np.float32(0.0428)


@dataclass(frozen=True)
class Case:
    """A node; `start` and `sizes` say what its attributes amount to."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    sizes: tuple[int, ...]
    start: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        return int(self.attributes.get("group", 1))

    @property
    def channels(self) -> int:
        return self.w[1] * self.groups

    def steps(self, name: str) -> tuple[int, ...]:
        return tuple(self.attributes.get(name, (1,) * len(self.sizes)))


def two(size: int) -> dict[str, list[int]]:
    return {"strides": [size, size]}


CASES: Final[Mapping[str, Case]] = {
    "2x2 by 2": Case((2, 5, 4, 3), (5, 6, 2, 2), (8, 6), (0, 0), two(2)),
    "2x2 by 2, many channels": Case((1, 70, 3, 5), (70, 40, 2, 2), (6, 10), (0, 0), two(2)),
    "2x2 by 2, to one channel": Case((1, 24, 7, 9), (24, 1, 2, 2), (14, 18), (0, 0), two(2)),
    "3x3 by 2, padded": Case((2, 5, 4, 3), (5, 6, 3, 3), (7, 5), (1, 1), {**two(2), "pads": [1, 1, 1, 1]}),
    "3x3 by 2, doubled": Case(
        (2, 5, 4, 3), (5, 6, 3, 3), (8, 6), (1, 1), {**two(2), "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    ),
    "4x4 by 2": Case((2, 5, 4, 3), (5, 6, 4, 4), (8, 6), (1, 1), {**two(2), "pads": [1, 1, 1, 1]}),
    "4x4 by 2, many channels": Case((1, 33, 4, 3), (33, 40, 4, 4), (8, 6), (1, 1), {**two(2), "pads": [1, 1, 1, 1]}),
    "uneven": Case(
        (1, 3, 5, 4),
        (3, 4, 5, 3),
        (15, 14),
        (2, 0),
        {"strides": [3, 4], "pads": [2, 0, 1, 1], "output_padding": [1, 0], "kernel_shape": [5, 3]},
    ),
    "by 1": Case((2, 3, 5, 4), (3, 4, 3, 2), (6, 5), (0, 0), {"pads": [0, 0, 1, 0]}),
    "phases without taps": Case(
        (2, 3, 4, 3), (3, 4, 1, 2), (10, 9), (0, 0), {"strides": [3, 3], "output_padding": [0, 1]}
    ),
    "phases without taps, many channels": Case((1, 3, 4, 3), (3, 40, 1, 1), (7, 7), (0, 0), {"strides": [2, 3]}),
    "dilations that share a factor with strides": Case(
        (1, 3, 5, 4), (3, 4, 3, 2), (13, 16), (0, 0), {"strides": [2, 4], "dilations": [2, 3], "pads": [0, 0, 0, 0]}
    ),
    "wide dilations": Case(
        (1, 3, 5, 4), (3, 4, 3, 3), (15, 13), (3, 2), {**two(2), "dilations": [5, 4], "pads": [3, 2, 1, 0]}
    ),
    "wide dilations, many channels": Case(
        (1, 3, 5, 4), (3, 20, 3, 3), (16, 13), (2, 2), {**two(2), "dilations": [5, 4], "pads": [2, 2, 1, 0]}
    ),
    "padding that cuts inputs off": Case((1, 3, 7, 6), (3, 4, 2, 3), (5, 3), (5, 6), {**two(2), "pads": [5, 6, 4, 4]}),
    "outputs that are the bias alone": Case(
        (1, 2, 2, 2), (2, 3, 1, 1), (1, 1), (1, 3), {"strides": [4, 4], "pads": [1, 3, 3, 1]}
    ),
    "outputs that read nothing": Case(
        (1, 2, 1, 1), (2, 3, 2, 2), (1, 4), (1, 1), {"strides": [1, 1], "dilations": [2, 6], "pads": [1, 1, 1, 2]}
    ),
    "from one pixel": Case((3, 4, 1, 1), (4, 5, 4, 3), (4, 3), (0, 0), two(2)),
    "fewer outputs than the stride": Case((1, 4, 1, 1), (4, 5, 2, 2), (2, 2), (0, 0), two(7)),
    "groups": Case((2, 6, 4, 3), (6, 4, 3, 3), (9, 7), (0, 0), {**two(2), "group": 3}),
    "depthwise": Case((1, 20, 4, 3), (20, 1, 4, 4), (8, 6), (1, 1), {**two(2), "group": 20, "pads": [1, 1, 1, 1]}),
    "groups to several": Case((1, 5, 4, 3), (5, 3, 2, 2), (8, 6), (0, 0), {**two(2), "group": 5}),
    "1-D": Case((2, 5, 9), (5, 6, 4), (18,), (1,), {"strides": [2], "pads": [1, 1]}),
    "1-D, many channels, odd": Case((2, 5, 9), (5, 40, 5), (29,), (0,), {"strides": [3]}),
    "1-D depthwise": Case((2, 5, 9), (5, 1, 3), (19,), (0,), {"strides": [2], "group": 5}),
    "SAME_UPPER": Case((1, 3, 4, 3), (3, 4, 5, 3), (8, 6), (1, 0), {**two(2), "auto_pad": "SAME_UPPER"}),
    "SAME_LOWER": Case((1, 3, 4, 3), (3, 4, 5, 3), (8, 6), (2, 1), {**two(2), "auto_pad": "SAME_LOWER"}),
    "SAME_UPPER, a stride beyond the kernel": Case(
        (1, 3, 4, 3), (3, 4, 2, 2), (11, 8), (0, 0), {**two(3), "auto_pad": "SAME_UPPER"}
    ),
    "VALID": Case((1, 3, 4, 3), (3, 4, 3, 3), (9, 7), (0, 0), {**two(2), "auto_pad": "VALID"}),
    "output_shape": Case((1, 3, 4, 3), (3, 4, 5, 4), (8, 7), (2, 1), {**two(2), "output_shape": [8, 7]}),
    "output_shape, SAME_UPPER": Case(
        (1, 3, 4, 3), (3, 4, 5, 4), (8, 7), (1, 0), {**two(2), "output_shape": [8, 7], "auto_pad": "SAME_UPPER"}
    ),
}


class Node:
    """A case with random operands: its model, its input and what is expected."""

    def __init__(
        self, rng: Rng, case: Case, x_type: str, w_type: str, per_channel: bool, has_bias: bool = True
    ) -> None:
        self.case, self.x = case, codes(rng, x_type, case.x)
        self.w = codes(rng, w_type, case.w)
        self.x_type, self.y_scale, self.y_point = x_type, np.float32(0.61), POINTS[x_type]
        count = case.w[1] if per_channel else 1
        self.scales = rng.uniform(0.001, 0.01, count).astype(np.float32)
        self.points = np.zeros(count, w_type) if per_channel else np.array([5 if w_type == "int8" else 131], w_type)
        self.bias = rng.integers(-9999, 9999, case.channels, np.int32) if has_bias else None

    def model(self, float_output: bool = False) -> bytes:
        builder = Builder()
        point = np.array(self.y_point, self.x_type)
        x = builder.dequantized(builder.input(self.x_type, self.x.shape), X_SCALE, point)
        is_one = self.scales.size == 1
        scales, points = (array.reshape(()) if is_one else array for array in (self.scales, self.points))
        operands = [x, builder.dequantized(self.w, scales, points, axis=1)]
        if self.bias is not None:
            unit = X_SCALE * self._scales_of_channels()
            operands.append(builder.dequantized(self.bias, unit, np.zeros(unit.shape, np.int32), axis=0))
        y = builder.node("ConvTranspose", operands, **self.case.attributes)
        builder.output(builder.quantized(y, self.y_scale, point), self.x_type)
        if float_output:
            builder.output(y, "float32")
        return builder.build()

    def expected(self) -> tuple[Array, Array]:
        """Codes, and the exact result in FLOAT64."""
        case = self.case
        sums = transposed_convolution_sums(
            self.x,
            self.y_point,
            self.w,
            int(self.points[0]),
            case.steps("strides"),
            case.steps("dilations"),
            case.start,
            case.sizes,
            case.groups,
        )
        scales = self._scales_of_channels()
        result = requantized(sums, self.bias, X_SCALE, scales, self.y_scale, self.y_point, self.x_type)
        along = (-1, *(1,) * (sums.ndim - 2))
        totals = sums if self.bias is None else sums + self.bias.astype(np.int64).reshape(along)
        return result, totals * (X_SCALE.astype(np.float64) * scales.reshape(along))

    def _scales_of_channels(self) -> NDArray[np.float32]:
        return (
            np.tile(self.scales, self.case.groups)
            if self.scales.size > 1
            else np.repeat(self.scales, self.case.channels)
        )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("x_type", "w_type"), [(x, w) for x in TYPES for w in TYPES])
def test_codes_are_those_of_integers_and_almost_those_of_onnxruntime(
    random_numbers: Rng, name: str, per_channel: bool, x_type: str, w_type: str
) -> None:
    node = Node(random_numbers, CASES[name], x_type, w_type, per_channel)
    session = dmlcpu.InferenceSession(node.model())
    [result] = session.run(None, {"x": node.x})
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    expected, _ = node.expected()
    np.testing.assert_array_equal(result, expected)
    assert np.unique(result).size > 2  # or the scales of the test are wrong
    [theirs] = results_of_onnxruntime(node.model(), {"x": node.x})
    assert np.abs(result.astype(int) - theirs.astype(int)).max() <= 1


@pytest.mark.parametrize("name", CASES)
def test_every_device_computes_the_same_codes(
    devices: Mapping[str, dmlcpu.Device], random_numbers: Rng, name: str
) -> None:
    for x_type, has_bias in (("uint8", True), ("int8", False)):
        node = Node(random_numbers, CASES[name], x_type, "int8", True, has_bias)
        expected, _ = node.expected()
        for label, device in devices.items():
            session = dmlcpu.InferenceSession(node.model(), device=device)
            np.testing.assert_array_equal(session.run(None, {"x": node.x})[0], expected, label)


@pytest.mark.parametrize("name", CASES)
def test_floats_that_are_not_quantized(devices: Mapping[str, dmlcpu.Device], random_numbers: Rng, name: str) -> None:
    node = Node(random_numbers, CASES[name], "uint8", "uint8", False)
    expected, exact = node.expected()
    for label, device in devices.items():
        session = dmlcpu.InferenceSession(node.model(float_output=True), device=device)
        result, floats = session.run(None, {"x": node.x})
        np.testing.assert_array_equal(result, expected, label)
        np.testing.assert_allclose(floats, exact, rtol=0, atol=1e-6 * np.abs(exact).max(), err_msg=label)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    spatial, kernel, strides, dilations = each(1, 5), each(1, 4), each(1, 4), each(1, 4)
    added = tuple(draw(st.integers(0, max(pair) - 1)) for pair in zip(strides, dilations, strict=True))
    written = [
        (length - 1) * stride + (taps - 1) * dilation + 1 + more
        for length, taps, stride, dilation, more in zip(spatial, kernel, strides, dilations, added, strict=True)
    ]
    start = tuple(draw(st.integers(0, min(length - 1, 6))) for length in written)
    end = tuple(draw(st.integers(0, min(length - 1 - first, 6))) for length, first in zip(written, start, strict=True))
    groups, channels_in, channels_out = draw(st.sampled_from([(1, 3, 2), (1, 5, 17), (1, 2, 1), (3, 2, 2), (4, 1, 1)]))
    sizes = tuple(length - a - b for length, a, b in zip(written, start, end, strict=True))
    attributes = {"strides": strides, "dilations": dilations, "pads": (*start, *end), "output_padding": added}
    return Case(
        (draw(st.integers(1, 2)), groups * channels_in, *spatial),
        (groups * channels_in, channels_out, *kernel),
        sizes,
        start,
        {**attributes, "group": groups},
    )


@given(cases(), st.integers(0, 2**32))
def test_any_attributes(devices: Mapping[str, dmlcpu.Device], case: Case, seed: int) -> None:
    node = Node(np.random.default_rng(seed), case, "uint8", "int8", True)
    expected, _ = node.expected()
    for label, device in devices.items():
        session = dmlcpu.InferenceSession(node.model(), device=device)
        np.testing.assert_array_equal(session.run(None, {"x": node.x})[0], expected, label)
        assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]


def test_scales_along_the_first_axis_are_those_of_groups(random_numbers: Rng) -> None:
    x, w = codes(random_numbers, "uint8", (1, 4, 3, 3)), codes(random_numbers, "int8", (4, 2, 2, 2))
    scales = random_numbers.uniform(0.001, 0.01, 4).astype(np.float32)

    def model(groups: int) -> bytes:
        builder = Builder()
        value = builder.dequantized(builder.input("uint8", x.shape), X_SCALE, np.uint8(121))
        weights = builder.dequantized(w, scales, np.zeros(4, np.int8), axis=0)
        y = builder.node("ConvTranspose", [value, weights], strides=[2, 2], group=groups)
        builder.output(builder.quantized(y, 0.1, np.uint8(121)), "uint8")
        return builder.build()

    session = dmlcpu.InferenceSession(model(4))
    sums = transposed_convolution_sums(x, 121, w, 0, (2, 2), (1, 1), (0, 0), (6, 6), 4)
    expected = requantized(sums, None, X_SCALE, np.repeat(scales, 2), np.float32(0.1), 121, np.uint8)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    # With one group they are the input channels', which no integer sum can take: it is a product of floats.
    [partition] = dmlcpu.InferenceSession(model(1)).partitions()
    assert "FLOAT_PRODUCT" in {step.type for step in partition.steps}


@pytest.mark.parametrize(
    ("kernel", "channels", "together"),
    [(2, 24, True), (2, 1, True), (2, 32, False), (3, 40, True), (4, 40, False), (4, 64, False), (4, 4, True)],
)
def test_steps_write_each_phase_in_its_place(random_numbers: Rng, kernel: int, channels: int, together: bool) -> None:
    pads = [(kernel - 2) // 2] * 2 + [(kernel - 1) // 2] * 2
    case = Case((1, 8, 6, 5), (8, channels, kernel, kernel), (12, 10), (), {**two(2), "pads": pads})
    assert are_cheaper_together(phases_of(5, 10, kernel, 2, 1, pads[0]), channels) is together
    session = dmlcpu.InferenceSession(Node(random_numbers, case, "uint8", "int8", True).model())
    [partition] = session.partitions()
    steps = [step.type for step in partition.steps if step.type != "COPY"]
    assert steps == ["QUANTIZED_LINEAR_CONVOLUTION"] * (2 if together else 4)


@pytest.mark.parametrize("attributes", [{"strides": [9, 9], "group": 2}, {"strides": [65, 1]}], ids=str)
def test_more_than_64_convolutions_are_left_to_onnxruntime(random_numbers: Rng, attributes: dict[str, Any]) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", (1, 4, 3, 3)), X_SCALE, np.uint8(121))
    filters = codes(random_numbers, "int8", (4, 4 // attributes.get("group", 1), 5, 5))
    y = builder.node("ConvTranspose", [value, builder.dequantized(filters, 0.01, np.int8(0))], **attributes)
    builder.output(builder.quantized(y, 0.1, np.uint8(121)), "uint8")
    x = codes(random_numbers, "uint8", (1, 4, 3, 3))
    session = dmlcpu.InferenceSession(builder.build())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], results_of_onnxruntime(builder.build(), {"x": x})[0])
    assert "onnxruntime" in {partition.provider for partition in session.partitions()}
