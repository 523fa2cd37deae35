"""Element-wise operators behind convolutions that cannot be stages of these are steps of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from convolution_networks import ADD, MULTIPLY, Network
from dmlcpu import TensorDataType, TensorDesc
from networks_under_construction import channels_last, stages_of
from sample_graphs import Devices, codes


def read_twice(network: Network, y: int) -> None:
    network.output(network.binary(ADD, network.table(y), y))


def added_to_itself(network: Network, y: int) -> None:
    network.output(network.binary(ADD, y, y))


def output_by_planes(network: Network, y: int) -> None:
    network.output(network.table(y), planes=True)


def output_itself(network: Network, y: int) -> None:
    network.output(network.table(network.output(y)))


def part_of_a_join(network: Network, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    both = network.graph.add_view(
        "JOIN", [network.table(y), network.input((n, c, h, w))], (n, 2 * c, h, w), {"axis": (1,)}
    )
    network.output(both)


def in_another_shape(network: Network, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    network.output(network.table(network.graph.add_view("RESHAPE", [y], (n, c, h * w, 1))))


def a_part_alone(network: Network, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    part = network.graph.add_view("SLICE", [y], (n, c, h - 1, w), {"starts": (0, 0, 1, 0), "steps": (1, 1, 1, 1)})
    network.output(network.table(part))


def broadcast_operand(network: Network, y: int) -> None:
    n, c, h, w = network.graph.desc(y).sizes
    gate = network.graph.add_view("EXPAND", [network.input((n, c, 1, 1))], (n, c, h, w))
    network.output(network.binary(MULTIPLY, y, gate))


def other_operand_by_planes(network: Network, y: int) -> None:
    network.output(network.binary(ADD, y, network.input(network.graph.desc(y).sizes, planes=True)))


ALONE = (
    read_twice,
    added_to_itself,
    output_by_planes,
    output_itself,
    part_of_a_join,
    in_another_shape,
    a_part_alone,
    broadcast_operand,
    other_operand_by_planes,
)


@pytest.mark.parametrize("ending", ALONE, ids=lambda ending: ending.__name__)
def test_what_cannot_be_a_stage_is_a_step(devices: Devices, ending: Any) -> None:
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        y = network.convolution(network.input((2, 12, 6, 5)), 10)
        ending(network, y)
        networks.append(network)
    assert stages_of(networks[0]) == []
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)


def test_memory_that_is_read_as_another_tensor(devices: Devices) -> None:
    """Planes that are said to be pixels: each element that a table reads is not the one of its place."""
    sizes = (2, 10, 6, 5)
    network, alone = (Network() for _ in range(2))
    y = network.convolution(network.input((2, 12, 6, 5)), 10)
    pixels = TensorDesc(TensorDataType.UINT8, sizes, strides=channels_last(sizes))
    network.output(network.table(network.graph.reinterpret(y, pixels)))
    alone.output(alone.convolution(alone.input((2, 12, 6, 5)), 10), planes=True)
    table = codes(alone.rng, (256,))
    assert stages_of(network) == []
    for label, device in devices.items():
        planes = np.ascontiguousarray(alone.run(device))
        expected = table[as_strided(planes, sizes, channels_last(sizes))]
        np.testing.assert_array_equal(network.run(device), expected, label)


def test_memory_behind_what_a_convolution_writes(devices: Devices) -> None:
    """A table of zeros, which nobody writes, has the sizes of the codes before them, and reads none of these."""
    network = Network()
    y = network.convolution(network.input((1, 12, 1, 1)), 64)
    longer = network.graph.reinterpret(y, TensorDesc(TensorDataType.UINT8, (1, 128, 1, 1)))
    places = {"starts": (0, 64, 0, 0), "steps": (1, 1, 1, 1)}
    network.output(network.table(network.graph.add_view("SLICE", [longer], (1, 64, 1, 1), places)))
    [*_, table] = network.graph.constants.values()
    assert stages_of(network) == []
    for label, device in devices.items():
        np.testing.assert_array_equal(network.run(device), np.full((1, 64, 1, 1), table[0]), label)


def test_codes_that_are_a_parameter_are_no_operand(devices: Devices) -> None:
    """A convolution of one element computes the zero point of a sum."""
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        y = network.convolution(network.input((1, 3, 1, 1)), 1)
        x = network.input((1, 1, 1, 1))
        inputs = [x, network.scale(), y, x, network.scale(), None, network.scale(), None]
        [total] = network.graph.add_node(ADD, inputs, [TensorDesc(TensorDataType.UINT8, (1, 1, 1, 1))])
        network.output(total)
        networks.append(network)
    assert stages_of(networks[0]) == []
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)
