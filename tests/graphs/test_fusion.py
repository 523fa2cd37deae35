"""Convolutions with element-wise operators as stages compute what the operators compute one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dmlcpu
from convolution_networks import ADD, MULTIPLY, TABLE, Network
from dmlcpu import Device, TensorDataType, TensorDesc
from networks_under_construction import stages_of
from sample_graphs import Devices


@dataclass(frozen=True)
class Case:
    """A convolution of one algorithm."""

    sizes: tuple[int, int, int, int]
    channels: int
    attributes: Mapping[str, int]


CASES = {
    "pointwise": Case((1, 24, 9, 7), 40, {}),
    "pointwise, several tiles": Case((2, 8, 23, 31), 19, {}),
    "one channel": Case((1, 5, 6, 7), 1, {}),
    "one pixel": Case((3, 32, 1, 1), 130, {}),
    "blocks of channels": Case((1, 96, 3, 3), 512, {}),
    "gathered": Case((2, 3, 17, 13), 21, {"kernel": 3, "stride": 2, "padding": 1}),
    "padded planes": Case((2, 16, 17, 13), 48, {"kernel": 3, "padding": 1}),
    "a long row": Case((1, 4, 2, 300), 17, {"kernel": 3, "padding": 1}),
    "regions": Case((1, 64, 9, 11), 36, {"kernel": 3, "padding": 6, "dilation": 6}),
    "groups": Case((1, 12, 9, 9), 30, {"kernel": 3, "groups": 3}),
    "groups, blocks of channels": Case((1, 64, 3, 3), 1024, {"groups": 2}),
    "groups, transformed windows": Case((1, 128, 20, 21), 96, {"kernel": 3, "groups": 2, "padding": 1}),
    "transformed windows, phases": Case((2, 96, 27, 26), 70, {"kernel": 3, "padding": 2, "dilation": 2}),
    "groups as lanes": Case((2, 64, 13, 9), 64, {"kernel": 3, "groups": 16, "padding": 1}),
    "depthwise": Case((2, 20, 19, 17), 20, {"kernel": 3, "groups": 20, "padding": 1}),
    "depthwise, several strips": Case((1, 130, 9, 300), 130, {"kernel": 3, "groups": 130, "padding": 1}),
    "few channels": Case((2, 17, 9, 64), 3, {"kernel": 3, "padding": 1}),
    "depthwise, phases": Case((1, 70, 12, 40), 70, {"kernel": 5, "groups": 70, "dilation": 3, "padding": 6}),
    "depthwise, stride 2": Case((1, 70, 21, 40), 70, {"kernel": 5, "groups": 70, "stride": 2, "padding": 2}),
}


def chain(case: Case, *, bound: bool, planes: bool = False) -> Network:
    """The convolution with each stage in turn, of mixed types."""
    network = Network(bound=bound)
    x = network.input(case.sizes, planes=planes)
    y = network.convolution(x, case.channels, dtype=TensorDataType.INT8, zero_points=planes, **case.attributes)
    other = network.input(network.graph.desc(y).sizes)
    y = network.table(network.binary(ADD, other, y), TensorDataType.INT8)
    second = network.input(network.graph.desc(y).sizes, np.int8)
    network.output(network.binary(MULTIPLY, y, second, TensorDataType.INT8))
    return network


@pytest.mark.parametrize("planes", [False, True], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_stages_have_the_bits_of_steps(devices: Devices, case: Case, planes: bool) -> None:
    fused, apart = (chain(case, bound=bound, planes=planes) for bound in (False, True))
    for label, device in devices.items():
        assert stages_of(fused, device) == [ADD, TABLE, MULTIPLY], label
        assert stages_of(apart, device) == [], label
        np.testing.assert_array_equal(fused.run(device), apart.run(device), label)


@pytest.mark.parametrize("type", [ADD, MULTIPLY])
def test_either_operand_may_be_the_convolution(devices: Devices, type: str) -> None:
    for swap in (False, True):
        networks = []
        for bound in (False, True):
            network = Network(bound=bound)
            x = network.input((1, 40, 9, 10), np.int8)
            operands = [network.convolution(x, 40), x]
            network.output(network.binary(type, *(reversed(operands) if swap else operands)))
            networks.append(network)
        assert stages_of(networks[0]) == [type]
        for label, device in devices.items():
            np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)


def test_residual_blocks(devices: Devices) -> None:
    """Memory of what a block adds is free again afterwards, and not before."""
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        y = network.convolution(network.input((2, 3, 32, 30)), 16, kernel=3, stride=2, padding=1)
        for stride in (1, 1, 2, 1):
            channels = network.graph.desc(y).sizes[1] * stride
            inner = network.convolution(y, channels, kernel=3, stride=stride, padding=1)
            if stride == 2:
                y = network.convolution(y, channels, stride=2)
            inner = network.table(network.convolution(inner, channels, kernel=3, padding=1, groups=channels))
            y = network.table(network.binary(ADD, network.convolution(inner, channels), y))
        network.output(y, planes=True)
        networks.append(network)
    assert stages_of(networks[0]).count(ADD) == 4
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)
    compiled = networks[0].compiled(devices["scalar, 2 threads"])
    expected = networks[1].run(devices["scalar, 1 threads"])
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: compiled.dispatch(**networks[0].inputs), range(32)):
            np.testing.assert_array_equal(result, expected)


def grown(network: Network, a: int) -> int:
    return network.convolution(a, 24)


def turned(network: Network, a: int) -> int:
    n, c, h, w = network.graph.desc(a).sizes
    return network.table(network.graph.add_view("TRANSPOSE", [a], (n, c, w, h), {"permutation": (0, 1, 3, 2)}))


@pytest.mark.parametrize("lasting", [(), ("read",), ("written",), ("read", "written")], ids="-".join)
@pytest.mark.parametrize("step", [grown, turned], ids=lambda step: step.__name__)
def test_what_a_step_reads_and_writes_shares_no_memory(devices: Devices, step: Any, lasting: tuple[str, ...]) -> None:
    """Whichever of both is placed first, as the larger one is, and whether it is kept for a few steps or for many."""
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        other = network.input((1, 1, 1, 2))
        a = network.convolution(network.input((1, 8, 6, 5)), 8)
        for _ in range(20 if "read" in lasting else 0):
            other = network.table(other)
        b = step(network, a)
        for _ in range(20 if "written" in lasting else 0):
            other = network.table(other)
        network.output(other)
        network.output(network.convolution(b, 8))
        networks.append(network)
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)


def test_the_later_of_two_convolutions_takes_the_sum() -> None:
    network = Network()
    x = network.input((1, 8, 5, 5))
    first, second = network.convolution(x, 8), network.convolution(x, 8)
    network.output(network.binary(ADD, first, second))
    text = network.compiled(Device(num_threads=1)).describe().splitlines()
    assert [ADD in line for line in text if line.startswith("step")] == [False, True]


def test_a_step_between_may_compute_the_other_operand(devices: Devices) -> None:
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        x = network.input((1, 8, 6, 5))
        y = network.convolution(x, 8)
        network.output(network.binary(ADD, y, network.binary(MULTIPLY, x, x)))
        networks.append(network)
    assert stages_of(networks[0]) == [ADD]
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)


def test_a_profile_has_one_entry_for_a_step_with_its_stages() -> None:
    network = chain(CASES["pointwise"], bound=False)
    compiled = network.compiled(Device(num_threads=1))
    outputs, times = compiled.profile(**network.inputs)
    np.testing.assert_array_equal(outputs, network.run(Device(num_threads=1)))
    assert [time.type for time in times] == ["QUANTIZED_LINEAR_CONVOLUTION"]


def test_a_chain_has_an_end(devices: Devices) -> None:
    networks = []
    for bound in (False, True):
        network = Network(bound=bound)
        y = network.convolution(network.input((1, 12, 6, 5)), 10)
        for _ in range(6):
            y = network.table(y)
        network.output(y)
        networks.append(network)
    assert stages_of(networks[0]) == [TABLE] * 4
    for label, device in devices.items():
        np.testing.assert_array_equal(networks[0].run(device), networks[1].run(device), label)


@pytest.mark.parametrize(
    ("length", "sizes", "message"), [(255, (1, 10, 6, 5), "256"), (256, (1, 10, 5, 6), "differ in sizes")]
)
def test_a_refused_stage_is_named(length: int, sizes: tuple[int, ...], message: str) -> None:
    network = Network()
    y = network.convolution(network.input((1, 12, 6, 5)), 10)
    results = network.graph.add_array(np.zeros(length, np.uint8))
    [z] = network.graph.add_node(TABLE, [y, results], [TensorDesc(TensorDataType.UINT8, sizes)], name="the table")
    network.output(z)
    with pytest.raises(ValueError, match=rf"node the table: .*{message}"):
        network.compiled(dmlcpu.default_device())
