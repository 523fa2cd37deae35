"""Nodes that another runtime takes, where lengths are free: its session is opened once, for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.foreign.parts import ForeignModels, ForeignPart
from dmlcpu.onnx.foreign.runner import ForeignRunner, _precisions
from dmlcpu.onnx.models.loops import MOST_NODES
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.planner import make_plan
from onnx_models import Array, Builder, coded, codes, results_of_onnxruntime
from template_checks import assert_templates_follow_the_rules, assert_traced_like_lowered

STEP = 0.05  # of codes
SHAPES = [(2, 3), (2, 4), (1, 9), (5, 1), (2, 4), (3, 7)]


def halves(builder: Builder, value: str, source: str) -> str:
    """Rows of a matrix, each in two rows: of lengths that are computed of a shape and of a constant."""
    rows = builder.node("Gather", [builder.node("Shape", [source]), np.int64([0])])
    shape = builder.node("Concat", [builder.node("Mul", [rows, np.int64([2])]), np.int64([-1])], axis=0)
    name: str = builder.node("Reshape", [value, shape])
    return name


def ends_elsewhere(rng: np.random.Generator) -> Builder:
    """A ReLU of codes; then a remainder, which has no kernel, and what follows it: shapes, masks and weights."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("rows", "columns")))
    builder.output(builder.quantized(builder.node("Relu", [x]), 0.1, np.uint8(7)), "uint8")
    half = onnx.numpy_helper.from_array(np.float32([0.5]))
    mask = builder.node("ConstantOfShape", [builder.node("Shape", [x])], value=half)
    value = builder.node("Mul", [builder.node("Mod", [x, np.float32(0.7)], fmod=1), mask])
    value = halves(builder, builder.node("Tile", [value, np.int64([1, 2])]), x)
    position = builder.node("Squeeze", [builder.node("Gather", [builder.node("Shape", [x]), np.int64([1])])])
    value = builder.node("Sub", [value, builder.node("Cast", [position], to=1)])
    builder.output(builder.node("Mul", [value, rng.random((1, 1), np.float32)]), "float32")
    return builder


def goes_on_in_codes(rng: np.random.Generator) -> Builder:
    """Remainders between two convolutions of codes."""
    builder = Builder()
    value = coded(builder, builder.input("float32", (1, 4, "rows", "columns")))
    for is_last in (False, True):
        filters = builder.dequantized(codes(rng, "int8", (4, 4, 1, 1)), 0.01, np.int8(0))
        value = coded(builder, builder.node("Conv", [value, filters]))
        if not is_last:
            value = builder.node("Clip", [value, np.float32(-1), np.float32(1)])
            value = coded(builder, builder.node("Mod", [value, np.float32(0.7)], fmod=1))
    builder.output(value, "float32")
    return builder


def begins_elsewhere(rng: np.random.Generator) -> Builder:
    """A tangent, and nothing else."""
    builder = Builder()
    value = builder.node("Tan", [builder.input("float32", ("rows", "columns"))])
    builder.output(builder.node("Mul", [value, rng.random((1, 1), np.float32)]), "float32")
    return builder


def decides_by_lengths(rng: np.random.Generator) -> Builder:
    """A tangent times what one branch gives, or another by the number of rows: constants, and of branches' own."""
    builder = Builder()
    x = builder.input("float32", ("rows", "columns"))
    rows = builder.node("Gather", [builder.node("Shape", [x]), np.int64(0)])
    value = builder.node("Tan", [x])
    for is_initializer in (False, True):
        branches = []
        for prefix in ("then", "else"):
            branch = Builder(prefix=prefix + str(is_initializer))
            number = branch.constant(rng.random((1, 1), np.float32))
            branch.output(number if is_initializer else branch.node("Identity", [number]), "float32", (1, 1))
            branches.append(branch.graph())
        condition = builder.node("Greater", [rows, np.int64(2)])
        chosen = builder.node("If", [condition], then_branch=branches[0], else_branch=branches[1])
        value = builder.node("Mul", [value, chosen])
    builder.output(value, "float32")
    return builder


