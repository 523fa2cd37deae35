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
EXCLUDED: Final[Mapping[str, str]] = {}


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
