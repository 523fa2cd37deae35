"""Quantized models with FLOAT16 between codes, which run in FLOAT32 as one native graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
import pytest

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.models.model import load_model
from onnx_models import Array, Builder, codes, results_of_onnxruntime
from template_checks import assert_traced_like_lowered

SHAPE: Final = (2, 8, 9, 7)
POINT: Final = np.int8(-3)
SCALE: Final = 0.046875  # all scales here are numbers of FLOAT16
FLOAT: Final = onnx.TensorProto.FLOAT
FLOAT16: Final = onnx.TensorProto.FLOAT16


def images(rng: np.random.Generator, dtype: Any) -> Array:
    return rng.normal(0, 2, SHAPE).astype(np.float16).astype(dtype)


class Network:
    """Two convolutions and an addition between codes, and what is between them in a type of floats.

    Args:
        dtype: Of the floats.
        with_casts: Whether scales are FLOAT32, with Casts before QuantizeLinear and behind DequantizeLinear.
    """

    def __init__(self, rng: np.random.Generator, dtype: Any, with_casts: bool = False) -> None:
        self.builder = builder = Builder(21)
        self.dtype, self.with_casts = np.dtype(dtype), with_casts and dtype == np.float16
        self.filters = [codes(rng, np.int8, (8, 8, 3, 3)) for _ in range(2)]
        self.biases = [rng.normal(0, 1, 8).astype(np.float16).astype(dtype) for _ in range(2)]
        x = builder.input(dtype, SHAPE)
        first = self.coded(builder.node("Relu", [self.convolution(0, self.coded(x))]))
        second = self.coded(self.convolution(1, first))
        self.sum = self.coded(builder.node("Add", [first, second]), 0.125)
        builder.output(self.sum, dtype)

    def scale(self, value: float) -> Array:
        return np.array(value, np.float32 if self.with_casts else self.dtype)

    def coded(self, value: str, scale: float = SCALE) -> str:
        builder = self.builder
        floats = builder.node("Cast", [value], to=FLOAT) if self.with_casts else value
        return self.dequantized(builder.node("QuantizeLinear", [floats, self.scale(scale), POINT]), scale, POINT)

    def dequantized(self, value: Any, scale: float, point: Any) -> str:
        floats: str = self.builder.node("DequantizeLinear", [value, self.scale(scale), point])
        return str(self.builder.node("Cast", [floats], to=FLOAT16)) if self.with_casts else floats

    def convolution(self, place: int, value: str) -> str:
        weights = self.dequantized(self.filters[place], 0.00390625, np.int8(0))
        return str(self.builder.node("Conv", [value, weights, self.biases[place]], pads=[1] * 4))


def run_natively(model: bytes, **feeds: Array) -> list[Array]:
    session = dmlcpu.InferenceSession(model)
    results: list[Array] = session.run(None, feeds)
    shapes = {name: array.shape for name, array in feeds.items()}
    assert [partition.provider for partition in session.partitions(shapes)] == ["dmlcpu"]
    assert_traced_like_lowered(model, shapes)
    return results


@pytest.mark.parametrize("with_casts", [False, True])
def test_results_are_those_in_float32(random_numbers: np.random.Generator, with_casts: bool) -> None:
    half = Network(np.random.default_rng((SEED, 1)), np.float16, with_casts).builder.build()
    single = Network(np.random.default_rng((SEED, 1)), np.float32).builder.build()
    x = images(random_numbers, np.float16)
    [result], [expected] = run_natively(half, x=x), run_natively(single, x=x.astype(np.float32))
    assert result.dtype == np.float16
    assert np.array_equal(result, expected.astype(np.float16))
    [theirs] = results_of_onnxruntime(half, {"x": x})
    assert np.abs(result - theirs).max() <= np.float16(0.125)  # one code of the sum


def test_the_session_tells_the_types_of_the_file(random_numbers: np.random.Generator) -> None:
    session = dmlcpu.InferenceSession(Network(random_numbers, np.float16).builder.build())
    assert [value.type for value in session.get_inputs()] == ["tensor(float16)"]
    assert [value.type for value in session.get_outputs()] == ["tensor(float16)"]
    with pytest.raises(dmlcpu.BindingError, match="float16"):
        session.run(None, {"x": np.zeros(SHAPE, np.int32)})


def test_numbers_beyond_float16_are_kept(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    x = builder.input("float16", (3, 40))
    squared = builder.node("Mul", [builder.node("Mul", [x, np.float16(256)]), x])
    mean = builder.node("Mul", [squared, np.float16(1 / 1024)])
    builder.output(builder.node("QuantizeLinear", [mean, np.float16(1), np.uint8(0)]), "uint8")
    values = random_numbers.integers(-30, 31, (3, 40)).astype(np.float16)
    [result] = run_natively(builder.build(), x=values)
    assert np.array_equal(result, np.rint(values.astype(np.float32) ** 2 / 4))


def test_constants_and_types_in_attributes(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    x = builder.input("float16", (2, 6))
    held = builder.node("Constant", [], value=onnx.numpy_helper.from_array(np.float16([0.5] * 6)))
    zeros = builder.node("ConstantOfShape", [np.int64([6])], value=onnx.numpy_helper.from_array(np.float16([2])))
    like = builder.node("CastLike", [np.int32([1, 2, 3, 4, 5, 6]), held])
    total = x
    for other in (held, zeros, like):
        total = builder.node("Add", [total, other])
    floats = builder.node("Cast", [builder.node("QuantizeLinear", [total, np.float16(0.25), np.uint8(9)])], to=FLOAT16)
    builder.output(builder.node("Mul", [floats, np.float16(0.5)]), "float16")
    values = random_numbers.integers(-9, 30, (2, 6)).astype(np.float16)
    [result] = run_natively(builder.build(), x=values)
    [expected] = results_of_onnxruntime(builder.build(), {"x": values})
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


def test_outputs_that_are_read_inputs_and_constants(random_numbers: np.random.Generator) -> None:
    network = Network(random_numbers, np.float16)
    builder = network.builder
    builder.constant(np.float16([1, 2.5]), "known")
    builder.output("x", "float16")
    builder.output("known", "float16")
    builder.output(builder.node("Neg", [network.sum]), "float16")
    builder.nodes.append(onnx.helper.make_node("Identity", [network.sum], ["x/float32"]))  # taken
    builder.output("x/float32", "float16")
    x = images(random_numbers, np.float16)
    total, given, known, negative, same = run_natively(builder.build(), x=x)
    assert np.array_equal(given, x)
    assert np.array_equal(known, np.float16([1, 2.5]))
    assert np.array_equal(negative, -total)
    assert np.array_equal(same, total)
    assert {array.dtype for array in (total, given, known, negative, same)} == {np.dtype(np.float16)}


def branch(prefix: str, factor: float, captured: str) -> onnx.GraphProto:
    inner = Builder(21, prefix)
    product = inner.node("Mul", [captured, np.float16(factor)])
    inner.output(inner.node("Cast", [inner.node("Cast", [product], to=FLOAT)], to=FLOAT16), "float16")
    return inner.graph()


@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("captured", ["the input", "a value"])
def test_branches(random_numbers: np.random.Generator, condition: bool, captured: str) -> None:
    network = Network(random_numbers, np.float16)
    builder = network.builder
    name = "x" if captured == "the input" else network.sum
    branches = {"then_branch": branch("t", 2, name), "else_branch": branch("e", 4, name)}
    builder.output(builder.node("If", [builder.input("bool", (1,), "which")], **branches), "float16")
    x = images(random_numbers, np.float16)
    session = dmlcpu.InferenceSession(builder.build())
    total, result = session.run(None, {"x": x, "which": np.array([condition])})
    assert np.array_equal(result, (x if captured == "the input" else total) * np.float16(2 if condition else 4))


@pytest.mark.parametrize("name", ["state", "x"])
def test_loops(random_numbers: np.random.Generator, name: str) -> None:
    """What goes round may be called as an input of the model is."""
    network = Network(random_numbers, np.float16)
    builder, body = network.builder, Builder(21, "body")
    body.input("int64", (), "count")
    body.input("bool", (), "goes_on")
    state = body.input("float16", SHAPE, name)
    body.nodes.append(onnx.helper.make_node("Identity", ["goes_on"], ["still"]))
    body.output("still", "bool")
    body.output(body.node("Add", [state, np.float16(0.5)]), "float16")
    result = builder.node("Loop", [np.int64(3), np.array(True), network.sum], body=body.graph())
    builder.output(result, "float16")
    total, raised = dmlcpu.InferenceSession(builder.build()).run(None, {"x": images(random_numbers, np.float16)})
    assert np.array_equal(raised, (total.astype(np.float32) + np.float32(1.5)).astype(np.float16))


def test_weights_stay_floats_where_onnxruntime_leaves_them(random_numbers: np.random.Generator) -> None:
    builder = Builder(21)
    coded = [builder.input("float16", (3, 16)), np.float16(SCALE), POINT]
    x = builder.node("DequantizeLinear", [builder.node("QuantizeLinear", coded), *coded[1:]])
    weights = random_numbers.normal(0, 1, (16, 8)).astype(np.float16)
    product = builder.node("Gemm", [x, weights, np.float16([0.5] * 8)])
    builder.output(builder.node("QuantizeLinear", [product, np.float16(0.5), POINT]), "int8")
    constants = load_model(builder.build(), to_run=True).constants
    assert [array.dtype.name for array in constants.values() if array.shape == (16, 8)] == ["float32"]


def without_codes(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.op_type = "Identity"
            del node.input[1:]


def with_unknown_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].ClearField("type")


def with_other_domain(model: onnx.ModelProto) -> None:
    model.opset_import.add(domain="other", version=1)
    model.graph.node.append(onnx.helper.make_node("Unknown", ["x"], ["of_other"], domain="other"))


def with_sparse_tensor(model: onnx.ModelProto) -> None:
    values = onnx.numpy_helper.from_array(np.float16([1]))
    sparse = onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(np.int64([2])), [4])
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["sparse"], sparse_value=sparse))


def with_function_of_attributes(model: onnx.ModelProto) -> None:
    cast = onnx.helper.make_node("Cast", ["a"], ["b"])
    cast.attribute.append(onnx.AttributeProto(name="to", type=onnx.AttributeProto.INT, ref_attr_name="type"))
    imports = [onnx.helper.make_opsetid("", 12)]  # another Cast than the model's: the call stays one
    model.opset_import.add(domain="own", version=1)
    model.functions.append(onnx.helper.make_function("own", "As", ["a"], ["b"], [cast], imports, ["type"]))
    model.graph.node.append(onnx.helper.make_node("As", ["x"], ["casted"], domain="own", type=FLOAT16))


@pytest.mark.parametrize(
    "change",
    [without_codes, with_unknown_output, with_other_domain, with_sparse_tensor, with_function_of_attributes],
)
def test_left_as_it_is(random_numbers: np.random.Generator, change: Callable[[onnx.ModelProto], None]) -> None:
    proto = Network(random_numbers, np.float16).builder.proto()
    assert "x/float32" in {
        name for node in load_model(proto.SerializeToString(), to_run=True).nodes for name in node.reads
    }
    change(proto)
    model = load_model(proto.SerializeToString(), to_run=True)
    assert "float16" in {array.dtype.name for array in model.constants.values()}
    assert [node.outputs for node in model.nodes] == [tuple(node.output) for node in proto.graph.node]


def test_functions(random_numbers: np.random.Generator) -> None:
    network = Network(random_numbers, np.float16)
    builder = network.builder
    builder.nodes.append(onnx.helper.make_node("Doubled", [network.sum], ["doubled"], domain="own"))
    builder.output("doubled", "float16")
    proto = builder.proto()
    two = onnx.helper.make_node("Constant", [], ["two"], value=onnx.numpy_helper.from_array(np.array(2, np.float16)))
    product = onnx.helper.make_node("Mul", ["a", "two"], ["b"])
    imports = [onnx.helper.make_opsetid("", 21)]
    proto.functions.append(onnx.helper.make_function("own", "Doubled", ["a"], ["b"], [two, product], imports))
    proto.opset_import.add(domain="own", version=1)
    x = images(random_numbers, np.float16)
    total, doubled = dmlcpu.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert np.array_equal(doubled, total * np.float16(2))
