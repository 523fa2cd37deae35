"""onnx's own conformance tests: its node tests, run through its Backend interface.

All cases of quantized operators run, and those of every other operator that has a rule. EXCLUDED is the list of those
that do not pass, with the reason.
"""

from __future__ import annotations

import re
import unittest
import warnings
from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

import dmlcpu
from dmlcpu.onnx import backend
from dmlcpu.onnx.rules import RULES

QUANTIZED: Final = frozenset(
    {
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    }
)

# Regular expressions of names, and why.
EXCLUDED: Final[Mapping[str, str]] = {
    r"^test_dynamicquantizelinear_cpu$": "DirectML multiplies by the reciprocal of the scale: one code differs by one",
    r"^test_training_dropout_": "random numbers, expected to be those of numpy's generator",
    r"^test_resize_downsample_scales_(cubic|linear)_align_corners_cpu$": (
        "corners aligned by a length that is no integer; onnxruntime, and the rule here, take the integer"
    ),
    r"^test_identity_(opt|sequence)_cpu$": "the input is no tensor",
    r"^test_(dft(_axis|_inverse|_irfft|_rfft)?|stft(_with_window)?)_cpu$": (
        "the axis is fed, or the step: left to onnxruntime, whose sums that cancel are beyond the tolerance"
    ),
    r"^test_dft_inverse_opset19_cpu$": "sums that cancel are compared with 0: one is 2e-7, of elements up to 54",
    r"^test_reduce_max_empty_set_bool_cpu$": "left to onnxruntime, which refuses it",
    r"^test_attention_4d_diff_heads_mask4d_padded_kv_cpu$": "left to onnxruntime, which refuses it",
    r"^test_attention_4d_with_past_and_present_qk_matmul_bias_[34]d_mask_causal_cpu$": (
        "left to onnxruntime, which returns other scores"
    ),
    r"^test_attention_4d_causal_fp16_cpu$": "left to onnxruntime, which is a rounding of float16 beyond the tolerance",
}


def operators_of(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


def cases() -> tuple[list[str], list[str]]:
    """Names of the cases with a quantized operator, and of the others that only have operators with rules."""
    quantized, others = [], []
    lowered = {operator for domain, operator in RULES if domain == ""}
    for case in load_model_tests(kind="node"):
        operators = operators_of(case.model)
        if operators & QUANTIZED:
            quantized.append(case.name)
        elif operators <= lowered:
            others.append(case.name)
    return quantized, others


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # onnx makes its cases with numpy's overflows, at import
    QUANTIZED_CASES, OTHER_CASES = cases()
    backend_test = BackendTest(backend.DmlCpuBackend, __name__)

for name in (*QUANTIZED_CASES, *OTHER_CASES):
    backend_test.include(f"^{re.escape(name)}_cpu$")
for pattern in EXCLUDED:
    backend_test.exclude(pattern)

OnnxBackendNodeModelTest: type[unittest.TestCase] = backend_test.test_cases["OnnxBackendNodeModelTest"]
# onnx keeps thousands of cases that are not included as skipped ones, among which one that is skipped would be lost.
for name, case in list(vars(OnnxBackendNodeModelTest).items()):
    if getattr(case, "__unittest_skip_why__", "").startswith("no matched include pattern"):
        delattr(OnnxBackendNodeModelTest, name)


def test_all_cases_of_quantized_operators_run() -> None:
    """45 of onnx 1.23: what the exclusions leave of them is known."""
    assert len(QUANTIZED_CASES) >= 45 or onnx.__version__ < "1.23"
    excluded = [name for name in QUANTIZED_CASES if any(re.search(p, f"{name}_cpu") for p in EXCLUDED)]
    assert excluded == ["test_dynamicquantizelinear"]


def test_run_node_and_run_model() -> None:
    node = onnx.helper.make_node("QLinearAdd", list("abcdefgh"), ["y"], domain="com.microsoft")
    codes, scale, zero_point = np.uint8([[3, 250]]), np.float32(0.5), np.uint8(3)
    operands = [codes, scale, zero_point, codes, scale, zero_point, np.float32(1), zero_point]
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
    [result] = backend.run_node(node, operands)
    np.testing.assert_array_equal(result, np.uint8([[3, 250]]))
    with pytest.raises(dmlcpu.BindingError, match="got 2 inputs, expected 8"):
        backend.run_node(node, operands[:2])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "model",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    model = onnx.helper.make_model(graph)
    assert backend.is_compatible(model)
    for inputs in (np.float32([-1, 2]), [np.float32([-1, 2])], {"x": np.float32([-1, 2])}):
        np.testing.assert_array_equal(backend.run_model(model, inputs)[0], np.float32([0, 2]))
    with pytest.raises(dmlcpu.DmlError, match="CUDA"):
        backend.prepare(model, "CUDA:0")
    with pytest.raises(TypeError, match=r"^model: got an object of type str, expected an onnx.ModelProto$"):
        backend.prepare("model.onnx")
