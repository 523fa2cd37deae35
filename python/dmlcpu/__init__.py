"""DirectML's quantized operators on any CPU: the same descs, the same rules, the same bits.

Models: an ``InferenceSession`` runs a quantized ONNX file. Objects, as in DirectML: a ``Device`` checks and compiles
the desc of an operator, or of a graph of them; what is compiled is given its constants once and dispatched into arrays
of the caller. Functions: one call an operator, on numpy arrays, or on expressions of a ``GraphBuilder``.
"""

from __future__ import annotations

from sys import modules as _modules
from typing import TYPE_CHECKING
from typing import Any as _Any

from dmlcpu import main_interpreter as _main_interpreter  # noqa: F401  # refuses others, ahead of the native module
from dmlcpu.compiled_operator import CompiledOperator
from dmlcpu.created_operator import Operator
from dmlcpu.descriptions import BindingProperties, ModelMetadata, NodeArg, Partition, Step
from dmlcpu.descs.convolution import ConvolutionIntegerOperatorDesc, QuantizedLinearConvolutionOperatorDesc
from dmlcpu.descs.element_wise import (
    DynamicQuantizeLinearOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizedLinearAddOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
)
from dmlcpu.descs.matrix_multiply import (
    MatrixMultiplyIntegerOperatorDesc,
    MatrixMultiplyIntegerToFloatOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
)
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.descs.pooling import QuantizedLinearAveragePoolingOperatorDesc
from dmlcpu.descs.quantization import DequantizeOperatorDesc, QuantizeOperatorDesc
from dmlcpu.device import Device, available_isas, default_device
from dmlcpu.enums import ExecutionFlags, FeatureLevel, OperatorType, QuantizationType, TensorDataType, TensorFlags
from dmlcpu.errors import (
    BindingError,
    DmlError,
    InvalidDescError,
    InvalidModelError,
    MissingRuntimeError,
    UnsupportedFeatureLevelError,
    UnsupportedIsaError,
)
from dmlcpu.functions.convolution import convolution_integer, quantized_linear_convolution
from dmlcpu.functions.element_wise import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
    quantized_linear_add,
)
from dmlcpu.functions.matrix_multiply import (
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    quantized_linear_matrix_multiply,
)
from dmlcpu.functions.pooling import quantized_linear_average_pooling
from dmlcpu.functions.quantization import dequantize, quantize
from dmlcpu.graph.builder import Expression, GraphBuilder, input_tensor
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.descs import (
    ConstantGraphNodeDesc,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from dmlcpu.graph.trace import StepTime
from dmlcpu.machine import Info, info
from dmlcpu.onnx.options import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    disable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_device,
    set_default_logger_severity,
)
from dmlcpu.tensor import TensorDesc, calc_buffer_tensor_size

if TYPE_CHECKING:
    from dmlcpu.onnx.session import InferenceSession

    __version__: str
    """The version of the installed package."""

__all__ = [
    "BindingError",
    "BindingProperties",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantGraphNodeDesc",
    "ConvolutionIntegerOperatorDesc",
    "DequantizeOperatorDesc",
    "Device",
    "DmlError",
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "ExecutionFlags",
    "ExecutionMode",
    "Expression",
    "FeatureLevel",
    "GraphBuilder",
    "GraphDesc",
    "GraphOptimizationLevel",
    "InferenceSession",
    "Info",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "InvalidDescError",
    "InvalidModelError",
    "MatrixMultiplyIntegerOperatorDesc",
    "MatrixMultiplyIntegerToFloatOperatorDesc",
    "MissingRuntimeError",
    "ModelMetadata",
    "NodeArg",
    "Operator",
    "OperatorDesc",
    "OperatorGraphNodeDesc",
    "OperatorType",
    "OutputGraphEdgeDesc",
    "Partition",
    "QuantizationType",
    "QuantizeOperatorDesc",
    "QuantizedLinearAveragePoolingOperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
    "QuantizedLinearMatrixMultiplyOperatorDesc",
    "RunOptions",
    "SessionOptions",
    "Step",
    "StepTime",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedFeatureLevelError",
    "UnsupportedIsaError",
    "__version__",
    "available_isas",
    "calc_buffer_tensor_size",
    "convolution_integer",
    "default_device",
    "dequantize",
    "dequantize_linear",
    "disable_telemetry_events",
    "dynamic_quantize_linear",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "info",
    "input_tensor",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "quantize",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "set_default_logger_severity",
]


def __getattr__(name: str) -> _Any:
    """Return what is imported or read when it is asked for.

    That is the class that needs the extra ``onnx``, without which its call raises, and the version, whose look-up
    would be a quarter of the import.
    """
    if name == "__version__":
        from dmlcpu.machine import installed_version

        return globals().setdefault("__version__", installed_version())
    if name != "InferenceSession":
        from dmlcpu.onnx.absent_names import absent_attribute

        raise absent_attribute(f"module {__name__!r}", name, _modules[__name__])
    try:
        from dmlcpu.onnx.session import InferenceSession
    except ImportError as error:
        from dmlcpu.onnx.missing_package import absent_session

        package = (error.name or "onnx").partition(".")[0]  # not onnx.reference
        return absent_session(package, "" if isinstance(error, ModuleNotFoundError) else str(error))
    return InferenceSession


def __dir__() -> list[str]:
    """Return the names of the module, those that are imported when asked for included."""
    return sorted({*globals(), *__all__})
