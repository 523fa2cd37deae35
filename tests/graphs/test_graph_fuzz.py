"""Random graphs of operators on codes and of views, on every device, against the references one after the other.

Whatever becomes a stage of a convolution, is written into its place in a whole, shares memory or is laid out otherwise:
the bits are those of the plain operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import reference
from dmlcpu import TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.tensor import data_type_of
from sample_graphs import Devices, Rng, codes

Array = NDArray[Any]

# Larger values are not made of others, so that the references are quick.
MOST_ELEMENTS = 6000
TYPES = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True)
class Value:
    """Its number in the graph, and what it is."""

    number: int
    codes: Array


def channels_last(sizes: Sequence[int]) -> tuple[int, ...]:
    _, channels, height, width = sizes
    return (channels * height * width, 1, channels * width, channels)


class Program:
    """A graph under construction, with the codes that each of its values must have."""

    def __init__(self, rng: Rng) -> None:
        self.graph, self.rng = NativeGraph(), rng
        self.inputs: dict[str, Array] = {}
        self.values: list[Value] = []
        self.add_input((int(rng.integers(1, 3)), *(int(length) for length in rng.choice((1, 2, 3, 5, 8, 16, 17), 3))))

    def add_input(self, sizes: Sequence[int]) -> Value:
        array = codes(self.rng, sizes, self.any_type())
        if self.rng.integers(2):
            array = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        name = f"input_{len(self.inputs)}"
        self.inputs[name] = array
        return self.kept(self.graph.add_input(name, TensorDesc.from_array(array)), array)

    def kept(self, number: int, array: Array) -> Value:
        self.values.append(Value(number, array))
        return self.values[-1]

    def any_type(self) -> np.dtype[Any]:
        return TYPES[int(self.rng.integers(2))]

    def any_value(self) -> Value:
        """Mostly the last one, so that graphs are deep, and convolutions take what follows as stages."""
        return self.values[-1 if self.rng.integers(3) else int(self.rng.integers(len(self.values)))]

    def value_like(self, value: Value) -> Value:
        """One of the same sizes: another one, the same, or a new input."""
        alike = [other for other in self.values if other.codes.shape == value.codes.shape]
        choice = int(self.rng.integers(len(alike) + 1))
        return alike[choice] if choice < len(alike) else self.add_input(value.codes.shape)

    def operator(self, type: str, operands: dict[str, Value | Array | None], dtype: Any, **attributes: Any) -> Value:
        """Add an operator with its operands in the order of its desc."""
        numbers = [
            operand.number if isinstance(operand, Value) else None if operand is None else self.graph.add_array(operand)
            for operand in operands.values()
        ]
        arrays = {name: operand.codes if isinstance(operand, Value) else operand for name, operand in operands.items()}
        expected = reference.evaluate(type, {**arrays, **attributes, "output_data_type": dtype})["output_tensor"]
        rows = {name: value if isinstance(value, tuple) else (value,) for name, value in attributes.items()}
        desc = TensorDesc(data_type_of(np.dtype(dtype)), expected.shape)
        [number] = self.graph.add_node(type, numbers, [desc], rows)
        return self.kept(number, expected)

    def view(self, type: str, inputs: Sequence[Value], expected: Array, **attributes: Any) -> Value:
        desc = TensorDesc(data_type_of(expected.dtype), expected.shape)
        [number] = self.graph.add_node(type, [value.number for value in inputs], [desc], attributes)
        return self.kept(number, expected)

    def scale(self, lowest: float = 0.1, highest: float = 2.0) -> Array:
        return self.rng.uniform(lowest, highest, 1).astype(np.float32)

    def marked(self) -> tuple[NativeGraph, list[Array]]:
        """The graph with the last value and some of the others as outputs, and these."""
        graph = self.graph.copy()
        expected: list[Array] = []
        for value in self.values:
            if value is not self.values[-1] and self.rng.integers(8):
                continue
            sizes = value.codes.shape
            strides = channels_last(sizes) if self.rng.integers(2) else None
            desc = TensorDesc(data_type_of(value.codes.dtype), sizes, strides=strides)
            graph.mark_output(value.number, f"output_{len(expected)}", desc)
            expected.append(value.codes)
        return graph, expected


def add_convolution(program: Program) -> None:
    rng, x = program.rng, program.any_value()
    channels, *spatial = x.codes.shape[1:]
    groups = channels if rng.integers(2) else 1
    outputs = groups if groups > 1 else int(rng.choice((1, 4, 16, 33)))
    kernel, padding = (int(rng.choice((1, 3))), 1) if min(spatial) > 1 else (1, int(rng.integers(2)))
    filters = codes(rng, (outputs, channels // groups, kernel, kernel), np.int8)
    dtype = program.any_type()
    stride = int(rng.integers(1, 3))
    program.operator(
        "QUANTIZED_LINEAR_CONVOLUTION",
        {
            "input": x,
            "input_scale": np.ones(1, np.float32),
            "input_zero_point": codes(rng, (1,), x.codes.dtype),
            "filter": filters,
            # So that about half of the codes saturate.
            "filter_scale": rng.uniform(0.005, 0.01, (1, outputs, 1, 1)).astype(np.float32),
            "filter_zero_point": codes(rng, (1, outputs, 1, 1), np.int8) if rng.integers(2) else None,
            "bias": rng.integers(-9999, 9999, (1, outputs, 1, 1), np.int32) if rng.integers(2) else None,
            "output_scale": program.scale(),
            "output_zero_point": codes(rng, (1,), dtype),
        },
        dtype,
        strides=(stride, stride),
        dilations=(1, 1),
        start_padding=(padding, padding),
        end_padding=(padding, padding),
        group_count=groups,
    )


def binary(type: str) -> Callable[[Program], None]:
    def add_binary(program: Program) -> None:
        rng, a = program.rng, program.any_value()
        operands: dict[str, Value | Array | None] = {}
        for name, value in (("a", a), ("b", program.value_like(a))):
            operands |= {name: value, f"{name}_scale": program.scale()}
            operands[f"{name}_zero_point"] = codes(rng, (1,), value.codes.dtype)
        dtype = program.any_type()
        operands |= {"output_scale": program.scale(), "output_zero_point": codes(rng, (1,), dtype)}
        program.operator(type, operands, dtype)

    return add_binary


def add_table(program: Program) -> None:
    x = program.any_value()
    program.operator("CODE_TABLE", {"input": x, "table": codes(program.rng, (256,))}, program.any_type())


def add_max_pooling(program: Program) -> None:
    x, stride = program.any_value(), int(program.rng.integers(1, 3))
    twice = {"strides": (stride,) * 2, "dilations": (1, 1), "window_size": (2, 2)}
    program.operator("MAX_POOLING", {"input": x}, x.codes.dtype, **twice, start_padding=(1, 1), end_padding=(0, 1))


def add_average_pooling(program: Program) -> None:
    x, rng = program.any_value(), program.rng
    operands: dict[str, Value | Array | None] = {"input": x}
    for name in ("input", "output"):
        operands[f"{name}_scale"] = program.scale().reshape(1, 1, 1, 1)
        operands[f"{name}_zero_point"] = codes(rng, (1, 1, 1, 1), x.codes.dtype)
    program.operator(
        "QUANTIZED_LINEAR_AVERAGE_POOLING",
        operands,
        x.codes.dtype,
        strides=(1, 1),
        window_size=x.codes.shape[2:] if rng.integers(2) else (1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        dilations=(1, 1),
        include_padding=0,
    )


def add_padding(program: Program) -> None:
    x, rng = program.any_value(), program.rng
    start, end = (tuple(int(length) for length in rng.integers(0, 3, 4)) for _ in range(2))
    program.operator(
        "PADDING", {"input": x}, x.codes.dtype, start_padding=start, end_padding=end, value=(int(rng.integers(256)),)
    )


def add_whole(program: Program) -> None:
    x, axis = program.any_value(), int(program.rng.integers(4))
    parts = [x] + [program.value_like(x) for _ in range(int(program.rng.integers(1, 3)))]
    parts = [part for part in parts if part.codes.dtype == x.codes.dtype]
    arrays = [part.codes for part in parts]
    if program.rng.integers(2):
        program.view("JOIN", parts, np.concatenate(arrays, axis), axis=(axis,))
        return
    turns = np.stack(arrays, axis + 1).reshape(*x.codes.shape[:axis], -1, *x.codes.shape[axis + 1 :])
    program.view("INTERLEAVE", parts, turns, axis=(axis,))


def add_slice(program: Program) -> None:
    x, rng = program.any_value(), program.rng
    starts = tuple(int(rng.integers(length)) for length in x.codes.shape)
    steps = tuple(int(step) for step in rng.integers(1, 3, 4))
    cut = tuple(slice(start, None, step) for start, step in zip(starts, steps, strict=True))
    program.view("SLICE", [x], x.codes[cut], starts=starts, steps=steps)


def add_transposition(program: Program) -> None:
    x = program.any_value()
    order = tuple(int(axis) for axis in program.rng.permutation(4))
    program.view("TRANSPOSE", [x], x.codes.transpose(order), permutation=order)


def add_reshape(program: Program) -> None:
    x = program.any_value()
    sizes = tuple(int(axis) for axis in program.rng.permutation(x.codes.shape))
    program.view("RESHAPE", [x], x.codes.reshape(sizes))


def add_reinterpretation(program: Program) -> None:
    """Planes that are said to be pixels, or pixels to be planes."""
    x = program.any_value()
    desc, (n, c, h, w) = program.graph.desc(x.number), x.codes.shape
    if desc.strides is None:
        strides, expected = channels_last(desc.sizes), x.codes.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    else:
        strides, expected = None, x.codes.transpose(0, 2, 3, 1).reshape(n, c, h, w)
    number = program.graph.reinterpret(x.number, TensorDesc(desc.data_type, desc.sizes, strides=strides))
    program.kept(number, expected)


def add_expansion(program: Program) -> None:
    """Of one index of an axis."""
    x, axis = program.any_value(), int(program.rng.integers(4))
    starts = tuple(int(program.rng.integers(length)) if a == axis else 0 for a, length in enumerate(x.codes.shape))
    one = np.take(x.codes, [starts[axis]], axis)
    line = program.view("SLICE", [x], one, starts=starts, steps=(1,) * 4)
    sizes = (*one.shape[:axis], int(program.rng.integers(1, 7)), *one.shape[axis + 1 :])
    program.view("EXPAND", [line], np.broadcast_to(one, sizes))


STEPS = (
    *[add_convolution] * 4,
    binary("ELEMENT_WISE_QUANTIZED_LINEAR_ADD"),
    binary("QUANTIZED_MULTIPLY"),
    *[add_table] * 2,
    add_max_pooling,
    add_average_pooling,
    add_padding,
    add_whole,
    add_slice,
    add_transposition,
    add_reshape,
    add_reinterpretation,
    add_expansion,
)


@given(st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=10), st.integers(0, 2**32 - 1))
def test_graphs_equal_the_references(devices: Devices, steps: list[int], seed: int) -> None:
    program = Program(np.random.default_rng(seed))
    for step in steps:
        STEPS[step](program)
        if prod(program.values[-1].codes.shape) > MOST_ELEMENTS:
            break
    graph, expected = program.marked()
    for label, device in devices.items():
        result = CompiledGraph(device, graph.copy()).dispatch(**program.inputs)
        for index, wanted in enumerate(expected):
            given = result if len(expected) == 1 else result[index]
            np.testing.assert_array_equal(given, wanted, f"{label}, output {index}")
