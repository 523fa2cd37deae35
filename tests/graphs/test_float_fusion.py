"""Convolutions of floats with element-wise operators as stages compute what these compute one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from float_networks import FUNCTIONS, FloatNetwork
from networks_under_construction import stages_of
from sample_graphs import Devices

# Of pixels that are not next to each other: fewer are not worth the calls.
FEWEST_CHANNELS_APART: Final = 16
BINARY, UNARY = "ELEMENT_WISE_BINARY", "ELEMENT_WISE_UNARY"


@dataclass(frozen=True)
class Case:
    """A convolution of one algorithm."""

    sizes: tuple[int, ...]
    channels: int
    attributes: Mapping[str, int]


CASES: Final = {
    "pointwise": Case((1, 24, 9, 7), 40, {}),
    "pointwise, several tiles": Case((2, 8, 23, 31), 19, {}),
    "one channel": Case((1, 5, 6, 7), 1, {}),
    "one pixel": Case((3, 32, 1, 1), 130, {}),
    "blocks of terms": Case((1, 300, 5, 4), 70, {}),
    "a sequence": Case((2, 9, 37), 20, {"kernel": 3, "padding": 1}),
    "gathered": Case((2, 70, 9, 8), 150, {"kernel": 3, "stride": 2, "padding": 1}),
    "tiles of columns": Case((1, 12, 12, 13), 600, {"kernel": 3, "padding": 1}),
    "windows in place": Case((2, 3, 20, 37), 70, {"kernel": 3, "padding": 1}),
    "groups of images": Case((4, 3, 150, 170), 2, {"kernel": 3, "padding": 1}),
    "groups": Case((1, 48, 9, 9), 96, {"kernel": 3, "groups": 2}),
    "groups as lanes": Case((2, 64, 13, 9), 64, {"kernel": 3, "groups": 16, "padding": 1}),
    "groups as lanes, several outputs": Case((1, 33, 7, 40), 66, {"kernel": 3, "groups": 33, "padding": 1}),
    "depthwise": Case((2, 20, 19, 17), 20, {"kernel": 3, "groups": 20, "padding": 1}),
    "depthwise, chunks": Case((1, 530, 5, 9), 530, {"kernel": 3, "groups": 530, "padding": 1}),
    "depthwise, dilated": Case((1, 70, 12, 40), 70, {"kernel": 5, "groups": 70, "dilation": 3, "padding": 6}),
    "depthwise, stride 2": Case((1, 70, 21, 40), 70, {"kernel": 5, "groups": 70, "stride": 2, "padding": 2}),
}


def both(build: Callable[[FloatNetwork], Any]) -> tuple[FloatNetwork, FloatNetwork]:
    """A network whose convolutions take stages, and one where they cannot, as their results are outputs."""
    networks = []
    for bound in (False, True):
        network = FloatNetwork(bound=bound)
        build(network)
        networks.append(network)
    return networks[0], networks[1]


def assert_same_bits(devices: Devices, fused: FloatNetwork, apart: FloatNetwork, stages: Sequence[str]) -> None:
    for label, device in devices.items():
        assert stages_of(fused, device) == stages, label
        assert stages_of(apart, device) == [], label
        actual, expected = (network.run(device) for network in (fused, apart))
        np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32), label)


@pytest.mark.parametrize("read", ["pixels", "planes"])
@pytest.mark.parametrize("written", ["pixels", "planes"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_stages_have_the_bits_of_steps(devices: Devices, case: Case, read: str, written: str) -> None:
    def build(network: FloatNetwork) -> None:
        x = network.input(case.sizes, planes=read == "planes")
        y = network.unary("relu", network.convolution(x, case.channels, **case.attributes))
        y = network.binary("add", network.input(network.graph.desc(y).sizes), y)
        y = network.binary("subtract", y, network.input(network.graph.desc(y).sizes))
        network.output(network.unary("leaky relu", y, 0.25), planes=written == "planes")

    are_few_apart = written == "planes" and 1 < case.channels < FEWEST_CHANNELS_APART
    assert_same_bits(devices, *both(build), [UNARY, BINARY, BINARY, *[UNARY] * (not are_few_apart)])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", ["pointwise", "groups as lanes, several outputs", "depthwise", "depthwise, dilated"])
def test_each_function(devices: Devices, case: str, function: str) -> None:
    """Of sums that are zeros of either sign, infinite and none, too."""

    def build(network: FloatNetwork) -> None:
        x = network.input(CASES[case].sizes, special=True)
        y = network.convolution(x, CASES[case].channels, **CASES[case].attributes)
        network.output(network.unary(function, y, -0.75, 1.5))

    assert_same_bits(devices, *both(build), [UNARY])


@pytest.mark.parametrize("bounds", [(0.5, -0.5), (-0.0, 0.0), (np.nan, 1.0), (-1.0, np.nan), (-np.inf, 0.25)], ids=str)
@pytest.mark.parametrize("case", ["pointwise", "depthwise"])
def test_bounds_of_all_kinds(devices: Devices, case: str, bounds: tuple[float, float]) -> None:
    def build(network: FloatNetwork) -> None:
        x = network.input(CASES[case].sizes, special=True)
        y = network.convolution(x, CASES[case].channels, **CASES[case].attributes)
        network.output(network.unary("relu", network.unary("clip", y, *bounds)))

    assert_same_bits(devices, *both(build), [UNARY, UNARY])


def test_residual_blocks(devices: Devices) -> None:
    def build(network: FloatNetwork) -> None:
        y = network.unary("relu", network.convolution(network.input((2, 3, 32, 30)), 16, kernel=3, stride=2, padding=1))
        for _ in range(3):
            inner = network.unary("relu", network.convolution(y, 64))
            inner = network.unary("relu", network.convolution(inner, 64, kernel=3, padding=1, groups=64))
            y = network.unary("relu", network.binary("add", network.convolution(inner, 16), y))
        network.output(y)

    assert_same_bits(devices, *both(build), [UNARY, *[UNARY, UNARY, BINARY, UNARY] * 3])


def test_a_part_of_a_join(devices: Devices) -> None:
    """The convolution writes its pixels into wider ones."""

    def build(network: FloatNetwork) -> None:
        parts = []
        for groups in (1, 24):
            x = network.input((1, 24, 9, 10))
            y = network.convolution(x, 24, kernel=3, padding=1, groups=groups)
            parts.append(network.unary("relu", network.binary("add", y, x)))
        whole = network.graph.add_view("JOIN", parts, (1, 48, 9, 10), {"axis": (1,)})
        network.output(whole)

    assert_same_bits(devices, *both(build), [BINARY, UNARY] * 2)


@pytest.mark.parametrize("channels", [FEWEST_CHANNELS_APART - 1, FEWEST_CHANNELS_APART])
def test_few_channels_of_a_join(devices: Devices, channels: int) -> None:
    def build(network: FloatNetwork) -> None:
        parts = [network.unary("relu", network.convolution(network.input((1, 8, 9, 7)), channels)) for _ in range(2)]
        network.output(network.graph.add_view("JOIN", parts, (1, 2 * channels, 9, 7), {"axis": (1,)}))

    assert_same_bits(devices, *both(build), [UNARY] * 2 if channels == FEWEST_CHANNELS_APART else [])


def read_twice(network: FloatNetwork, y: int) -> None:
    network.output(network.binary("multiply", network.unary("relu", y), y))


def added_to_itself(network: FloatNetwork, y: int) -> None:
    network.output(network.binary("add", y, y))


def other_operand_by_planes(network: FloatNetwork, y: int) -> None:
    network.output(network.binary("add", y, network.input(network.graph.desc(y).sizes, planes=True)))


def broadcast_operand(network: FloatNetwork, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    gate = network.graph.add_view("EXPAND", [network.input((n, c, 1, 1))], (n, c, h, w))
    network.output(network.binary("multiply", y, gate))


def turned(network: FloatNetwork, y: int) -> None:
    """Of the same sizes, but with other elements in the places of these."""
    n, c, h, w = network.graph.desc(y).sizes
    network.output(
        network.unary("relu", network.graph.add_view("TRANSPOSE", [y], (n, c, w, h), {"permutation": (0, 1, 3, 2)}))
    )


def a_part_alone(network: FloatNetwork, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    part = network.graph.add_view("SLICE", [y], (n, c, h - 1, w), {"starts": (0, 0, 1, 0), "steps": (1, 1, 1, 1)})
    network.output(network.unary("relu", part))


ALONE: Final = (read_twice, added_to_itself, other_operand_by_planes, broadcast_operand, turned, a_part_alone)


@pytest.mark.parametrize("ending", ALONE, ids=lambda ending: ending.__name__)
def test_what_cannot_be_a_stage_is_a_step(devices: Devices, ending: Callable[[FloatNetwork, int], None]) -> None:
    def build(network: FloatNetwork) -> None:
        ending(network, network.convolution(network.input((2, 12, 6, 6)), 10))

    assert_same_bits(devices, *both(build), [])
