"""The one table of samples: what the tests over all operators know of each, in a file for each kind of operator.

An operator without a sample here fails test_operator_samples; one with a sample is in every such test.
"""

from __future__ import annotations

from collections.abc import Mapping

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from operator_samples import convolution, element_wise, matrix_multiply, pooling, quantization
from operator_samples.convolution import CONVOLUTION, CONVOLUTION_INTEGER
from operator_samples.element_wise import ADD, DEQUANTIZE, DYNAMIC, QUANTIZE
from operator_samples.matrix_multiply import (
    MATRIX_MULTIPLY_INTEGER,
    MATRIX_MULTIPLY_TO_FLOAT,
    QUANTIZED_MATRIX_MULTIPLY,
)
from operator_samples.pooling import POOLING
from operator_samples.quantization import BLOCK_DEQUANTIZE, BLOCK_QUANTIZE
from operator_samples.sample import OperatorSample, changed, tensor

__all__ = [
    "ADD",
    "BLOCK_DEQUANTIZE",
    "BLOCK_QUANTIZE",
    "CONVOLUTION",
    "CONVOLUTION_INTEGER",
    "DEQUANTIZE",
    "DYNAMIC",
    "LARGE_DESCS",
    "MATRIX_MULTIPLY_INTEGER",
    "MATRIX_MULTIPLY_TO_FLOAT",
    "POOLING",
    "QUANTIZE",
    "QUANTIZED_MATRIX_MULTIPLY",
    "SAMPLES",
    "VALID_DESCS",
    "changed",
    "tensor",
]

SAMPLES: Mapping[OperatorType, OperatorSample] = {
    sample.operator: sample
    for kind in (element_wise, convolution, matrix_multiply, pooling, quantization)
    for sample in kind.SAMPLES
}
VALID_DESCS: Mapping[OperatorType, OperatorDesc] = {operator: sample.desc for operator, sample in SAMPLES.items()}
LARGE_DESCS: Mapping[OperatorType, OperatorDesc] = {operator: sample.large for operator, sample in SAMPLES.items()}
