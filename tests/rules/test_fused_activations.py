"""FusedConv and FusedGemm, as onnxruntime saves models that it has optimized, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, codes, floats, results_of_onnxruntime

Array = NDArray[Any]

# By the activation, the parameters of a FusedConv.
OF_CONV: Final[Mapping[str, Sequence[float]]] = {
    "": (),
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": (0.1,),
    "Clip": (-0.25, 1.5),
    "HardSigmoid": (0.3, 0.4),
}
OF_GEMM: Final[Mapping[str, Mapping[str, float]]] = {
    "Celu": {"alpha": 0.8},
    "Elu": {"alpha": 0.7},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.1},
    "Relu": {},
    "Selu": {"alpha": 1.5, "gamma": 1.1},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.6},
}


def fused_conv(builder: Builder, inputs: Sequence[Any], activation: str, **attributes: Any) -> str:
    if activation:
        attributes["activation"] = activation
    if parameters := OF_CONV[activation]:
        attributes["activation_params"] = parameters
    result: str = builder.node("com.microsoft.FusedConv", inputs, **attributes)
    return result


def fused_gemm(builder: Builder, inputs: Sequence[Any], activation: str, **attributes: Any) -> str:
    parameters = {f"activation_{name}": number for name, number in OF_GEMM[activation].items()}
    result: str = builder.node("com.microsoft.FusedGemm", inputs, activation=activation, **parameters, **attributes)
    return result


@pytest.mark.parametrize("activation", OF_CONV)
@pytest.mark.parametrize("operands", ["", "bias", "addend", "bias, addend"])
@pytest.mark.parametrize("opset", [10, 17])
def test_convolutions(random_numbers: np.random.Generator, opset: int, operands: str, activation: str) -> None:
    builder = Builder(opset)
    inputs: list[Any] = [builder.input("float32", (2, 4, 7, 6)), floats(random_numbers, (6, 2, 3, 3))]
    inputs += [floats(random_numbers, (6,)) if "bias" in operands else ""] if operands else []
    inputs += [builder.input("float32", (2, 6, 4, 3), "z")] if "addend" in operands else []
    result = fused_conv(builder, inputs, activation, group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, (2, 4, 7, 6))}
    feeds |= {"z": floats(random_numbers, (2, 6, 4, 3))} if "addend" in operands else {}
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize("activation", OF_GEMM)
@pytest.mark.parametrize("operands", ["", "addend"])
def test_products(random_numbers: np.random.Generator, operands: str, activation: str) -> None:
    builder = Builder()
    inputs = [builder.input("float32", (4, 7)), floats(random_numbers, (5, 7))]
    inputs += [floats(random_numbers, (5,))] if operands else []
    builder.output(fused_gemm(builder, inputs, activation, transB=1, alpha=0.5, beta=2.0), "float32")
    feeds = {"x": floats(random_numbers, (4, 7))}
    assert_like_onnxruntime(builder.build(), feeds, 1)


def network(rng: np.random.Generator) -> Builder:
    """Codes before last layers of floats."""
    builder = Builder()
    value = coded(builder, builder.input("float32", (1, 8, 10, 9)))
    for _ in range(2):
        weights = builder.dequantized(codes(rng, "int8", (8, 8, 1, 1)), 0.002, np.int8(0))
        value = coded(builder, builder.node("Relu", [builder.node("Conv", [value, weights, floats(rng, (8,))])]))
    value = builder.node("Conv", [value, floats(rng, (6, 8, 3, 3)), floats(rng, (6,))])
    value = builder.node("GlobalAveragePool", [builder.node("LeakyRelu", [value], alpha=0.1)])
    value = builder.node("Gemm", [builder.node("Flatten", [value]), floats(rng, (6, 5))])
    builder.output(builder.node("Relu", [value]), "float32")
    return builder


def test_a_model_that_onnxruntime_has_saved(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    path, options = tmp_path / "saved.onnx", onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    model = network(random_numbers).build()
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    saved = onnx.load(path)
    assert {"FusedConv", "FusedGemm"} <= {node.op_type for node in saved.graph.node}
    feeds = {"x": floats(random_numbers, (1, 8, 10, 9))}
    assert_like_onnxruntime(saved.SerializeToString(), feeds)
    # Only what is run is taken apart.
    assert "FusedConv" in {node.operator for node in load_model(str(path)).nodes}


def test_weights_stay_floats(random_numbers: np.random.Generator) -> None:
    """Onnxruntime, which makes codes of those of a Conv between codes, leaves a FusedConv's."""
    builder = Builder()
    value = coded(builder, builder.input("float32", (1, 4, 8, 8)))
    value = fused_conv(builder, [value, floats(random_numbers, (6, 4, 3, 3))], "Relu")
    builder.output(builder.quantized(value, 0.05, POINT), "uint8")
    feeds = {"x": floats(random_numbers, (1, 4, 8, 8))}
    assert_like_onnxruntime(builder.build(), feeds, 1)
    [partition] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert "FLOAT_CONVOLUTION" in {step.type for step in partition.steps}


