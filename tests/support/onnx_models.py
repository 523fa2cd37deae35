"""Small ONNX models, built node by node, and onnxruntime's results of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import DTypeLike, NDArray

import dmlcpu
from exact_references import exact_for_onnxruntime
from template_checks import assert_traced_like_lowered

__all__ = [
    "POINT",
    "Builder",
    "assert_like_onnxruntime",
    "coded",
    "codes",
    "floats",
    "reasons_of",
    "results_of_onnxruntime",
    "steps_of",
]

Array = NDArray[Any]


class Builder:
    """A model under construction, or with a prefix for its names a branch of one; methods return names of values."""

    def __init__(self, opset: int = 17, prefix: str = "") -> None:
        self.opset, self.prefix = opset, prefix
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def input(self, dtype: DTypeLike, shape: Sequence[int | str | None], name: str = "x") -> str:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(onnx.helper.make_tensor_value_info(name, element, shape))
        return name

    def constant(self, array: Any, name: str = "") -> str:
        name = name or f"{self.prefix}constant{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, operator: str, inputs: Sequence[Any], count: int = 1, **attributes: Any) -> Any:
        """Arrays among the inputs become initializers; an operator of com.microsoft is named so."""
        domain, _, operator = operator.rpartition(".")
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        outputs = [f"{self.prefix}value{len(self.nodes)}_{index}" for index in range(count)]
        self.nodes.append(onnx.helper.make_node(operator, names, outputs, domain=domain, **attributes))
        return outputs[0] if count == 1 else outputs

    def dequantized(self, value: Any, scale: Any, zero_point: Any, **attributes: Any) -> str:
        name: str = self.node("DequantizeLinear", [value, np.float32(scale), zero_point], **attributes)
        return name

    def quantized(self, value: str, scale: Any, zero_point: Any) -> str:
        name: str = self.node("QuantizeLinear", [value, np.float32(scale), zero_point])
        return name

    def output(self, value: str, dtype: DTypeLike, shape: Sequence[int | str | None] | None = None) -> None:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(onnx.helper.make_tensor_value_info(value, element, shape))

    def graph(self) -> onnx.GraphProto:
        return onnx.helper.make_graph(self.nodes, "model", self.inputs, self.outputs, self.initializers)

    def proto(self) -> onnx.ModelProto:
        imports = [onnx.helper.make_opsetid("", self.opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(self.graph(), opset_imports=imports, ir_version=8)

    def build(self) -> bytes:
        serialized: bytes = self.proto().SerializeToString()
        return serialized


POINT: Final = np.uint8(128)


def coded(builder: Builder, value: str, scale: float = 0.05) -> str:
    """Floats as codes with this zero point stand for them."""
    return builder.dequantized(builder.quantized(value, scale, POINT), scale, POINT)


def codes(rng: np.random.Generator, dtype: DTypeLike, shape: Sequence[int]) -> Array:
    """Codes of the whole range."""
    limits = np.iinfo(np.dtype(dtype))
    return rng.integers(limits.min, limits.max, shape, dtype=np.dtype(dtype), endpoint=True)


def floats(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Floats around 0."""
    return rng.normal(size=shape).astype(np.float32)


def results_of_onnxruntime(model: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # As it is written: fusions are this package's own business, and onnxruntime's round otherwise.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = exact_for_onnxruntime(model)
    session = onnxruntime.InferenceSession(exact, options, providers=["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, dict(feeds))]


def assert_like_onnxruntime(
    model: bytes,
    feeds: Mapping[str, Array],
    most: float = 0,
    *,
    native: bool = True,
    equal: bool = False,
    unit: float = 1,
) -> None:
    """`most` is a difference of codes; floats agree in proportion to the largest, or if equal like codes of a unit."""
    session = dmlcpu.InferenceSession(model)
    ours = session.run(None, feeds)
    shapes = {name: array.shape for name, array in feeds.items()}
    partitions = session.partitions(shapes)
    assert_named_after_nodes(partitions)
    assert not native or {partition.provider for partition in partitions} <= {"dmlcpu"}, partitions
    assert_traced_like_lowered(model, shapes)
    for result, expected in zip(ours, results_of_onnxruntime(model, feeds), strict=True):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        if result.dtype.kind == "f" and not equal:
            np.testing.assert_allclose(result, expected, rtol=0, atol=3e-6 * float(np.abs(expected).max(initial=1e-9)))
        else:
            difference = np.abs(result.astype(np.float64) - expected.astype(np.float64))
            assert difference.max(initial=0) <= (most * unit if result.dtype.kind == "f" else most)


def assert_named_after_nodes(partitions: Sequence[dmlcpu.Partition]) -> None:
    for partition in partitions:
        assert {step.name for step in partition.steps} <= {*partition.nodes}, partition


def steps_of(model: Builder | bytes) -> list[str]:
    """The operators of the native graph that a model becomes, which is all of it."""
    [partition] = dmlcpu.InferenceSession(model.build() if isinstance(model, Builder) else model).partitions()
    assert partition.provider == "dmlcpu", partition.reasons
    assert_named_after_nodes([partition])
    return [step.type for step in partition.steps]


def reasons_of(builder: Builder) -> list[str]:
    """Why nodes of a model are not native."""
    parts = dmlcpu.InferenceSession(builder.build()).partitions()
    return [reason for part in parts for reason in part.reasons.values()]
