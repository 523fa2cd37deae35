"""Models to damage, ways to damage them, and what a session may make of the result."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder

__all__ = [
    "BUILT",
    "FILES",
    "MUTATIONS",
    "Mutation",
    "change_declared",
    "deadline",
    "layers",
    "serialized",
    "small",
    "survives",
]

MODELS: Final = Path(__file__).parents[1] / "data" / "models"
FILES: Final = ("keyword_spotting.qdq", "keyword_spotting.qop", "visual_wake_words.qdq", "image_classification.qop")
# Of what a mutated model may ask for, more than this is not run: it would only be slow.
LARGEST: Final = 1 << 22
# Where onnxruntime asks for terabytes, as some of these models do, this sanitizer ends the process.
IS_ADDRESS_SANITIZED: Final = "asan" in os.environ.get("LD_PRELOAD", "")


def small() -> Builder:
    """A model of many operators and a few hundred bytes."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 3, 6, 6)), 0.1, np.uint8(3))
    w = builder.dequantized(np.ones((4, 3, 3, 3), np.int8), np.float32([1, 2, 3, 4]), np.zeros(4, np.int8), axis=0)
    y = builder.node("Relu", [builder.node("Conv", [x, w], pads=[1, 1, 1, 1])])
    y = builder.dequantized(builder.quantized(y, 0.2, np.uint8(0)), 0.2, np.uint8(0))
    y = builder.node("Resize", [y, "", np.float32([1, 1, 2, 0.5])], mode="nearest")
    y = builder.node("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
    y = builder.dequantized(builder.quantized(y, 0.2, np.uint8(0)), 0.2, np.uint8(0))
    w = builder.dequantized(np.ones((4, 4, 1, 2), np.int8), np.float32([1, 2, 3, 4]), np.zeros(4, np.int8), axis=1)
    transposed = {"strides": [1, 2], "pads": [0, 0, 0, 1], "output_padding": [0, 0], "dilations": [1, 1], "group": 1}
    y = builder.node("ConvTranspose", [y, w], **transposed)
    y = builder.dequantized(builder.quantized(y, 0.2, np.uint8(0)), 0.2, np.uint8(0))
    y = builder.node("Concat", [y, builder.node("Sigmoid", [y])], axis=1)
    y = builder.node("Slice", [y, np.int64([1]), np.int64([7]), np.int64([1])])
    y = builder.node("Add", [y, builder.node("Mul", [y, np.float32(0.5)])])
    y = builder.node("Transpose", [y], perm=[0, 2, 1, 3])
    y = builder.node("Softmax", [builder.node("Reshape", [y, np.int64([0, -1])])])
    y = builder.node(
        "Gemm",
        [
            builder.dequantized(builder.quantized(y, 0.01, np.uint8(0)), 0.01, np.uint8(0)),
            builder.dequantized(np.ones((2, 36), np.int8), 0.3, np.int8(1)),
        ],
        transB=1,
    )
    a, b = builder.node(
        "Split",
        [builder.node("Pad", [builder.quantized(y, 1, np.int8(1)), np.int64([0, 0, 0, 1])]), np.int64([1, 2])],
        count=2,
        axis=1,
    )
    builder.output(a, "int8")
    builder.output(builder.dequantized(b, 2, np.int8(0)), "float32")
    return builder


def layers() -> Builder:
    """The nodes around convolutions; few axes where amounts are given, so that absurd ones do not fill the memory."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 8, 6, 6)), 0.1, np.uint8(3))
    y = builder.node("BatchNormalization", [x, *np.ones((4, 8), np.float32)])
    y = builder.dequantized(builder.quantized(y, 0.2, np.uint8(0)), 0.2, np.uint8(0))
    y = builder.node("AveragePool", [y], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1)
    y = builder.node("SpaceToDepth", [builder.node("DepthToSpace", [y], blocksize=2)], blocksize=4)
    y = builder.node("PRelu", [y, np.ones((32, 1, 1), np.float32)])
    y = builder.node("Mul", [builder.node("ReduceMax", [y], axes=[1]), np.float32([[2], [3]])])
    y = builder.node("Squeeze", [builder.node("HardSwish", [y]), np.int64([0])])
    y = builder.node("Pad", [y, np.int64([0, 1, 1, 0, 1, 0])], mode="reflect")
    y = builder.node("Pad", [y, np.int64([0, 1, -1, 1, 1, 0]), np.float32(3)])
    y = builder.node("Gather", [builder.node("ReduceMean", [y], axes=[2], keepdims=0), np.int64([1, 0, 0])], axis=1)
    y = builder.node("Slice", [y, np.int64([-1]), np.int64([-9]), np.int64([1]), np.int64([-1])])
    y = builder.node("Tile", [y, np.int64([1, 2])])
    builder.output(builder.quantized(y, 1, np.int8(1)), "int8")
    return builder


def branches() -> Builder:
    """Branches, one within the other, of conditions that are fed, follow from a shape, and are computed."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(3))
    condition = builder.node("Not", [builder.input("bool", (1,), "use")])
    computed = builder.node("Greater", [builder.node("ReduceSum", [x], keepdims=0), np.float32(0)])

    def branch(prefix: str, *within: onnx.GraphProto) -> onnx.GraphProto:
        inner = Builder(prefix=prefix)
        y = inner.node("Mul", [inner.dequantized(inner.quantized(x, 0.1, np.int8(1)), 0.1, np.int8(1)), np.float32(2)])
        if within:
            length = inner.node("Gather", [inner.node("Shape", [y]), np.int64(0)])
            chosen = inner.node("Equal", [length, np.int64(2)]) if prefix == "a" else computed
            y = inner.node("Add", [y, inner.node("If", [chosen], then_branch=within[0], else_branch=within[1])])
        inner.output(y, "float32")
        return inner.graph()

    graphs = branch("a", branch("aa"), branch("ab")), branch("b", branch("ba"), branch("bb"))
    y = builder.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])
    builder.output(builder.quantized(y, 1, np.int8(1)), "int8")
    return builder