def wide(builder: Builder, value: str) -> str:
    """Floats of 4 channels as codes of 16 bits stand for them, which have no kernels with a scale for each channel."""
    scales, points = np.full(4, 0.001, np.float32), np.full(4, 30000, np.uint16)
    return builder.dequantized(builder.quantized(value, scales, points), scales, points)


def has_weights_of_codes(rng: np.random.Generator) -> Builder:
    """Convolutions of wide codes by filters of codes, one of them moved, and with biases of floats."""
    builder = Builder(21)
    value = wide(builder, builder.input("float32", (1, 4, "rows", "columns")))
    for is_moved in (False, True):
        scales = rng.uniform(0.0001, 0.01, 4).astype(np.float32)  # one for all would be far off
        filters = builder.dequantized(codes(rng, "int8", (4, 4, 3, 3)), scales, np.zeros(4, np.int8), axis=0)
        if is_moved:
            filters = builder.node("Transpose", [filters], perm=(1, 0, 2, 3))
        bias = rng.normal(0, 1, 4).astype(np.float32)
        value = wide(builder, builder.node("Conv", [value, filters, bias], pads=(1, 1, 1, 1)))
    builder.output(value, "float32")
    return builder


MODELS: Mapping[str, tuple[Callable[[np.random.Generator], Builder], tuple[int, ...]]] = {
    "behind a native graph": (ends_elsewhere, ()),
    "between native graphs": (goes_on_in_codes, (1, 4)),
    "alone": (begins_elsewhere, ()),
    "with weights of codes": (has_weights_of_codes, (1, 4)),
    "with branches": (decides_by_lengths, ()),
}


class Opened:
    """Counts sessions: of inputs with free lengths, and without; may refuse models that are fed integers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, refuses_integers: bool = False) -> None:
        self.free = self.fixed = self.refused = 0
        session = onnxruntime.InferenceSession

        def opened(model: bytes, *arguments: Any, **named: Any) -> Any:
            inputs = onnx.load_from_string(model).graph.input
            is_free = any(
                not length.HasField("dim_value") for value in inputs for length in value.type.tensor_type.shape.dim
            )
            if refuses_integers and any(value.type.tensor_type.elem_type == onnx.TensorProto.INT64 for value in inputs):
                self.refused += 1
                raise RuntimeError("a shape is no constant")
            self.free += is_free
            self.fixed += not is_free
            return session(model, *arguments, **named)

        monkeypatch.setattr("onnxruntime.InferenceSession", opened)


@pytest.mark.parametrize("name", MODELS)
def test_one_session_for_all_lengths(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make, leading = MODELS[name]
    model = make(random_numbers).build()
    feeds: list[Array] = [random_numbers.normal(0, 1, (*leading, *shape)).astype(np.float32) for shape in SHAPES]
    expected = [results_of_onnxruntime(model, {"x": x}) for x in feeds]
    alone = [dmlcpu.InferenceSession(model).run(None, {"x": x}) for x in feeds]
    opened = Opened(monkeypatch)
    session = dmlcpu.InferenceSession(model)
    for _ in range(2):
        for x, theirs, ours in zip(feeds, expected, alone, strict=True):
            for result, of_new_session, of_others in zip(session.run(None, {"x": x}), ours, theirs, strict=True):
                assert (result.dtype, result.shape) == (of_others.dtype, of_others.shape)
                np.testing.assert_array_equal(result, of_new_session)
                np.testing.assert_allclose(result.astype(np.float64), of_others, rtol=1e-5, atol=1.01 * STEP)
    assert (opened.free, opened.fixed, opened.refused) == (1, 0, 0)


def test_what_the_other_runtime_does_not_take_is_fixed(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it wants a constant that follows from lengths: a session for each."""
    model = ends_elsewhere(random_numbers).build()
    feeds = [random_numbers.normal(0, 1, shape).astype(np.float32) for shape in SHAPES]
    expected = [results_of_onnxruntime(model, {"x": x}) for x in feeds]
    opened = Opened(monkeypatch, refuses_integers=True)
    session = dmlcpu.InferenceSession(model)
    for x, theirs in zip(feeds, expected, strict=True):
        for result, of_others in zip(session.run(None, {"x": x}), theirs, strict=True):
            np.testing.assert_allclose(result.astype(np.float64), of_others, rtol=1e-5, atol=1e-6)
        assert session.partitions({"x": x.shape})[-1].provider == "onnxruntime"
    assert opened.refused == 1  # no plan tries it again
    assert opened.free == len({*SHAPES})


