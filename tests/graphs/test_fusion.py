"""Convolutions with element-wise operators as stages compute what the operators compute one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import dmlcpu
from conftest import SEED
from dmlcpu import Device, TensorDataType, TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from sample_graphs import Devices, codes

ADD, MULTIPLY, TABLE = "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "QUANTIZED_MULTIPLY", "CODE_TABLE"


def channels_last(sizes: Sequence[int]) -> tuple[int, ...]:
    n, c, h, w = sizes
    del n
    return (c * h * w, 1, c * w, c)


class Network:
    """A graph under construction, and whether the results of its convolutions are outputs too: then none is fused.

    Networks that are built alike draw the same numbers.
    """

    def __init__(self, *, bound: bool = False) -> None:
        self.graph, self.rng, self.bound = NativeGraph(), np.random.default_rng(SEED), bound
        self.inputs: dict[str, Any] = {}
        self._outputs = 0

    def input(self, sizes: Sequence[int], dtype: Any = np.uint8, *, planes: bool = False) -> int:
        array = codes(self.rng, sizes, dtype)
        if not planes:
            array = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        name = f"input_{len(self.inputs)}"
        self.inputs[name] = array
        return self.graph.add_input(name, TensorDesc.from_array(array))

    def scale(self) -> int:
        return self.graph.add_array(self.rng.uniform(0.1, 2, 1).astype(np.float32))

    def zero_point(self, value: int) -> int:
        dtype = np.int8 if self.graph.desc(value).data_type is TensorDataType.INT8 else np.uint8
        return self.graph.add_array(codes(self.rng, (1,), dtype))

    def parameters(self, *operands: int) -> list[int]:
        """Of operators that read and write codes: each with its scale and its zero point."""
        return [number for value in operands for number in (value, self.scale(), self.zero_point(value))]

    def convolution(
        self,
        x: int,
        channels: int,
        *,
        kernel: int = 1,
        groups: int = 1,
        stride: int = 1,
        dilation: int = 1,
        padding: int = 0,
        dtype: TensorDataType = TensorDataType.UINT8,
        zero_points: bool = False,
    ) -> int:
        n, c, h, w = self.graph.desc(x).sizes
        height, width = ((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in (h, w))
        filters = codes(self.rng, (channels, c // groups, kernel, kernel), np.int8)
        # So that about half of the codes saturate.
        scales = self.rng.uniform(0.005, 0.01, (1, channels, 1, 1)) / np.sqrt(c // groups * kernel**2)
        output = TensorDesc(dtype, (n, channels, height, width))
        zero_point = codes(self.rng, (1,), np.int8 if dtype is TensorDataType.INT8 else np.uint8)
        one = self.graph.add_array(np.ones(1, np.float32))
        of_filter = self.graph.add_array(codes(self.rng, (1, channels, 1, 1), np.int8)) if zero_points else None
        [y] = self.graph.add_node(
            "QUANTIZED_LINEAR_CONVOLUTION",
            [
                *(x, one, self.zero_point(x)),
                *(self.graph.add_array(filters), self.graph.add_array(scales.astype(np.float32)), of_filter),
                *(None, one, self.graph.add_array(zero_point)),
            ],
            [output],
            {
                "strides": (stride, stride),
                "dilations": (dilation, dilation),
                "start_padding": (padding, padding),
                "end_padding": (padding, padding),
                "group_count": (groups,),
            },
        )
        if self.bound:
            self.output(y)
        return y

    def binary(self, type: str, a: int, b: int, dtype: TensorDataType = TensorDataType.UINT8) -> int:
        output = TensorDesc(dtype, self.graph.desc(a).sizes)
        zero_point = codes(self.rng, (1,), np.int8 if dtype is TensorDataType.INT8 else np.uint8)
        inputs = [*self.parameters(a, b), self.scale(), self.graph.add_array(zero_point)]
        [y] = self.graph.add_node(type, inputs, [output])
        return y

    def table(self, x: int, dtype: TensorDataType = TensorDataType.UINT8) -> int:
        desc = TensorDesc(dtype, self.graph.desc(x).sizes)
        [y] = self.graph.add_node(TABLE, [x, self.graph.add_array(codes(self.rng, (256,)))], [desc])
        return y

    def output(self, value: int, *, planes: bool = False) -> int:
        desc = self.graph.desc(value)
        strides = None if planes else channels_last(desc.sizes)
        bound = TensorDesc(desc.data_type, desc.sizes, strides=strides)
        self.graph.mark_output(value, f"output_{self._outputs}", bound)
        self._outputs += 1
        return value

    def compiled(self, device: Device) -> CompiledGraph:
        return CompiledGraph(device, self.graph.copy())

    def run(self, device: Device) -> Any:
        """The output that was marked last."""
        result = self.compiled(device).dispatch(**self.inputs)
        return result if self._outputs == 1 else result[-1]


def stages_of(network: Network, device: Device | None = None) -> list[str]:
    """The names of the operators that are stages."""
    text = network.compiled(Device(num_threads=1) if device is None else device).describe()
    return [part.split()[1] for line in text.splitlines() for part in line.split("; ") if part.startswith("with ")]


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


# What is left alone.


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