BUILT: Final[Mapping[str, Callable[[], Builder]]] = {"small": small, "layers": layers, "branches": branches}


@functools.cache
def serialized(name: str) -> bytes:
    return BUILT[name]().build() if name in BUILT else (MODELS / f"{name}.onnx").read_bytes()


def feeds_of(session: dmlcpu.InferenceSession) -> dict[str, NDArray[Any]] | None:
    """Zeros for each input; None if they are large."""
    feeds = {}
    for value in session._inputs:
        shape = [length if isinstance(length, int) else 1 for length in value.shape or ()]
        if np.prod([max(length, 1) for length in shape], dtype=object) > LARGEST:
            return None
        feeds[value.name] = np.zeros(shape, value.dtype)
    return feeds


@contextmanager
def deadline(seconds: int = 60) -> Iterator[None]:
    """Fail what takes longer; far longer than anything should, since machines are busy."""

    def fail(*_: Any) -> None:
        raise AssertionError(f"no end after {seconds} seconds")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survives(model: bytes) -> None:
    """Loads in time and runs it, or raises what it may."""
    with pytest.MonkeyPatch.context() as patch:
        if IS_ADDRESS_SANITIZED:
            patch.setitem(sys.modules, "onnxruntime", None)
        try:
            with deadline():
                session = dmlcpu.InferenceSession(model)
            feeds = feeds_of(session)
            if feeds is not None:
                session.run(None, feeds)
        except (dmlcpu.DmlError, MemoryError):
            return


Mutation = Callable[[st.DataObject, onnx.ModelProto], None]
ABSURD: Final = st.sampled_from([0, 1, -1, 2, 3, 7, -5, 100, 1 << 20, 1 << 31, 1 << 62, -(1 << 63)])
SHAPES: Final = st.lists(st.sampled_from([0, 1, 2, 3, 6, 17, 1 << 20, 1 << 40]), max_size=9)


def any_of(data: st.DataObject, entries: Any) -> Any:
    return entries[data.draw(st.integers(0, len(entries) - 1))] if len(entries) else None