@pytest.mark.parametrize("name", MODELS)
def test_templates_have_parts_elsewhere(random_numbers: np.random.Generator, name: str) -> None:
    """Native graphs, before such a part and behind it, and what follows from lengths of what it is fed."""
    make, leading = MODELS[name]
    shapes = [{"x": (*leading, *shape)} for shape in SHAPES]
    assert_templates_follow_the_rules(make(random_numbers).build(), shapes, 3)


def test_fixed_lengths_are_told_to_the_other_runtime(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ends_elsewhere(random_numbers)
    for length in builder.inputs[0].type.tensor_type.shape.dim:
        length.dim_value = 4
    opened = Opened(monkeypatch)
    dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.ones((4, 4), np.float32)})
    assert (opened.free, opened.fixed) == (0, 1)


def test_a_loop_that_captures_what_was_dequantized(random_numbers: np.random.Generator) -> None:
    """Left to onnxruntime where it has no elements, which ended the process when it moved the dequantization."""
    builder = Builder(opset=13)
    value = builder.node(
        "Unsqueeze", [builder.node("Tan", [builder.input("float32", ("rows", "columns"))]), np.int64([1])]
    )
    value = builder.node("Squeeze", [coded(builder, value), np.int64([1])])
    body = Builder(opset=13, prefix="body_")
    body.input("int64", (), "body_count")
    body.input("bool", (), "body_goes_on")
    body.input("float32", ("rows", "columns"), "body_sum")
    for name, dtype in (
        (body.node("Identity", ["body_goes_on"]), "bool"),
        (body.node("Add", ["body_sum", value]), "float32"),
    ):
        body.output(name, dtype)
    result = builder.node("Loop", [np.array(3), np.array(True), value], body=body.graph())
    builder.output(builder.node("Concat", [result, value], axis=1), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for rows in (0, 2):
        x = random_numbers.normal(0, 1, (rows, 3)).astype(np.float32)
        [result], [expected] = session.run(None, {"x": x}), results_of_onnxruntime(model, {"x": x})
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_constants_of_types_that_onnxruntime_is_fed_no_arrays_of(random_numbers: np.random.Generator) -> None:
    """They are constants of a model for each length."""
    builder = Builder(opset=19)
    x = builder.input("float32", ("rows", "columns"))
    rows = builder.node("Gather", [builder.node("Shape", [x]), np.int64(0)])
    numbers = builder.node(
        "Cast", [builder.node("Range", [np.int64(0), rows, np.int64(1)])], to=onnx.TensorProto.BFLOAT16
    )
    places = builder.node("ArgMax", [builder.node("Tan", [x])], axis=0, keepdims=0)
    builder.output(builder.node("Cast", [builder.node("Gather", [numbers, places])], to=1), "float32")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for shape in SHAPES:
        x_values = random_numbers.normal(0, 1, shape).astype(np.float32)
        [expected] = results_of_onnxruntime(model, {"x": x_values})
        np.testing.assert_array_equal(session.run(None, {"x": x_values})[0], expected)


@pytest.mark.parametrize("rows", [4, 16])  # with fewer bytes than are supplied, and with more
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int32", "int64", "uint64"])
def test_large_constants_are_not_copied_into_a_model(
    random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch, dtype: str, rows: int
) -> None:
    """Of each type, for onnxruntime and, where its session does not open, for the reference evaluator."""
    columns = 2048 // np.dtype(dtype).itemsize  # 2 KiB a row
    array = random_numbers.integers(1, 100, (rows, columns)).astype(dtype)
    builder = Builder(opset=18)
    matrices = builder.input("float32", (rows, 2, 2))
    is_kept = builder.node("Greater", [builder.node("Det", [matrices]), np.float32(0)])
    builder.output(builder.node("Compress", [array, is_kept], axis=0), dtype, ("kept", columns))
    model = builder.build()
    is_kept_values = random_numbers.permutation(np.arange(rows) % 2 == 0)
    signs = np.stack([np.ones(rows), np.where(is_kept_values, 1, -1)], 1, dtype=np.float32)[:, None]
    sizes = []
    open_session = onnxruntime.InferenceSession

    def opened(serialized: bytes, *arguments: Any, **named: Any) -> Any:
        sizes.append(len(serialized))
        if is_refused:
            raise RuntimeError("refused")
        return open_session(serialized, *arguments, **named)

    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    for is_refused in (False, True):
        session = dmlcpu.InferenceSession(model)
        for _ in range(2):
            [result] = session.run(None, {matrices: np.eye(2, dtype=np.float32) * signs})
            np.testing.assert_array_equal(result, array[is_kept_values], strict=True)
        assert session.partitions()[-1].provider == ("onnx.reference" if is_refused else "onnxruntime")
    assert all((size > array.nbytes) == (rows == 4) for size in sizes)
    assert len(sizes) > 1


def test_parameters_of_one_element_may_have_an_axis(random_numbers: np.random.Generator) -> None:
    """Or none, each on its own: biases have scales with one and zero points without."""
    builder = Builder(21)
    value = wide(builder, builder.input("float32", (1, 4, 6, 7)))
    filters = builder.dequantized(codes(random_numbers, "int8", (4, 4, 3, 3)), [0.01], np.int8(0))
    bias = builder.dequantized(np.int32([4000, -9000, 100, 0]), [1e-5], np.int32(0))
    builder.output(wide(builder, builder.node("Conv", [value, filters, bias])), "float32")
    part = only_part(builder.build(), np.zeros((1, 4, 6, 7), np.float32))
    assert sum(node.op_type == "DequantizeLinear" for node in part.model.proto.graph.node) == 4
    x = random_numbers.normal(0, 1, (1, 4, 6, 7)).astype(np.float32)
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    [expected] = results_of_onnxruntime(builder.build(), {"x": x})
    assert np.abs(result - expected).max() < 0.0015  # a code


def product_of_codes(x: str, signed: bool) -> onnx.GraphProto:
    """A body of a Loop: a product of codes with a weight of its own."""
    weights = codes(np.random.default_rng((SEED, 1)), "int8", (4, 4))
    zero = np.zeros((), np.int8 if signed else np.uint8)
    parameters = ["scale", "zero", "w", "scale", "w_zero", "scale", "zero"]
    initializers = [("scale", np.float32(0.5)), ("zero", zero), ("w_zero", np.int8(0)), ("w", weights)]
    return onnx.helper.make_graph(
        [
            onnx.helper.make_node("Identity", ["go"], ["goes"]),
            onnx.helper.make_node("QLinearMatMul", [x, *parameters], ["b"]),
            onnx.helper.make_node("QLinearMatMul", ["b", *parameters], ["c"]),
        ],
        "body",
        [
            onnx.helper.make_tensor_value_info("step", onnx.TensorProto.INT64, ()),
            onnx.helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, ()),
        ],
        [
            onnx.helper.make_tensor_value_info("goes", onnx.TensorProto.BOOL, ()),
            onnx.helper.make_tensor_value_info("c", onnx.helper.np_dtype_to_tensor_dtype(zero.dtype), (2, 4)),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in initializers],
    )


