"""What a program of graphs and arrays may declare: mypy checks this file as strictly as the package, pytest runs it.

What is declared can be asked for at run time, too.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import dmlcpu
from dmlcpu import CompiledOperator, ExecutionFlags, Expression, GraphBuilder, TensorDataType, TensorDesc, TensorFlags
from dmlcpu.graph.compiled_graph import CompiledGraph

Array = np.ndarray[Any, Any]

BYTES = TensorDesc(TensorDataType.UINT8, (1, 2, 4, 4))
FLOATS = TensorDesc(TensorDataType.FLOAT32, (1, 2, 4, 4))
MODEL = Path(__file__).parents[2] / "examples" / "image_classification" / "resnet8_int8.onnx"


def test_functions_on_expressions_return_expressions() -> None:
    builder = GraphBuilder()
    codes: Expression = dmlcpu.input_tensor(builder, 0, BYTES)
    floats: Expression = dmlcpu.dequantize_linear(codes, 0.5)
    coded: Expression = dmlcpu.quantize_linear(floats, np.array([0.5, 1], np.float32), zero_point=None)
    total: Expression = dmlcpu.quantized_linear_add(coded, 0.5, 0, codes, 0.5, None, 1.0, 0)
    weights = np.ones((2, 2, 3, 3), np.int8)
    sums: Expression = dmlcpu.convolution_integer(total, None, weights, None)
    edges: Expression = dmlcpu.quantized_linear_convolution(total, 1.0, 0, weights, 1.0, None, None, 1.0, 0)
    means: Expression = dmlcpu.quantized_linear_average_pooling(edges, 1.0, 0, 1.0, 0, window_size=2)
    blocks: Expression = dmlcpu.dequantize(dmlcpu.quantize(floats, 0.5), scale=0.5)
    integers: Expression = dmlcpu.matrix_multiply_integer(codes, None, codes, None)
    product: Expression = dmlcpu.quantized_linear_matrix_multiply(codes, 1.0, 0, codes, 1.0, 0, 1.0, 0)
    scaled: Expression = dmlcpu.matrix_multiply_integer_to_float(integers, 1.0, None, product, 1.0, None)
    dynamic = dmlcpu.dynamic_quantize_linear(scaled)
    rounded, scale, zero_point = dynamic
    outputs: list[Expression] = [sums, means, blocks, rounded, scale, dynamic.output_zero_point_tensor]
    assert zero_point is dynamic.output_zero_point_tensor
    graph: CompiledOperator = builder.build(ExecutionFlags.NONE, outputs)
    results = graph.dispatch(input_0=np.ones((1, 2, 4, 4), np.uint8))
    assert [result.dtype.name for result in results] == ["int32", "uint8", "float32", "uint8", "float32", "uint8"]
    assert results.output_2.tolist() == np.full((1, 2, 4, 4), 0.5).tolist()


def test_an_expression_anywhere_among_the_tensors_makes_an_expression() -> None:
    builder = GraphBuilder()
    codes = dmlcpu.input_tensor(builder, 0, BYTES)
    scale = dmlcpu.input_tensor(builder, 1, TensorDesc(TensorDataType.FLOAT32, (1, 1, 1, 1)))
    array = np.ones((1, 2, 4, 4), np.uint8)
    second: Expression = dmlcpu.quantized_linear_add(array, 0.5, 0, codes, 0.5, None, 0.5, 0)
    scaled: Expression = dmlcpu.dequantize_linear(array, scale)
    graph = builder.build(ExecutionFlags.NONE, (second, scaled))
    results = graph.dispatch(input_0=array, input_1=np.ones((1, 1, 1, 1), np.float32))
    assert (results.output_0.max(), results.output_1.max()) == (2, 1)


def test_functions_on_arrays_return_arrays() -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    codes: Array = dmlcpu.quantize_linear(x, 0.5)
    floats: Array = dmlcpu.dequantize_linear(codes.data, [0.5])
    single: Array = dmlcpu.quantize_linear(np.float32(2), np.float32(0.5))
    blocks: Array = dmlcpu.quantize(x, np.array([[1, 2]], np.float32), out=np.empty((1, 4), np.int8))
    dynamic = dmlcpu.dynamic_quantize_linear(x, out=(None, np.empty((), np.float32), None))
    scale: Array = dynamic.output_scale_tensor
    assert floats.tolist() == x.tolist()
    assert single.tolist() == 4
    assert blocks.tolist() == [[1, 2, 2, 2]]
    assert scale.shape == ()


def test_what_calls_return_can_be_declared() -> None:
    builder = GraphBuilder()
    floats = dmlcpu.dequantize_linear(dmlcpu.input_tensor(builder, 0, BYTES), 0.5)
    graph: dmlcpu.CompiledGraph = builder.build(ExecutionFlags.NONE, [floats])
    steps: tuple[dmlcpu.Step, ...] = graph.steps
    times: tuple[dmlcpu.StepTime, ...] = graph.profile(input_0=np.ones((1, 2, 4, 4), np.uint8))[1]
    assert [step.type for step in steps] == [time.type for time in times] == ["ELEMENT_WISE_DEQUANTIZE_LINEAR"]
    session = dmlcpu.InferenceSession(MODEL)
    values: list[dmlcpu.NodeArg] = [*session.get_inputs(), *session.get_outputs()]
    metadata: dmlcpu.ModelMetadata = session.get_modelmeta()
    partitions: list[dmlcpu.Partition] = session.partitions()
    assert ([value.name for value in values], metadata.domain) == (["input0", "probabilities"], "")
    assert isinstance(partitions[0].steps[0], dmlcpu.Step)


def test_constructors_of_descs_take_what_they_coerce() -> None:
    """And what is read of a desc has the narrower type."""
    desc = TensorDesc(8, [2, 3], strides=range(2), flags=1)
    data_type: TensorDataType = desc.data_type
    flags: TensorFlags = desc.flags
    assert (data_type, flags) == (TensorDataType.INT8, TensorFlags.OWNED_BY_DML)
    floats = TensorDesc.from_array(np.zeros((2, 3), np.float32), flags=0)
    scales = [TensorDesc(TensorDataType.FLOAT32, (1, 1))]
    descs = (
        dmlcpu.QuantizeOperatorDesc(
            input_tensor=floats, quantization_type=1, quantization_tensors=scales, output_tensor=desc
        ),
        dmlcpu.DequantizeOperatorDesc(
            input_tensor=desc, quantization_type=1, quantization_tensors=scales, output_tensor=floats
        ),
    )
    types: list[dmlcpu.QuantizationType] = [each.quantization_type for each in descs]
    assert types == [dmlcpu.QuantizationType.SCALE] * 2
    assert dmlcpu.Device().is_data_type_supported(5)
    assert dmlcpu.calc_buffer_tensor_size(5, range(1, 4)) == 8


@pytest.mark.parametrize("desc_type", [TensorDesc, dmlcpu.QuantizeOperatorDesc, dmlcpu.DequantizeOperatorDesc])
def test_declared_constructors_are_those_of_the_fields(desc_type: type) -> None:
    """Type checkers read the ones, and dataclasses make the others."""
    written: list[ast.stmt] = [
        function
        for base in desc_type.__mro__[:-1]
        for function in ast.walk(ast.parse(inspect.getsource(base)))
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
    ]
    names: dict[str, Any] = {"TensorFlags": TensorFlags}
    exec(compile(ast.Module(written, []), "declared", "exec"), names)
    declared = inspect.signature(names["__init__"]).parameters.values()
    made = inspect.signature(desc_type.__init__).parameters.values()  # type: ignore[misc]
    assert [(each.name, each.kind, each.default) for each in declared] == [
        (each.name, each.kind, each.default) for each in made
    ]


def test_what_is_no_tensor_is_refused_by_the_types_too() -> None:
    """A comment that no error needs is an error."""
    builder = GraphBuilder()
    codes = dmlcpu.input_tensor(builder, 0, BYTES)
    with suppress(dmlcpu.BindingError):
        dmlcpu.dequantize_linear(object(), 0.5)  # type: ignore[type-var]
    array: Array = dmlcpu.dequantize_linear(codes, 0.5)  # type: ignore[arg-type]
    assert type(array).__name__ == "Expression"
    with suppress(TypeError):
        builder.build(ExecutionFlags.NONE, [np.zeros(3)])  # type: ignore[list-item]


def functions_of(declared: type) -> Iterator[Any]:
    """What a class and its bases of the package define: methods, and what computes properties."""
    for base in declared.__mro__:
        if base.__module__.partition(".")[0] == "dmlcpu":
            for member in vars(base).values():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if inspect.isfunction(function):
                    yield function


PUBLIC = {name: inspect.unwrap(getattr(dmlcpu, name)) for name in dmlcpu.__all__ if name != "__version__"}


@pytest.mark.parametrize("declared", [*PUBLIC.values(), CompiledGraph], ids=[*PUBLIC, "CompiledGraph"])
def test_annotations_are_resolved(declared: Any) -> None:
    for each in (declared, *(functions_of(declared) if inspect.isclass(declared) else ())):
        assert not any(isinstance(hint, str) for hint in get_type_hints(each).values())


def test_an_operator_knows_its_device() -> None:
    assert get_type_hints(dmlcpu.Operator)["device"] is dmlcpu.Device
    assert get_type_hints(CompiledGraph.__init__)["device"] is dmlcpu.Device
