"""Damaged models and wrong feeds: an error of this package with a name, or a run; never anything else."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.constants.folding import Folding, propagated
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.refusals import NotNative
from model_mutations import BUILT, FILES, MUTATIONS, Mutation, deadline, serialized, survives
from onnx_models import Builder


@given(st.sampled_from(("small", *FILES)), st.floats(0, 1))
def test_truncated(name: str, part: float) -> None:
    model = serialized(name)
    survives(model[: int(len(model) * part)])


@given(st.sampled_from(("small", "small", *FILES)), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 7)), max_size=4))
def test_flipped_bits(name: str, flips: list[tuple[float, int]]) -> None:
    model = bytearray(serialized(name))
    for place, bit in flips:
        model[min(int(len(model) * place), len(model) - 1)] ^= 1 << bit
    survives(bytes(model))


def test_axes_that_are_the_same() -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(3))
    y = builder.node("Unsqueeze", [x, np.int64([1, -3])])
    builder.output(builder.quantized(y, 0.1, np.uint8(3)), "uint8")
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(builder.build())


@pytest.mark.parametrize("operator", ["Abs", "Reshape", "Identity", "Concat"])
def test_more_outputs_than_an_operator_has(operator: str) -> None:
    """Of a node that is lowered, and of nodes of constants."""
    builder, constant = Builder(), np.ones((2, 3), np.float32)
    x = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(3))
    operands: list[Any] = {"Abs": [x], "Reshape": [constant, np.array([6])]}.get(operator, [constant])
    attributes = {"axis": 0} if operator == "Concat" else {}
    for name in builder.node(operator, operands, count=2, **attributes):
        builder.output(name, "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match=operator):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((2, 3), np.uint8)})


@given(st.binary(max_size=200))
def test_any_bytes(model: bytes) -> None:
    survives(model)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("scale", [np.inf, np.nan, 3e38, 1e-44])
def test_scales_whose_products_are_no_numbers(operator: str, scale: float) -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 3, 4, 4)), scale, np.uint8(3))
    w = builder.dequantized(np.ones((3, 3, 2, 2), np.int8), scale, np.int8(0))
    y = builder.node(operator, [x, w, builder.constant(np.float32([1, -2, 3]))], strides=[2, 2])
    builder.output(builder.quantized(y, 0.5, np.uint8(0)), "uint8")
    builder.output(y, "float32")
    survives(builder.build())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@pytest.mark.parametrize("name", BUILT)
@given(st.data())
def test_mutated(name: str, mutation: Mutation, data: st.DataObject) -> None:
    model = onnx.load_model_from_string(serialized(name))
    mutation(data, model)
    survives(model.SerializeToString())


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -1.0, 0.0, 3e38])
@pytest.mark.parametrize("name", BUILT)
def test_constants_of_any_value(name: str, value: float) -> None:
    """Each floating-point constant in turn; warnings are errors here."""
    model = onnx.load_model_from_string(serialized(name))
    for index, tensor in enumerate(model.graph.initializer):
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            changed = onnx.load_model_from_string(serialized(name))
            changed.graph.initializer[index].CopyFrom(
                onnx.numpy_helper.from_array(np.full_like(array, value), tensor.name)
            )
            survives(changed.SerializeToString())


@pytest.mark.parametrize("name", BUILT)
@given(st.data(), st.lists(st.sampled_from(MUTATIONS), min_size=2, max_size=5))
def test_mutated_more_than_once(name: str, data: st.DataObject, mutations: list[Mutation]) -> None:
    model = onnx.load_model_from_string(serialized(name))
    for mutation in mutations:
        if model.graph.node and not any(not node.output for node in model.graph.node):
            try:
                mutation(data, model)
            except (ValueError, AttributeError, TypeError):  # an earlier mutation left nothing to change
                continue
    survives(model.SerializeToString())


def endless() -> onnx.GraphProto:
    """The body of a loop that adds up its counter."""
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node
    return onnx.helper.make_graph(
        [node("Identity", ["more"], ["and_more"]), node("Add", ["total", "count"], ["sum"])],
        "body",
        [info("count", 7, []), info("more", 9, []), info("total", 7, [])],
        [info("and_more", 9, []), info("sum", 7, [])],
    )


ENDLESS: Final[Mapping[str, tuple[str, list[Any], dict[str, Any]]]] = {
    "loop": ("Loop", [np.array(1 << 62), np.array(True), np.array(0)], {"body": endless()}),
    "pooling": ("MaxPool", [np.ones((1, 1, 400, 400), np.float32)], {"kernel_shape": [200, 200]}),
    "scattering": ("ScatterElements", [np.zeros(1 << 21), np.zeros(1 << 21, np.int64), np.zeros(1 << 21)], {}),
    "product": ("MatMul", [np.ones((1 << 11, 1 << 11), np.int64), np.ones((1 << 11, 1 << 11), np.int64)], {}),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_much_work_on_constants_is_left_for_later(case: str) -> None:
    """Loading does not do it; whoever computes it then, does so in a run."""
    operator, inputs, attributes = ENDLESS[case]
    builder = Builder()
    builder.output(builder.node(operator, inputs, **attributes), "float32")
    loaded = load_model(builder.build())
    folding = Folding(sum(array.nbytes for array in loaded.constants.values()))
    with deadline(), pytest.raises(NotNative):
        folding(loaded.nodes[0], [Constant(loaded.constants[name]) for name in loaded.nodes[0].inputs])


def test_shapes_are_propagated_without_their_values() -> None:
    """What shapes become of values of another runtime, through nodes that compute with shapes; large arrays do not."""
    builder = Builder()
    x = builder.input("float32", (4, 6))
    for value in (builder.node("Tan", [x]), builder.node("Expand", [np.float32([1]), np.int64([1 << 24])])):
        shape = builder.node("Shape", [value])
        first = builder.node("Gather", [shape, np.int64([0])])
        half = builder.node("Div", [first, np.int64([2])])
        parts = builder.node("Concat", [half, np.int64([-1])], axis=0)
        builder.output(builder.node("Reshape", [value, parts]), "float32")
    proto = builder.proto()
    nodes = load_model(builder.build()).nodes
    with deadline():
        known = propagated(proto, nodes)
    assert [known[value.name] for value in proto.graph.output] == [
        (np.dtype(np.float32), (2, 12)),
        (np.dtype(np.float32), (1 << 23, 2)),
    ]


FEEDS: Final = st.one_of(
    st.none(),
    st.integers(-3, 300),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(0, 255), max_size=4),
    st.builds(
        np.zeros,
        st.lists(st.integers(0, 6), max_size=6).map(tuple),
        st.sampled_from(["u1", "i1", "f4", "f8", "?", "O", "S3", ">f4"]),
    ),
)


@given(st.dictionaries(st.sampled_from(["x", "y", ""]), FEEDS, max_size=2))
def test_wrong_feeds(feeds: Mapping[str, Any]) -> None:
    session = opened()
    x = feeds.get("x")
    fits = isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.shape == (1, 3, 6, 6) and set(feeds) == {"x"}
    if fits:
        session.run(None, feeds)
    else:
        with pytest.raises(dmlcpu.BindingError):
            session.run(None, feeds)


@functools.cache
def opened() -> dmlcpu.InferenceSession:
    return dmlcpu.InferenceSession(serialized("small"))


def test_the_model_itself_runs() -> None:
    session = opened()
    first, second = session.run(None, {"x": np.zeros((1, 3, 6, 6), np.uint8)})
    assert (first.shape, second.shape) == ((1, 1), (1, 2))
    layered = dmlcpu.InferenceSession(serialized("layers"))
    assert layered.run(None, {"x": np.zeros((1, 8, 6, 6), np.uint8)})[0].shape == (2, 6)
    assert [partition.provider for partition in layered.partitions()] == ["dmlcpu"]
    with pytest.raises(dmlcpu.BindingError, match="nothing"):
        session.run(["nothing"], {"x": np.zeros((1, 3, 6, 6), np.uint8)})
