"""onnx's own conformance tests: its node tests, run through its Backend interface.

All cases of quantized operators run, and those of every other operator that has a rule. EXCLUDED is the list of those
that do not pass, with the reason. onnx computes the cases of a file when it is imported, which takes it half a minute
for all files together: a test is a file, imported when the test runs.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.case.test_case import TestCase

import dmlcpu
from dmlcpu.onnx import backend
from dmlcpu.onnx.rules import RULES

FILES: Final = sorted(file.name for file in pkgutil.walk_packages(node_cases.__path__) if not file.ispkg)
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
    r"^test_training_dropout": "random numbers, expected to be those of numpy's generator",
    r"^test_resize_downsample_scales_(cubic|linear)_align_corners$": (
        "corners aligned by a length that is no integer; onnxruntime, and the rule here, take the integer"
    ),
    r"^test_maxunpool_export_with_output_shape$": (
        "its indices count in a smaller image than the output: those of MaxPool, and of onnxruntime, in the output"
    ),
    r"^test_identity_(opt|sequence)$": "the input is no tensor",
    r"^test_(dft(_axis|_inverse|_irfft|_rfft)?|stft(_with_window)?)$": (
        "the axis is fed, or the step: left to onnxruntime, whose sums that cancel are beyond the tolerance"
    ),
    r"^test_dft_inverse_opset19$": "sums that cancel are compared with 0: one is 2e-7, of elements up to 54",
    r"^test_reduce_max_empty_set_bool$": "left to onnxruntime, which refuses it",
    r"^test_attention_4d_diff_heads_mask4d_padded_kv$": "left to onnxruntime, which refuses it",
    r"^test_attention_4d_with_past_and_present_qk_matmul_bias_[34]d_mask_causal$": (
        "left to onnxruntime, which returns other scores"
    ),
    r"^test_attention_4d_causal_fp16$": "left to onnxruntime, which is a rounding of float16 beyond the tolerance",
}


LOWERED: Final = frozenset(operator for domain, operator in RULES if domain == "")


@functools.cache
def cases_of(file: str) -> list[TestCase]:
    known = len(node_cases._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's overflows
        importlib.import_module(f"{node_cases.__name__}.{file}")
    return node_cases._NodeTestCases[known:]


def operators_of(case: TestCase) -> set[str]:
    return {node.op_type for node in case.model.graph.node}


def is_excluded(case: TestCase) -> bool:
    return any(re.search(pattern, case.name) for pattern in EXCLUDED)


def check(case: TestCase) -> None:
    prepared = backend.prepare(case.model)
    for inputs, expected in case.data_sets:
        results = prepared.run([array_of(value) for value in inputs])
        BackendTest.assert_similar_outputs([array_of(value) for value in expected], results, case.rtol, case.atol)


def array_of(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@pytest.mark.parametrize("file", FILES)
def test_cases(file: str) -> None:
    failures = {}
    cases = cases_of(file)
    assert cases or file.startswith("_"), "imported by something else before"
    for case in cases:
        operators = operators_of(case)
        if (operators & QUANTIZED or operators <= LOWERED) and not is_excluded(case):
            try:
                check(case)
            except Exception:
                failures[case.name] = traceback.format_exc()
    assert not failures, "\n".join(f"{name}: {failure}" for name, failure in failures.items())


def test_all_cases_of_quantized_operators_run() -> None:
    """45 of onnx 1.23: no exclusion is one of them."""
    assert {operator.lower() for operator in QUANTIZED} <= set(FILES)
    cases = [case for operator in QUANTIZED for case in cases_of(operator.lower()) if operators_of(case) & QUANTIZED]
    assert len(cases) >= 45 or onnx.__version__ < "1.23"
    assert not [case.name for case in cases if is_excluded(case)]


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