@pytest.mark.parametrize("signed", [False, True])
def test_weights_of_loops_that_onnxruntime_does_not_make_unsigned(signed: bool) -> None:
    """It is to make INT8 weights UINT8 ones where its sums saturate, and refuses these: it runs them as they are."""
    builder = Builder()
    x = builder.input("int8" if signed else "uint8", (2, 4))
    steps = np.array(MOST_NODES)  # more nodes than are unrolled
    values = builder.node("Loop", [steps, np.array(True)], body=product_of_codes(x, signed))
    builder.output(values, "int8" if signed else "uint8", (None, 2, 4))
    model, feeds = builder.build(), {"x": np.arange(8).reshape(2, 4).astype(np.int8 if signed else np.uint8)}
    assert _precisions(builder.proto()) == (True, False)  # a CPU that has no need of the first may not refuse it
    session = dmlcpu.InferenceSession(model)
    assert np.array_equal(session.run(None, feeds)[0], results_of_onnxruntime(model, feeds)[0])
    assert [part.provider for part in session.partitions()] == ["onnxruntime"]


def only_part(model: bytes, x: Array) -> ForeignPart:
    """The one part of a model, which another runtime takes."""
    arrays = {"x": (x.dtype, x.shape)}
    [part] = make_plan(load_model(model), arrays, dmlcpu.Device(num_threads=1), ForeignModels(), None).parts
    assert isinstance(part, ForeignPart)
    return part


