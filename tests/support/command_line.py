"""The command line as tests call it, and the models that they call it on."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from conftest import SEED
from dmlcpu.cli.application import application

__all__ = [
    "EXAMPLE",
    "KEYWORDS",
    "MODELS",
    "PHOTO",
    "ROOT",
    "failed",
    "in_floats",
    "made_model",
    "parsed",
    "partly_quantized",
    "run",
    "saved",
    "succeeded",
]

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "data" / "models"
EXAMPLE = ROOT / "examples" / "image_classification"
PHOTO = EXAMPLE / "chelsea.png"
KEYWORDS = MODELS / "keyword_spotting.qdq.onnx"

# Click before 8.2, which typer 0.15 wants, takes errors for output unless told not to; later ones cannot be told.
SEPARATELY: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


def run(*arguments: object) -> Any:
    return CliRunner(**SEPARATELY).invoke(application, [str(argument) for argument in arguments], prog_name="dmlcpu")


def succeeded(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def failed(*arguments: object) -> str:
    """The one line that a failing command prints."""
    result = run(*arguments)
    # Of a check 1 says that results differ.
    assert result.exit_code == (2 if arguments[0] == "check" else 1), result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("dmlcpu: ")
    return line


def saved(model: onnx.ModelProto, path: Path) -> Path:
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def parsed(path: Path, inputs: str, outputs: str, body: str) -> Path:
    """A model in onnx's own syntax."""
    imports = '<ir_version: 10, opset_import: ["" : 21]>'
    onnx.save(onnx.parser.parse_model(f"{imports} g ({inputs}) => ({outputs}) {body}"), path)
    return path


def made_model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, list[Any]]],
    outputs: Mapping[str, tuple[int, list[Any]]],
    **constants: NDArray[Any],
) -> onnx.ModelProto:
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        arrays,
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def partly_quantized(path: Path) -> Path:
    """Dequantize, convolve, ReLU, quantized twice; a reshape by computed lengths; an operator without a kernel."""
    node, generator = helper.make_node, np.random.default_rng((SEED, 1))
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["x_codes"], "quantize_x"),
        node("DequantizeLinear", ["x_codes", "scale", "zero"], ["x_floats"], "dequantize_x"),
        node("DequantizeLinear", ["w", "scale", "zero"], ["w_floats"], "dequantize_w"),
        node("Conv", ["x_floats", "w_floats"], ["conv"], "conv"),
        node("Relu", ["conv"], ["relu"], "relu"),
        node("QuantizeLinear", ["relu", "scale", "zero"], ["a_codes"], "quantize_a"),
        node("QuantizeLinear", ["relu", "wide_scale", "zero"], ["b_codes"], "quantize_b"),
        node("DequantizeLinear", ["a_codes", "scale", "zero"], ["a"], "dequantize_a"),
        node("DequantizeLinear", ["b_codes", "wide_scale", "zero"], ["b"], "dequantize_b"),
        node("Shape", ["x"], ["lengths"], "shape", end=1),
        node("Concat", ["lengths", "rest"], ["new_shape"], "concat", axis=0),
        node("Add", ["a", "b"], ["sum"], "add"),
        node("Reshape", ["sum", "new_shape"], ["rows"], "reshape"),
        node("QuantizeLinear", ["rows", "wide_scale", "zero"], ["rows_codes"], "quantize_rows"),
        node("DequantizeLinear", ["rows_codes", "wide_scale", "zero"], ["rows_floats"], "dequantize_rows"),
        node("Trilu", ["rows_floats"], ["triangle"], "trilu", domain="com.microsoft"),  # ONNX's own has a kernel
    ]
    model = made_model(
        nodes,
        {"x": (TensorProto.FLOAT, ["N", 3, 6, 6])},
        {"triangle": (TensorProto.FLOAT, ["N", None])},
        scale=np.float32(0.0625),  # powers of two, so that ties are ties to everyone
        wide_scale=np.float32(0.125),
        zero=np.int8(0),
        w=generator.integers(-64, 64, (4, 3, 3, 3), np.int8),  # so small that no sum of onnxruntime's saturates
        rest=np.int64([-1]),
    )
    return saved(model, path / "partly_quantized.onnx")


def in_floats(path: Path) -> Path:
    """A model of ten nodes in floating point."""
    nodes = [helper.make_node("Tan", [f"v{index}"], [f"v{index + 1}"], f"tan{index}") for index in range(10)]
    return saved(
        made_model(nodes, {"v0": (TensorProto.FLOAT, [4])}, {"v10": (TensorProto.FLOAT, [4])}), path / "floats.onnx"
    )
