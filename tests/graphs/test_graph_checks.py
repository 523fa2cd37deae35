"""What graphs refuse, beyond the mistakes in edges: levels, inputs that no operator would take, names."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    Device,
    ExecutionFlags,
    Expression,
    FeatureLevel,
    GraphBuilder,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
    input_tensor,
)
from sample_graphs import dequantize_desc, dequantize_graph

Devices = Mapping[str, Device]
U8, F32 = TensorDataType.UINT8, TensorDataType.FLOAT32


def test_a_builder_has_the_level_of_graphs() -> None:
    for level in FeatureLevel:
        builder = GraphBuilder(Device(feature_level=level))
        x = input_tensor(builder, 0, TensorDesc(F32, (1, 1, 1, 4)))
        y = dmlcpu.quantize_linear(x, 0.5, 3)
        if level >= FeatureLevel.LEVEL_2_1:
            builder.build(ExecutionFlags.NONE, [y])
            continue
        with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="LEVEL_2_1, which introduced graphs") as caught:
            builder.build(ExecutionFlags.NONE, [y])
        assert caught.value.required_level is FeatureLevel.LEVEL_2_1


INPUTS: dict[str, tuple[TensorDesc, str]] = {
    "an unknown flag": (TensorDesc(U8, (4,), flags=8), "got flags 8, expected NONE or OWNED_BY_DML"),
    "a buffer that is too small": (
        TensorDesc(U8, (4,), total_tensor_size_in_bytes=1),
        "got total_tensor_size_in_bytes 1, expected at least 4, which sizes and strides span",
    ),
    "an alignment": (
        TensorDesc(U8, (4,), guaranteed_base_offset_alignment=3),
        "got guaranteed_base_offset_alignment 3, expected 0 or a power of two of at least 16",
    ),
    "strides of another rank": (
        TensorDesc(U8, (4,), strides=(4, 1)),
        "got strides (4, 1), expected None or 1 integer from 0 to 2**32 - 1, one for each size",
    ),
    "negative strides": (TensorDesc(U8, (4, 2), strides=(-1, 1)), "got strides (-1, 1), expected None or 2 integers"),
    "no sizes": (TensorDesc(U8, ()), "got dimension count 0, expected 1 to 8"),
    "nine sizes": (TensorDesc(U8, (1,) * 9), "got dimension count 9, expected 1 to 8"),
    "a size of 0": (TensorDesc(U8, (0,)), "got sizes (0,), expected a sequence of integers from 1 to 2**32 - 1"),
    "too many elements": (TensorDesc(U8, (2**16, 2**16)), "got 4294967296 elements, expected fewer than 2**32"),
    "INT64": (TensorDesc(TensorDataType.INT64, (4,)), "got data type INT64, expected FLOAT32 or FLOAT16 or"),
    "no data type": (TensorDesc(99, (4,)), "got data type 99, expected FLOAT32 or"),
    "UNKNOWN": (TensorDesc(TensorDataType.UNKNOWN, (4,)), "got data type UNKNOWN, expected FLOAT32 or"),
}


@pytest.mark.parametrize(("desc", "message"), INPUTS.values(), ids=INPUTS.keys())
def test_inputs_are_checked_as_those_of_operators(desc: TensorDesc, message: str) -> None:
    builder = GraphBuilder()
    with pytest.raises(dmlcpu.InvalidDescError, match=re.escape(f"graph: input_7: {message}")) as caught:
        input_tensor(builder, 7, desc)
    assert (caught.value.field, caught.value.operator) == ("input_7", None)
    assert input_tensor(builder, 7, TensorDesc(U8, (4,))).desc.sizes == (4,)  # the number is free still


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        (1.0, "1.0"),
        ("0", "'0'"),
        (None, "None"),
        (np.float32(2), "an object of type float32"),
        ([0], "a list of length 1"),
        (Unprintable(), "an object of type Unprintable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_indices_of_inputs_are_integers(index: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"^index: got {re.escape(shown)}, expected an integer$"):
        input_tensor(GraphBuilder(), index, TensorDesc(U8, (4,)))


def test_indices_of_inputs_are_those_of_directml() -> None:
    builder, desc = GraphBuilder(), TensorDesc(U8, (4,))
    input_tensor(builder, 1, desc)
    expected = "expected a number from 0 to 2**32 - 1 that no other input of the graph has"
    for index in (1, True, -1, 2**32, 2**70, 10**5000):
        shown = int(index) if index < 2**70 else f"an integer of {index.bit_length()} bits"
        with pytest.raises(ValueError, match=f"^index: got {shown}, {re.escape(expected)}$"):
            input_tensor(builder, index, desc)
    outputs = [input_tensor(builder, index, desc) for index in (0, np.uint8(7), 2**32 - 1)]
    x = np.arange(4, dtype=np.uint8)
    graph = builder.build(ExecutionFlags.NONE, outputs[2:])
    np.testing.assert_array_equal(graph.dispatch(input_0=x, input_1=x, input_7=x, input_4294967295=x + 1), x + 1)


@pytest.mark.parametrize("name", [5, b"name", "\ud800"])
def test_names_are_text(name: Any) -> None:
    device = Device()
    good = dequantize_graph(device)
    operator, constant = good.nodes
    for field, changes in {
        "nodes[0]": {"nodes": [replace(operator, name=name), constant]},
        "nodes[1]": {"nodes": [operator, replace(constant, name=name)]},
        "input_edges[0]": {"input_edges": [replace(good.input_edges[0], name=name)]},
        "output_edges[0]": {"output_edges": [replace(good.output_edges[0], name=name)]},
        "intermediate_edges[0]": {"intermediate_edges": [replace(good.intermediate_edges[0], name=name)]},
    }.items():
        with pytest.raises(dmlcpu.InvalidDescError, match=re.escape(f"graph: {field}: got ")) as caught:
            device.compile_graph(replace(good, **changes))
        assert caught.value.field == field
        str(caught.value).encode()
    named = replace(good, nodes=[replace(operator, name="ein Knoten, größer"), constant])
    assert "(ein Knoten, größer)" in device.compile_graph(named).describe()


def test_counts_are_integers_of_any_kind() -> None:
    device = Device()
    desc = dequantize_graph(device, input_count=np.int64(1), output_count=np.uint8(1))
    assert (type(desc.input_count), type(desc.output_count)) == (int, int)
    device.compile_graph(desc)
    for count in (1.0, True + 0.5, "1", None, -1):
        with pytest.raises(dmlcpu.InvalidDescError, match="an integer that is not negative"):
            device.compile_graph(dequantize_graph(device, input_count=count))


def test_names_do_not_break_the_lines_of_a_description() -> None:
    device = Device()
    good = dequantize_graph(device)
    name = 'größer 7"\\\n\r\t\x01\x85\u2028\u200b'
    graph = device.compile_graph(replace(good, nodes=[replace(good.nodes[0], name=name), good.nodes[1]]))
    graph.dispatch(input_0=np.uint8([1, 2, 3, 4]))
    assert graph.steps[0].name == name
    lines = graph.describe().splitlines()
    [step] = [line for line in lines if line.startswith("step 0: ")]
    assert step is lines[-1]
    assert r'(größer 7"\\n\r\t\x01\x85\u2028\u200b), ' in step


HUGE = 10**5000  # of more digits than Python prints
HUGE_SHOWN = "an integer of 16610 bits"


def test_messages_are_sentences() -> None:
    device = Device()
    for changes, message in (
        (
            {"input_edges": [InputGraphEdgeDesc(0, 9, 0)]},
            "got 9 as node, expected the index of an operator node, below 2",
        ),
        (
            {"output_edges": [OutputGraphEdgeDesc(1, 0, 0)]},
            "got 1 as node, expected the index of a node with outputs, below 2",
        ),
        ({"input_edges": [InputGraphEdgeDesc(0, HUGE, 0)]}, f"got {HUGE_SHOWN} as node, expected the index of"),
        (
            {"input_edges": [InputGraphEdgeDesc(0, 0, HUGE)]},
            f"got {HUGE_SHOWN} among the inputs of node 0, expected one from 0 to 2",
        ),
        (
            {"input_edges": [InputGraphEdgeDesc(HUGE, 0, 0)]},
            f"got {HUGE_SHOWN} as graph input, expected one from 0 to 0",
        ),
        ({"input_edges": [InputGraphEdgeDesc(0, "0", 0)]}, "got '0' as node, expected the index of an operator node"),  # type: ignore[arg-type]
        (
            {"output_edges": [OutputGraphEdgeDesc(0, 0, HUGE)]},
            f"got {HUGE_SHOWN} as graph output, expected each from 0 to 0 once",
        ),
        ({"input_count": -HUGE}, f"got {HUGE_SHOWN}, expected an integer that is not negative"),
        ({"output_count": HUGE}, f"got 1 output, expected {HUGE_SHOWN}"),
        (
            {"intermediate_edges": [IntermediateGraphEdgeDesc(1, HUGE, 0, 1)]},
            f"got {HUGE_SHOWN} as output of a constant, expected 0",
        ),
        *(
            (
                {"intermediate_edges": [IntermediateGraphEdgeDesc(index, 0, 0, 1)]},
                f"got {shown} as node, expected the index of a node with outputs, below 2",
            )
            for index, shown in ((2, "2"), (-1, "-1"), ("1", "'1'"))
        ),
        ({"input_edges": [7]}, "got an object of type int, expected an InputGraphEdgeDesc"),
        ({"nodes": [OperatorGraphNodeDesc(5)]}, "got an operator of type int, expected an Operator"),  # type: ignore[arg-type]
    ):
        with pytest.raises(dmlcpu.InvalidDescError, match=re.escape(message)):
            device.compile_graph(dequantize_graph(device, **changes))
    with pytest.raises(TypeError, match=r"^expected a GraphDesc, got an object of type int$"):
        device.compile_graph(7)  # type: ignore[arg-type]


def test_outputs_are_a_sequence() -> None:
    builder = GraphBuilder(Device())
    x = input_tensor(builder, 0, TensorDesc.from_array(np.uint8([1, 2])))
    with pytest.raises(TypeError, match="outputs: got an expression, expected a sequence of them"):
        builder.build(ExecutionFlags.NONE, x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^outputs: got 5, expected a sequence of expressions$"):
        builder.build(ExecutionFlags.NONE, 5)  # type: ignore[arg-type]
    for unordered in ({x}, frozenset({x}), {x: 0}):
        with pytest.raises(
            TypeError, match=r"^outputs: got an object of type \w+, expected a sequence of expressions$"
        ):
            builder.build(ExecutionFlags.NONE, unordered)  # type: ignore[arg-type]
    floats = dmlcpu.dequantize_linear(x, 0.5)
    assert repr(builder.build(ExecutionFlags.NONE, [floats])).startswith("<CompiledGraph of 1 step isa=")
    assert len(builder.build(outputs=[floats]).steps) == 1
    for misplaced, shown in (([floats], "a list of length 1"), (floats, "an object of type Expression")):
        message = f"^flags: got {shown}, expected ExecutionFlags: outputs come second, or as outputs=$"
        with pytest.raises(TypeError, match=message):
            builder.build(misplaced)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^outputs: got none"):
        builder.build()


def test_expressions_of_a_graph_are_its_own() -> None:
    builder = GraphBuilder()
    foreign = input_tensor(GraphBuilder(), 0, TensorDesc(U8, (6,)))
    refused: list[tuple[Any, str, type[Exception]]] = [
        (foreign, "an expression of another GraphBuilder", dmlcpu.BindingError),  # as where an operator is added
        (np.zeros(6), "an object of type ndarray", TypeError),
    ]
    for value, got, error in refused:
        with pytest.raises(error, match=rf"^outputs\[0\]: got {got}, expected an expression of this builder$"):
            builder.build(ExecutionFlags.NONE, [value])
        with pytest.raises(error, match=f"^expression: got {got}, expected an expression of this builder$"):
            builder.add_reshape(value, (2, 3))


@pytest.mark.parametrize("sizes", [(7,), (-1,), (2, -3), (0,), (6.0,), 6, "6", None, {6}, (1,) * 8 + (6,)], ids=repr)
def test_sizes_of_reshaped_expressions(sizes: Any) -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(U8, (6,)))
    for reshape in (x.reshape, lambda sizes: builder.add_reshape(x, sizes)):
        with pytest.raises(ValueError, match=r"^sizes: got .*, expected 1 to 8 positive integers for 6 elements$"):
            reshape(sizes)
    for good in ((2, 3), [np.int64(3), 2], np.array([6, 1]), (1,) * 7 + (6,)):
        assert builder.add_reshape(x, good).desc == x.reshape(good).desc  # type: ignore[arg-type]
        assert x.reshape(good).desc.sizes == tuple(good)  # type: ignore[arg-type]
    for given, shown in (((), r"\(\)"), ([], r"\(\)"), (((6,),), r"\(a tuple of length 1,\)")):
        with pytest.raises(ValueError, match=f"^sizes: got {shown}, expected 1 to 8"):
            x.reshape(given)
    assert builder.add_reshape(x, (6,)) is x
    assert input_tensor(builder, 1, TensorDesc(U8, (1, 1))).reshape(()).desc.sizes == (1,)


def test_graphs_under_construction_are_not_copied() -> None:
    builder = GraphBuilder()
    for value in (builder, input_tensor(builder, 0, TensorDesc(U8, (6,)))):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"an? {type(value).__name__} cannot be copied or pickled"):
                copied(value)  # type: ignore[operator]


def test_expressions_are_made_by_their_builder_alone() -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(U8, (6,)))
    message = "^expressions are made by input_tensor and by functions of expressions, not by their class$"
    for fields in ((), (builder, 99, x.desc), (None, 0, x.desc)):
        with pytest.raises(TypeError, match=message):
            Expression(*fields)
    for name in ("builder", "value", "desc", "new"):
        with pytest.raises(AttributeError, match="an expression does not change"):
            setattr(x, name, 17)
    assert (x.builder, x.value, x.desc) == (builder, 0, TensorDesc(U8, (6,)))
    assert x.reshape((2, 3)) != x.reshape((2, 3))
    assert len({x, x, x.reshape((6,))}) == 1


def test_what_is_compiled_is_made_by_a_device() -> None:
    for arguments in ((Device(), None), (None, None), (Device(), dequantize_graph(Device()))):
        with pytest.raises(TypeError, match=r"^a CompiledGraph is made by Device.compile_graph and GraphBuilder.build"):
            dmlcpu.CompiledGraph(*arguments)  # type: ignore[arg-type]
    for operator in (None, dequantize_desc()):
        got = f"an object of type {type(operator).__name__}"
        with pytest.raises(
            TypeError, match=f"^operator: got {got}, expected an Operator; Device.compile_operator makes"
        ):
            dmlcpu.CompiledOperator(operator)  # type: ignore[arg-type]


def test_what_is_compiled_is_not_copied() -> None:
    device = Device()
    graph = dequantize_graph(device)
    for compiled in (device.compile_graph(graph), device.compile_operator(graph.nodes[0].operator)):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"a {type(compiled).__name__} cannot be copied or pickled"):
                copied(compiled)  # type: ignore[operator]


def test_parameters_may_be_expressions(devices: Devices, random_numbers: np.random.Generator) -> None:
    """Scales of channels and of columns, which functions reshape and repeat."""
    x = random_numbers.integers(0, 256, (1, 4, 3, 3), np.uint8)
    a = random_numbers.integers(0, 256, (3, 4), np.uint8)
    filters = random_numbers.integers(-128, 128, (2, 4, 1, 1), np.int8)
    b = filters.reshape(2, 4).T
    scale = random_numbers.uniform(0.01, 0.1, 2).astype(np.float32)
    images = dmlcpu.quantized_linear_convolution(x, 0.1, 3, filters, scale, None, None, 0.9, 128)
    matrix = dmlcpu.quantized_linear_matrix_multiply(a, 0.1, 3, b, scale, None, 0.9, 128)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        inputs = [
            input_tensor(builder, index, TensorDesc.from_array(array)) for index, array in enumerate((x, a, scale))
        ]
        outputs = [
            dmlcpu.quantized_linear_convolution(inputs[0], 0.1, 3, filters, inputs[2], None, None, 0.9, 128),
            dmlcpu.quantized_linear_matrix_multiply(inputs[1], 0.1, 3, b, inputs[2], None, 0.9, 128),
        ]
        result = builder.build(ExecutionFlags.NONE, outputs).dispatch(input_0=x, input_1=a, input_2=scale)
        np.testing.assert_array_equal(result.output_0, images, label)
        np.testing.assert_array_equal(result.output_1, matrix, label)
