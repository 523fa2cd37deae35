"""What a session tells of its plans: which it tells of, and which lengths it takes where none are given, and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu
from onnx_models import Builder, assert_named_after_nodes, coded


def test_partitions_are_those_of_the_last_run() -> None:
    """A window of 3 rows needs as many; before a run, free lengths are 1."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 1, "rows", 4)), 0.1, np.uint8(7))
    weights = builder.dequantized(np.ones((2, 1, 3, 1), np.int8), 0.1, np.int8(0))
    builder.output(builder.quantized(builder.node("Conv", [x, weights]), 0.1, np.uint8(7)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    assert "onnxruntime" in [part.provider for part in session.partitions()]
    session.run(None, {"x": np.zeros((1, 1, 5, 4), np.uint8)})
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    assert "onnxruntime" in [part.provider for part in session.partitions({"x": (1, 1, 1, 4)})]
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]


def test_lengths_of_one_name_are_planned_alike() -> None:
    builder = Builder()
    shapes = {"x": ("rows", "terms"), "y": ("terms", "columns")}
    x, y = (builder.dequantized(builder.input("uint8", shapes[name], name), 0.5, np.uint8(0)) for name in shapes)
    builder.output(builder.quantized(builder.node("MatMul", [x, y]), 0.5, np.uint8(0)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    for given, planned in (
        ({"x": (2, 64)}, {"x": (2, 64), "y": (64, 1)}),
        ({"y": (64, 5)}, {"x": (1, 64), "y": (64, 5)}),
    ):
        session.run(None, {name: np.ones(shape, np.uint8) for name, shape in planned.items()})
        assert session.partitions(given) == session.partitions(planned) == session.partitions()


def named_steps(builder: Builder) -> list[tuple[str, list[str]]]:
    """Who runs the partitions of a model, and the names of their steps, or of their nodes where there are none."""
    partitions = dmlcpu.InferenceSession(builder.build()).partitions()
    assert_named_after_nodes(partitions)
    return [(part.provider, [step.name for step in part.steps] or [*part.nodes]) for part in partitions]


def test_steps_are_not_named_after_who_reads_them() -> None:
    builder = Builder()
    softmax = builder.node("Softmax", [coded(builder, builder.input("float32", (2, 4)))])
    builder.output(builder.node("Atanh", [softmax]), "float32")
    assert named_steps(builder) == [
        ("dmlcpu", ["QuantizeLinear_0", "DequantizeLinear_1", "Softmax_2"]),
        ("onnxruntime", ["Atanh_3"]),
    ]


def test_a_node_is_of_the_partition_that_computes_it() -> None:
    """The softmax is met before a node without a kernel, and computed when it is read, behind that."""
    builder = Builder()
    softmax = builder.node("Softmax", [coded(builder, builder.input("float32", (2, 4)))])
    other = builder.node("Atanh", [builder.node("Neg", [builder.input("float32", (2, 4), "y")])])
    total = builder.node("Add", [coded(builder, other), softmax])
    builder.output(builder.quantized(total, 0.1, np.uint8(0)), "uint8")
    [first, foreign, second] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert first.nodes == ("QuantizeLinear_0", "Neg_3")
    assert foreign.nodes == ("Atanh_4",)
    assert second.nodes == (
        "DequantizeLinear_1", "Softmax_2", "QuantizeLinear_5", "DequantizeLinear_6", "Add_7", "QuantizeLinear_8",
    )  # fmt: skip
    assert_named_after_nodes([first, second])


def weights(builder: Builder, *shape: int) -> str:
    return builder.dequantized(np.ones(shape, np.int8), 0.1, np.int8(0))


def test_steps_are_named_after_the_operator_before_the_quantizer() -> None:
    builder = Builder()
    x = coded(builder, builder.input("float32", (1, 3, 8, 8)))
    image = builder.node("Conv", [x, weights(builder, 4, 3, 3, 3)])
    image = builder.node("BatchNormalization", [image, *(np.full(4, each, np.float32) for each in (1, 2, 3, 4))])
    image = coded(builder, builder.node("Relu", [image]))
    rows = builder.node("Flatten", [coded(builder, builder.node("GlobalAveragePool", [image]))])
    product = builder.node("MatMul", [rows, weights(builder, 4, 5)])
    total = builder.node("Add", [product, np.ones(5, np.float32)])
    builder.output(builder.quantized(total, 0.1, np.uint8(0)), "uint8")
    [(provider, names)] = named_steps(builder)
    assert provider == "dmlcpu"
    assert [name.partition("_")[0] for name in names] == [
        "QuantizeLinear", "Conv", "GlobalAveragePool", "MatMul", "QuantizeLinear",
    ]  # fmt: skip


def test_what_is_computed_for_two_readers_is_named_after_its_operator() -> None:
    builder = Builder()
    image = coded(builder, builder.input("float32", (1, 4, 8, 8)))
    image = builder.node("Conv", [image, weights(builder, 4, 4, 3, 3)], pads=[1, 1, 1, 1])
    branch = builder.node("Conv", [coded(builder, image), weights(builder, 4, 4, 1, 1)])
    builder.output(builder.node("Add", [branch, image]), "float32")
    [(_, names)] = named_steps(builder)
    assert [name.partition("_")[0] for name in names] == ["QuantizeLinear", "Conv", "QuantizeLinear", "Conv", "Add"]


def test_columns_of_a_layer_are_named_after_it() -> None:
    builder = Builder()
    rows = coded(builder, builder.input("float32", (6, 8)))
    layer = builder.node("Gemm", [rows, weights(builder, 8, 12), np.zeros(12, np.float32)])
    for begin, end in ((0, 6), (6, 12)):
        columns = [np.int64([begin]), np.int64([end]), np.int64([1])]
        builder.output(builder.quantized(builder.node("Slice", [layer, *columns]), 0.1, np.uint8(0)), "uint8")
    [(_, names)] = named_steps(builder)
    assert {name.partition("_")[0] for name in names[1:]} == {"Gemm"}


@pytest.mark.parametrize("operator", ["ConvInteger", "MatMulInteger"])
def test_steps_of_dynamic_models_are_named_after_the_product(operator: str) -> None:
    builder = Builder()
    shapes = [(1, 3, 8, 8), (3, 3, 3, 3)] if operator == "ConvInteger" else [(1, 3, 8, 8), (8, 8)]
    codes, scale, zero_point = builder.node("DynamicQuantizeLinear", [builder.input("float32", shapes[0])], 3)
    sums = builder.node(operator, [codes, np.ones(shapes[1], np.int8), zero_point])
    floats = builder.node("Cast", [sums], to=onnx.TensorProto.FLOAT)
    floats = builder.node("Mul", [floats, builder.node("Mul", [scale, np.float32([0.1])])])
    floats = builder.node("Relu", [builder.node("Add", [floats, np.float32([1])])])
    builder.output(builder.node("GlobalAveragePool", [floats]), "float32")
    [(_, names)] = named_steps(builder)
    assert [name.partition("_")[0] for name in names][-3:] == [operator, "Relu", "GlobalAveragePool"]


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "data" / "models").glob("*.onnx")), ids=lambda path: path.stem
)
def test_steps_of_networks_are_named_after_what_they_compute(path: Path) -> None:
    [partition] = dmlcpu.InferenceSession(path).partitions()
    assert_named_after_nodes([partition])
    operators = {node.name: node.op_type for node in onnx.load(path).graph.node}
    convolutions = [step.name for step in partition.steps if step.type == "QUANTIZED_LINEAR_CONVOLUTION"]
    assert convolutions
    assert {operators.get(name, name.partition("_")[0]) for name in convolutions} <= {
        "Conv",
        "QLinearConv",
        "Gemm",
        "QGemm",
    }
