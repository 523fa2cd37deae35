"""DirectML's quantized operators on any CPU: the same descs, the same rules, the same bits.

Objects, as in DirectML: a ``Device`` checks and compiles the desc of an operator; the compiled operator is given its
constants once and dispatched into arrays of the caller. Functions: one call an operator, on numpy arrays.
"""

from __future__ import annotations

from importlib.metadata import version as _version

from dmlcpu.descs.convolution import QuantizedLinearConvolutionOperatorDesc
from dmlcpu.descs.element_wise import (
    DynamicQuantizeLinearOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizedLinearAddOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
)
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.descs.quantization import DequantizeOperatorDesc, QuantizeOperatorDesc
from dmlcpu.device import (
    BindingProperties,
    CompiledOperator,
    Device,
    Operator,
    available_isas,
    default_device,
)
from dmlcpu.enums import (
    ExecutionFlags,
    FeatureLevel,
    OperatorType,
    QuantizationType,
    TensorDataType,
    TensorFlags,
)
from dmlcpu.errors import (
    BindingError,
    DmlError,
    InvalidDescError,
    InvalidModelError,
    UnsupportedFeatureLevelError,
    UnsupportedIsaError,
)
from dmlcpu.functions.convolution import quantized_linear_convolution
from dmlcpu.functions.element_wise import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
    quantized_linear_add,
)
from dmlcpu.functions.quantization import dequantize, quantize
from dmlcpu.graph.builder import Expression, GraphBuilder, input_tensor
from dmlcpu.graph.descs import (
    ConstantGraphNodeDesc,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from dmlcpu.machine import Info, info
from dmlcpu.tensor import TensorDesc, calc_buffer_tensor_size

__version__ = _version("dmlcpu")

__all__ = [
    "BindingError",
    "BindingProperties",
    "CompiledOperator",
    "ConstantGraphNodeDesc",
    "DequantizeOperatorDesc",
    "Device",
    "DmlError",
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "ExecutionFlags",
    "Expression",
    "FeatureLevel",
    "GraphBuilder",
    "GraphDesc",
    "Info",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "InvalidDescError",
    "InvalidModelError",
    "Operator",
    "OperatorDesc",
    "OperatorGraphNodeDesc",
    "OperatorType",
    "OutputGraphEdgeDesc",
    "QuantizationType",
    "QuantizeOperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedFeatureLevelError",
    "UnsupportedIsaError",
    "__version__",
    "available_isas",
    "calc_buffer_tensor_size",
    "default_device",
    "dequantize",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "info",
    "input_tensor",
    "quantize",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_convolution",
]