def test_names_that_are_taken(random_numbers: np.random.Generator) -> None:
    """What is between the parts is called as nothing else, nor are these."""
    builder = Builder()
    x, z = builder.input("float32", (1, 4, 5, 5)), builder.input("float32", (1, 4, 5, 5), "value0_0/Conv")
    fused = fused_conv(builder, [x, floats(random_numbers, (4, 4, 1, 1)), "", z], "Clip")
    for operator, inputs, name in (("Neg", [fused], f"{fused}/Add"), ("Add", [fused, z], f"{fused}/min")):
        builder.node(operator, inputs)
        builder.nodes[-1].output[0] = name
    builder.nodes[0].name, builder.nodes[1].name = "fused", "fused/Add"
    for name in (f"{fused}/Add", f"{fused}/min", fused):
        builder.output(name, "float32")
    feeds = {"x": floats(random_numbers, (1, 4, 5, 5))}
    assert_like_onnxruntime(builder.build(), feeds | {"value0_0/Conv": floats(random_numbers, (1, 4, 5, 5))}, 1)


def test_branches(random_numbers: np.random.Generator) -> None:
    """The nodes of a branch that is known to run."""
    builder = Builder()
    x = builder.input("float32", (1, 4, 5, 5))
    branches = []
    for prefix, activation in (("then/", "Clip"), ("else/", "Relu")):
        branch = Builder(prefix=prefix)
        result = fused_conv(branch, [x, floats(random_numbers, (4, 4, 1, 1))], activation)
        branch.output(result, "float32")
        branches.append(branch.graph())
    condition = builder.constant(np.array(True))
    builder.output(builder.node("If", [condition], then_branch=branches[0], else_branch=branches[1]), "float32")
    feeds = {"x": floats(random_numbers, (1, 4, 5, 5))}
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize(
    "node",
    [
        ("FusedConv", {"activation": "Elu", "activation_params": [1.0]}),
        ("FusedConv", {"activation": "LeakyRelu"}),
        ("FusedConv", {"activation": "Clip", "activation_params": [1.0]}),
        ("FusedGemm", {"activation": "Clip"}),
        ("FusedGemm", {"activation": "LeakyRelu"}),
        ("FusedGemm", {}),
    ],
    ids=repr,
)
def test_what_onnxruntime_refuses(random_numbers: np.random.Generator, node: tuple[str, Mapping[str, Any]]) -> None:
    operator, attributes = node
    builder = Builder()
    shape = (1, 4, 5, 5) if operator == "FusedConv" else (3, 4)
    weights = floats(random_numbers, ((4, 4, 1, 1) if operator == "FusedConv" else (4, 4)))
    result = builder.node(f"com.microsoft.{operator}", [builder.input("float32", shape), weights], **attributes)
    builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, shape)}
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        results_of_onnxruntime(builder.build(), feeds)
    with pytest.raises(dmlcpu.DmlError, match=operator):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)