@pytest.mark.parametrize("is_free", [False, True])
def test_weights_beside_codes_stay_codes(random_numbers: np.random.Generator, is_free: bool) -> None:
    """As floats onnxruntime would quantize them again, by one scale for all channels."""
    proto = has_weights_of_codes(random_numbers).proto()
    if not is_free:
        for axis, length in enumerate((1, 4, 6, 7)):
            proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = length
    model = proto.SerializeToString()
    x = random_numbers.normal(0, 1, (1, 4, 6, 7)).astype(np.float32)
    [expected] = results_of_onnxruntime(model, {"x": x})
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": x})
    assert np.abs(result - expected).max() < 0.0015  # a code
    assert_traced_like_lowered(model, {"x": x.shape})
    part = only_part(model, x)
    assert sum(node.operator == "DequantizeLinear" for node in part.nodes) == 3  # of what is computed
    read = {tensor.name: tensor.data_type for tensor in part.model.proto.graph.initializer}
    filters = [node for node in part.model.proto.graph.node if read.get(node.input[0]) == onnx.TensorProto.INT8]
    assert [node.op_type for node in filters] == ["DequantizeLinear"] * 2
    ForeignRunner(part, 1)
    assert part.model.opened is not None
    options = part.model.opened.session.get_session_options()
    assert options.get_session_config_entry("session.disable_quant_qdq") == "1"  # they are dequantized once


def test_weights_beside_floats_are_floats(random_numbers: np.random.Generator) -> None:
    """Where nothing else is quantized, onnxruntime would dequantize them in each run."""
    builder = Builder()
    deep = codes(random_numbers, "int8", (4, 4, 65, 1, 1))  # of too many slices to be a convolution of images
    filters = builder.dequantized(deep, 0.01, np.int8(0))
    builder.output(builder.node("Conv", [builder.input("float32", (1, 4, 66, 2, 2)), filters]), "float32")
    part = only_part(builder.build(), np.zeros((1, 4, 66, 2, 2), np.float32))
    assert [node.op_type for node in part.model.proto.graph.node] == ["Conv"]


@pytest.mark.parametrize("rows", [2, "rows"])
@pytest.mark.parametrize("maker", ["SequenceConstruct", "Identity", "If"])
def test_sequences_that_are_read_behind_codes(random_numbers: np.random.Generator, maker: str, rows: int | str) -> None:
    """Only tensors pass from part to part: who reads a sequence goes with who makes it."""
    builder = Builder()
    x = builder.input("float32", (rows, 3))
    made = builder.node("SequenceConstruct", [x, builder.node("Neg", [x])])
    if maker == "Identity":
        made = builder.node("Identity", [made])
    elif maker == "If":
        branches = [Builder(prefix=prefix) for prefix in ("then", "else")]
        kind = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
        for branch in branches:
            own = branch.node("SequenceConstruct", [x, branch.node("Abs", [x])])
            branch.outputs.append(onnx.helper.make_value_info(own, kind))
        condition = builder.node("Greater", [builder.node("ReduceMax", [x], keepdims=0), np.float32(0)])
        made = builder.node("If", [condition], then_branch=branches[0].graph(), else_branch=branches[1].graph())
    value = coded(builder, builder.node("SequenceAt", [made, np.int64(1)]))
    result = builder.node("SequenceAt", [builder.node("SequenceInsert", [made, value]), np.int64(2)])
    builder.output(builder.quantized(result, 0.5, np.uint8(99)), "uint8")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for count in (2,) if rows == 2 else (2, 5, 3):
        feeds = {"x": random_numbers.normal(0, 1, (count, 3)).astype(np.float32)}
        np.testing.assert_array_equal(session.run(None, feeds), results_of_onnxruntime(model, feeds))