def any_graph(data: st.DataObject, model: onnx.ModelProto) -> onnx.GraphProto:
    """The model's own, or a branch."""
    graphs = [model.graph]
    for graph in graphs:  # grows while it is walked
        graphs += [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return any_of(data, graphs)


def change_attribute(data: st.DataObject, model: onnx.ModelProto) -> None:
    graph = any_graph(data, model)
    node = any_of(data, [node for node in graph.node if node.attribute])
    if node is None:
        return
    attribute = any_of(data, node.attribute)
    value = data.draw(st.one_of(ABSURD, st.lists(ABSURD, max_size=6), st.floats(), st.binary(max_size=3)))
    name = attribute.name
    node.attribute.remove(attribute)
    if value != []:
        node.attribute.append(onnx.helper.make_attribute(name, value))


def change_input(data: st.DataObject, model: onnx.ModelProto) -> None:
    graph = any_graph(data, model)
    node = any_of(data, graph.node)
    names = [tensor.name for tensor in graph.initializer] + ["x", "", "nothing"]
    names += [name for other in graph.node for name in other.output]  # later ones make cycles
    if node.input:
        node.input[data.draw(st.integers(0, len(node.input) - 1))] = any_of(data, names)


def drop_or_add_input(data: st.DataObject, model: onnx.ModelProto) -> None:
    graph = any_graph(data, model)
    node = any_of(data, graph.node)
    if data.draw(st.booleans()) and node.input:
        node.input.pop()
    else:
        node.input.append(any_of(data, [*node.input, "x", ""]))


def change_operator(data: st.DataObject, model: onnx.ModelProto) -> None:
    graph = any_graph(data, model)
    from dmlcpu.onnx.rules import RULES

    node = any_of(data, graph.node)
    node.domain, node.op_type = data.draw(
        st.sampled_from([*sorted(RULES), ("", "GridSample"), ("", "Nothing"), ("x", "y")])
    )


def change_constant(data: st.DataObject, model: onnx.ModelProto) -> None:
    """Another shape, type or numbers; large arrays are not made, only asked for."""
    graph = any_graph(data, model)
    tensor = any_of(data, graph.initializer)
    array = onnx.numpy_helper.to_array(tensor)
    kind = data.draw(st.sampled_from(["shape", "type", "numbers", "claim"]))
    if kind == "shape":
        array = np.resize(array, data.draw(st.lists(st.integers(0, 4), max_size=9)))
    elif kind == "type":
        array = array.astype(data.draw(st.sampled_from(["i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "?"])))
    elif array.dtype.kind == "f":
        array = np.full_like(array, data.draw(st.floats(width=32)))
    else:
        array = np.full_like(array, data.draw(ABSURD) & 127)
    name = tensor.name
    with np.errstate(all="ignore"):
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    if kind == "claim":
        del tensor.dims[:]
        tensor.dims.extend(data.draw(SHAPES))


def change_declared(data: st.DataObject, model: onnx.ModelProto) -> None:
    value = any_of(data, [*model.graph.input, *model.graph.output])
    tensor = value.type.tensor_type
    if data.draw(st.booleans()):
        tensor.elem_type = data.draw(st.integers(0, 30))
    else:
        tensor.ClearField("shape")
        for length in data.draw(SHAPES):
            tensor.shape.dim.add().dim_value = length


def change_nodes(data: st.DataObject, model: onnx.ModelProto) -> None:
    graph = any_graph(data, model)
    node = any_of(data, graph.node)
    kind = data.draw(st.sampled_from(["drop", "repeat", "output", "rename"]))
    if kind == "drop":
        graph.node.remove(node)
    elif kind == "repeat":
        graph.node.add().CopyFrom(node)
    elif kind == "output":
        del node.output[:]
    else:
        node.output[0] = any_of(data, ["x", "", "other"])


def change_opset(data: st.DataObject, model: onnx.ModelProto) -> None:
    model.opset_import[0].version = data.draw(st.sampled_from([-1, 0, 1, 7, 9, 10, 11, 13, 21, 28, 1 << 40]))
    model.ir_version = data.draw(st.sampled_from([0, 3, 8, 99]))


# Either an array that fits in memory, or one that nobody tries to make.
LENGTHS: Final = st.sampled_from([0, 1, 5, 1 << 10, 1 << 20, 1 << 24, 1 << 40, 1 << 62])


def grow_constants(data: st.DataObject, model: onnx.ModelProto) -> None:
    """Nodes of constants that ask for arrays of any size, and others that read them; what they make is an output."""
    arrays = {"grown_one": np.int64([1]), "grown_two": np.int64([1, 1]), "grown_zero": np.array(0, np.int64)}
    arrays["grown_by"] = np.int64([data.draw(LENGTHS)])
    arrays["grown_up_to"] = arrays["grown_by"].reshape(())
    arrays["grown_step"] = np.array(1, np.int64)
    arrays["grown_pads"] = np.int64([0, data.draw(LENGTHS)])
    operators = {
        "Expand": ["grown_one", "grown_by"],
        "Tile": ["grown_one", "grown_by"],
        "ConstantOfShape": ["grown_by"],
        "Range": ["grown_zero", "grown_up_to", "grown_step"],
        "Pad": ["grown_one", "grown_pads"],
    }
    readers = {"Add": 2, "Mul": 2, "Concat": 2, "Shape": 1, "Cast": 1, "Unsqueeze": 1, "NonZero": 1, "ReduceSum": 1}
    node, operator = onnx.helper.make_node, data.draw(st.sampled_from(sorted(operators)))
    made = [node(operator, operators[operator], ["grown_0"])]
    for index, reader in enumerate(data.draw(st.lists(st.sampled_from(sorted(readers)), max_size=4))):
        inputs = [f"grown_{index}", "grown_one"][: readers[reader]]
        made.append(node(reader, inputs, [f"grown_{index + 1}"], **({"to": 7} if reader == "Cast" else {})))
    model.graph.node.extend(made)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(made[-1].output[0]))


MUTATIONS: Final[tuple[Mutation, ...]] = (
    grow_constants,
    change_attribute,
    change_input,
    drop_or_add_input,
    change_operator,
    change_constant,
    change_declared,
    change_nodes,
    change_opset,
)
