"""What lowering adds to native graphs: each node of them, and nothing where it refuses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from dmlcpu.graph.lengths import FreeDesc
from dmlcpu.graph.record import Record
from dmlcpu.onnx.foreign.parts import ForeignModels
from dmlcpu.onnx.lowering import Lowering, repeated
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.planning.planner import lowered_model
from dmlcpu.onnx.planning.plans import LoweredGraph, LoweredModel
from dmlcpu.onnx.planning.templates import PlanTemplate
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.use_counts import UseCounts
from dmlcpu.onnx.values import Tensor
from onnx_models import Builder, assert_like_onnxruntime, coded, codes

SHAPE: Final = (24, 16)
SCALE: Final = 2.0**-4  # a power of 2, as the weights' is: sums in floats are exact, too


def dense(builder: Builder, value: str, rng: np.random.Generator) -> str:
    weights = builder.dequantized(codes(rng, "int8", (16, 16)), 2.0**-9, np.int8(0))
    return coded(builder, builder.node("Gemm", [value, weights], transB=1), SCALE)


def lowered_nodes(builder: Builder, is_free: bool) -> list[str]:
    """The nodes of the one native graph of a model, views included."""
    model, device = load_model(builder.build(), to_run=True), dmlcpu.Device(num_threads=1)
    arrays = {"x": (np.dtype(np.float32), SHAPE)}
    lowered: LoweredModel | None
    if is_free:
        template = PlanTemplate.of(model, arrays, device, ForeignModels())
        assert template is not None
        lowered = template.lowered
    else:
        lowered = lowered_model(model, arrays, device, ForeignModels())
    assert lowered is not None
    [part] = lowered.parts
    assert isinstance(part, LoweredGraph)
    return [node.type for node in part.graph.nodes]


@pytest.mark.parametrize("rows", [24, "N"])
def test_dense_layers_in_a_row_are_transposed_at_their_ends_alone(
    random_numbers: np.random.Generator, rows: int | str
) -> None:
    builder = Builder()
    value = coded(builder, builder.input("float32", (rows, 16)), SCALE)
    for _ in range(3):
        value = dense(builder, value, random_numbers)
    builder.output(value, "float32")
    before, behind = ["TRANSPOSE", "RESHAPE"], ["RESHAPE", "TRANSPOSE"]
    layers = [*before, *["QUANTIZED_LINEAR_CONVOLUTION"] * 3, *behind]
    expected = ["ELEMENT_WISE_QUANTIZE_LINEAR", *layers, "ELEMENT_WISE_DEQUANTIZE_LINEAR"]
    assert lowered_nodes(builder, rows == "N") == expected
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(size=SHAPE).astype(np.float32)}, equal=True)


@pytest.mark.parametrize("rows", [24, "N"])
def test_dense_layers_side_by_side_read_one_transposed_matrix(
    random_numbers: np.random.Generator, rows: int | str
) -> None:
    builder = Builder()
    value = coded(builder, builder.input("float32", (rows, 16)), SCALE)
    for _ in range(2):
        builder.output(dense(builder, value, random_numbers), "float32")
    assert lowered_nodes(builder, rows == "N").count("TRANSPOSE") == 1 + 2
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.normal(size=SHAPE).astype(np.float32)}, equal=True)


NO_OPERANDS: Final = {
    "a constant of 9 axes": np.zeros((1,) * 9, np.float32),
    "an empty constant": np.zeros((0, 3), np.float32),
    "a constant of another type": np.zeros(3, np.complex64),
    "an empty input": Tensor(-1, -1, "empty", np.dtype(np.float32), (0, 3)),
}


@pytest.mark.parametrize("refused", NO_OPERANDS.values(), ids=NO_OPERANDS)
def test_an_operand_that_is_refused_leaves_all_as_it_was(refused: Any) -> None:
    """The operands before it, too: neither exported, nor imported, nor a constant of the graph."""
    lowering = Lowering(dmlcpu.Device(num_threads=1), UseCounts([]))
    x = Tensor(-1, -1, "x", np.dtype(np.float32), (3,))
    earlier = lowering.emit("EXAMPLE", [x], np.float32, (3,))
    lowering.begin_partition()
    [first, second] = lowering.partitions
    before = [graph.copy() for graph in (first.graph, second.graph)]
    with pytest.raises(NotNative, match=r"a tensor of shape|elements of type complex64"):
        lowering.emit("EXAMPLE", [x, earlier, np.ones(3, np.float32), None, refused], np.float32, (3,))
    for partition, graph in zip(lowering.partitions, before, strict=True):
        assert partition.graph.nodes == graph.nodes
        assert partition.graph.descs == graph.descs
        assert not partition.exported
    assert not second.imported


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=str)
def test_parameters_that_are_shared_cannot_be_written_to(shape: tuple[int, ...]) -> None:
    lowering = Lowering(dmlcpu.Device(num_threads=1), UseCounts([]))
    parameters = Parameters(np.float32(0.5), 7, np.dtype(np.uint8))
    for array, element in zip(lowering.pair(parameters), (0.5, 7), strict=True):
        view = repeated(array, shape)
        assert isinstance(view, np.ndarray)
        assert (view.shape, view.base is array) == (shape or (1,), True)
        assert (view == element).all()
        for shared in (array, view):
            with pytest.raises(ValueError, match="read-only"):
                shared[...] = 1


def test_tensors_of_the_same_lengths_have_one_desc() -> None:
    """Those of other lengths, types or axes have others; lengths of one value may differ for other inputs."""
    lowering, record = Lowering(dmlcpu.Device(num_threads=1), UseCounts([])), Record()
    rows, columns = record.free(1000), record.free(1000)
    shapes = [(rows, 2000), (columns, 2000), (rows, 2001), (rows, 2000, 1), (2000, rows)]
    for shape in shapes:
        for dtype in (np.float32, np.uint8):
            for length in (shape, [*shape]):
                lowering.emit("EXAMPLE", [], dtype, length)
    descs = lowering.partition.graph.descs
    assert len({*map(id, descs)}) == 2 * len(shapes)
    for begin in range(0, len(descs), 2):
        first, second = descs[begin : begin + 2]
        assert first is second
        assert isinstance(first, FreeDesc)
        shape = shapes[begin // 4]
        assert len(first.sizes) == len(shape)
        assert all(size is length for size, length in zip(first.sizes, shape, strict=True))


def test_no_number_is_a_length() -> None:
    """Nor one below 0, which shapes that are not valid have."""
    lowering, rows = Lowering(dmlcpu.Device(num_threads=1), UseCounts([])), Record().free(1000)
    lowering.emit("EXAMPLE", [], np.float32, (rows, rows))
    for number in range(-5, 0):
        with pytest.raises(NotNative):
            lowering.emit("EXAMPLE", [], np.float32, (rows, number))
