"""Functions of one element: on codes they become tables, on floats operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.constants.constant_functions import by_numpy
from dmlcpu.onnx.constants.evaluator import evaluator_of
from dmlcpu.onnx.lowering import Lowering, Rule, quantize
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import compared, low_bits, on_each_float, on_floats
from dmlcpu.onnx.rules.element_wise.integer_functions import of_integers
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary, Logical
from dmlcpu.onnx.rules.operands import between_codes, computed, computed_floats, constant, present, trains
from dmlcpu.onnx.values import AffineTable, Deferred, Dequantized, Table, Tensor, Value

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

__all__ = ["RULES", "element_wise", "evaluated", "table_only"]


def evaluated(node: Node, floats: Array, others: Sequence[Value | None] = ()) -> Array:
    """Return a node's function of a 1-D array, all elements one by one; its other inputs are constants.

    Raises:
        NotNative: They are computed, or it makes nothing of an element, or something of another type.
    """
    operands = [floats, *(None if value is None else constant(value, "an operand") for value in others)]
    with np.errstate(all="ignore"):  # not every code is one of an argument that the function has
        result = by_numpy(node, [array for array in operands if array is not None]) if node.domain == "" else None
        if result is None:
            result = _by_evaluator(node, operands)
    if result.shape != floats.shape or result.dtype != floats.dtype:
        raise NotNative("its result has another shape or type than its input")
    return result


def _by_evaluator(node: Node, operands: Sequence[Array | None]) -> Array:
    """Return what onnx's evaluator makes of a node and its inputs, None where it lacks one.

    Raises:
        NotNative: It makes nothing of them.
    """
    arrays = {f"x{index}": array for index, array in enumerate(operands) if array is not None}
    inputs = tuple(
        None if array is None else (f"x{index}", array.dtype, array.shape) for index, array in enumerate(operands)
    )
    attributes = tuple(attribute.SerializeToString() for attribute in node.proto.attribute)
    try:
        evaluator = _evaluator(node.domain, node.operator, node.version, attributes, inputs)
        [result] = evaluator.run(None, arrays)
    except Exception as error:  # not every operator has a reference, and not every node is valid
        raise NotNative(f"no table can be made of it ({error})") from None
    return np.asarray(result)


@lru_cache  # a network has few functions, and dozens of nodes of each
def _evaluator(
    domain: str,
    operator: str,
    version: int,
    attributes: Sequence[bytes],
    inputs: Sequence[tuple[str, np.dtype[Any], tuple[int, ...]] | None],
) -> ReferenceEvaluator:
    """Return what computes an operator with these attributes, serialized, of inputs that it has or lacks."""
    proto = onnx.helper.make_node(
        operator, ["" if entry is None else entry[0] for entry in inputs], ["y"], domain=domain
    )
    proto.attribute.extend(onnx.AttributeProto.FromString(attribute) for attribute in attributes)
    graph = onnx.helper.make_graph(
        [proto],
        "function",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), shape)
            for name, dtype, shape in filter(None, inputs)
        ],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )
    return evaluator_of(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)]))


class Clamped(Deferred):
    """The result of an operator within bounds.

    Its codes are those of the operator within the codes of the bounds where quantization keeps the order of floats: of
    a scale that is finite and above 0.
    """

    def __init__(self, lowering: Lowering, source: Deferred, lowest: float, highest: float) -> None:
        self._lowering, self._source = lowering, source
        self._lowest, self._highest = np.float32(lowest), np.float32(highest)
        self.shape = source.shape

    @property
    def has_floats(self) -> bool:
        """Whether there are floats that only need be clipped."""
        return super().has_floats or self._source.has_floats

    def quantized(self, parameters: Parameters) -> Tensor | None:
        """Add the operator, and a table if the bounds are not those of the codes anyway."""
        if not parameters.keeps_order:
            return None
        codes = self._lowering.quantized(self._source, parameters)
        limits = np.iinfo(parameters.dtype)
        lowest, highest = (int(code) for code in quantize(np.array([self._lowest, self._highest]), parameters))
        if lowest <= limits.min and highest >= limits.max:
            return codes
        every = np.arange(256, dtype=np.uint8).view(parameters.dtype)
        table = np.minimum(np.maximum(every, lowest), highest).astype(parameters.dtype)
        return self._lowering.code_table(codes, table)

    def floats(self) -> Tensor:
        """Add the operator in floating point, and clip."""
        return _clip(self._lowering, self._lowering.floats(self._source), self._lowest, self._highest)


def _clip(lowering: Lowering, tensor: Tensor, lowest: np.float32, highest: np.float32) -> Tensor:
    return on_each_float(lowering, FloatUnary.CLIP, tensor, alpha=lowest, beta=highest)


# Bounds where Clip has none of its own, up to version 10.
_LARGEST: Final = float(np.finfo(np.float32).max)


def _bounds(node: Node, inputs: Sequence[Value | None]) -> tuple[float, float] | None:
    """Return the bounds that a node keeps its input within; None if it does something else."""
    if node.operator == "Relu":
        return 0.0, np.inf
    if node.operator != "Clip":
        return None
    if node.version < 11:
        return float(node.attributes.get("min", -_LARGEST)), float(node.attributes.get("max", _LARGEST))
    lowest, highest = (*inputs[1:], None, None)[:2]
    return (
        -np.inf if lowest is None else float(constant(lowest, "a bound").reshape(())),
        np.inf if highest is None else float(constant(highest, "a bound").reshape(())),
    )


# The operators of one element that run on floats: the function, and its attributes with their defaults.
_FLOAT_FUNCTIONS: Final[Mapping[str, tuple[FloatUnary, Mapping[str, float]]]] = {
    "Relu": (FloatUnary.RELU, {}),
    "Sigmoid": (FloatUnary.SIGMOID, {}),
    "Tanh": (FloatUnary.TANH, {}),
    "Exp": (FloatUnary.EXPONENTIAL, {}),
    "Sqrt": (FloatUnary.SQUARE_ROOT, {}),
    "Reciprocal": (FloatUnary.RECIPROCAL, {}),
    "Neg": (FloatUnary.NEGATE, {}),
    "Log": (FloatUnary.LOGARITHM, {}),
    "Erf": (FloatUnary.ERROR_FUNCTION, {}),
    "HardSigmoid": (FloatUnary.HARD_SIGMOID, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": (FloatUnary.LEAKY_RELU, {"alpha": 0.01}),
    "Floor": (FloatUnary.FLOOR, {}),
    "Ceil": (FloatUnary.CEIL, {}),
    "Round": (FloatUnary.ROUND, {}),
    "Sin": (FloatUnary.SINE, {}),
    "Cos": (FloatUnary.COSINE, {}),
    "Asin": (FloatUnary.ARCSINE, {}),
    "Acos": (FloatUnary.ARCCOSINE, {}),
    "Atan": (FloatUnary.ARCTANGENT, {}),
    "Sinh": (FloatUnary.HYPERBOLIC_SINE, {}),
    "Cosh": (FloatUnary.HYPERBOLIC_COSINE, {}),
}


def element_wise(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A function of one element, with constants beside it."""
    value = present(inputs[0])
    if isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        codes = evaluated(node, np.arange(256, dtype=np.uint8).view(value.dtype), inputs[1:])
        return [lowering.code_table(value, codes)]
    if isinstance(value, Table):
        return table_only(lowering, node, inputs)
    integers = of_integers(lowering, node, value, inputs[1:])
    if integers is not None:
        return [integers]
    bounds = _bounds(node, inputs)
    if isinstance(value, Deferred) and value.dtype == np.float32 and bounds is not None and bounds[0] <= bounds[1]:
        return [Clamped(lowering, value, *bounds)]
    tensor = computed_floats(lowering, value)
    if bounds is not None and node.operator == "Clip":
        return [_clip(lowering, tensor, np.float32(bounds[0]), np.float32(bounds[1]))]
    function, defaults = _FLOAT_FUNCTIONS[node.operator]
    parameters = {name: node.attributes.get(name, default) for name, default in defaults.items()}
    return [on_each_float(lowering, function, tensor, **parameters)]


def prelu(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """PRelu: with one slope a table or LeakyRelu, else what is above 0 plus the slopes times what is below.

    Slopes between 0 and 1 make of the latter the larger of the value and its product with the slope.
    """
    value, slope = present(inputs[0]), constant(inputs[1], "the slope")
    if slope.size == 1 and isinstance(value, Table):
        return table_only(lowering, node, [value, Constant(slope.reshape(1))])
    tensor = computed_floats(lowering, value)
    if slope.size == 1 and slope.ndim <= len(tensor.shape):
        return [on_each_float(lowering, FloatUnary.LEAKY_RELU, tensor, alpha=float(slope.reshape(())))]
    if np.all((slope > 0) & (slope <= 1)):
        product = on_floats(lowering, FloatBinary.MULTIPLY, tensor, Constant(slope))
        return [on_floats(lowering, FloatBinary.MAXIMUM, tensor, product)]
    above = on_each_float(lowering, FloatUnary.RELU, tensor)
    below = on_floats(lowering, FloatBinary.MINIMUM, tensor, Constant(np.zeros((), np.float32)))
    product = on_floats(lowering, FloatBinary.MULTIPLY, below, Constant(slope))
    return [on_floats(lowering, FloatBinary.ADD, above, product)]


# Functions that no kernel computes of floats, nor any composition of kernels does as exactly as onnxruntime.
_OF_TABLES_ALONE: Final = ("Shrink", "Tan", "Asinh", "Acosh", "Atanh")


def table_only(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A function of one element that is computed as a table alone."""
    value = present(inputs[0])
    if not isinstance(value, Table):
        raise NotNative("no kernel for it on floats")
    return [Table(value.codes, evaluated(node, value.floats, inputs[1:]))]


def identity(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """The value itself."""
    return [present(inputs[0])]


def dropout(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Dropout where it drops nothing."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise NotNative("a mask is asked for")
    training = (*inputs, None, None)[2]
    if trains(node) or (training is not None and constant(training, "whether it trains").any()):
        raise NotNative("training")
    return [present(inputs[0])]


@between_codes
def qlinear_function(lowering: Lowering, node: Node, table: Table) -> Value:
    """QLinearSigmoid and QLinearLeakyRelu."""
    operator = node.operator.removeprefix("QLinear")
    proto = onnx.helper.make_node(operator, ["x"], ["y"], node.name)
    proto.attribute.extend(node.proto.attribute)
    plain = Node(node.name, "", operator, 17, ("x",), ("y",), node.attributes, ("x",), proto)
    return Table(table.codes, evaluated(plain, table.floats))


# By the type of the results, the types of what is cast.
_CASTS: Final[Mapping[str, Collection[str]]] = {
    "float16": ("float32",),
    "float32": ("bool", "uint8", "int8", "int32", "int64", "float16"),
    "int32": ("bool", "uint8", "int8", "int64", "float32"),
    "int64": ("bool", "uint8", "int8", "int32", "float32"),
}


def _is_deferred_float(value: Value) -> bool:
    return isinstance(value, Deferred) and value.dtype == np.float32


def cast(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Between integers, conditions, FLOAT32 and FLOAT16."""
    value = present(inputs[0])
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    if dtype in CODE_TYPES and isinstance(value, Table):
        with np.errstate(all="ignore"):  # what is no INT32 is cast to nothing in particular
            return [lowering.code_table(value.codes, value.floats.astype(np.int32).astype(dtype))]
    if dtype == np.float32 and (isinstance(value, Table | Dequantized) or _is_deferred_float(value)):
        return [value]
    if dtype == np.float32 and isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        return [AffineTable(value, Parameters(np.float32(1), 0, value.dtype))]
    tensor = computed(lowering, value)
    if tensor.dtype == dtype:
        return [tensor]
    if dtype == np.bool_:
        return [compared(lowering, Logical.NOT_EQUALS, tensor, Constant(np.zeros((), tensor.dtype)))]
    if dtype in CODE_TYPES:
        return [_lowest_byte(lowering, tensor, dtype)]
    if tensor.dtype.name not in _CASTS.get(dtype.name, ()):
        raise NotNative(f"a cast from {tensor.dtype} to {dtype}")
    return [lowering.emit("CAST", [tensor], dtype, tensor.shape)]


def _lowest_byte(lowering: Lowering, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return a tensor as 8-bit integers, of floats the integers towards 0: numbers of more bits lose the upper ones.

    Raises:
        NotNative: No kernel takes its type.
    """
    shape = tensor.shape
    if tensor.dtype in (np.bool_, np.float32):
        tensor = lowering.emit("CAST", [tensor], np.int32, shape)
    if tensor.dtype.kind not in "iu":
        raise NotNative(f"a cast from {tensor.dtype} to {dtype}")
    return low_bits(lowering, tensor, dtype)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    # Sigmoid and HardSigmoid, which may begin a SiLU and a HardSwish, are in ``spelled_out``.
    **{("", name): element_wise for name in (*_FLOAT_FUNCTIONS, "Clip") if name not in ("Sigmoid", "HardSigmoid")},
    **{("", name): table_only for name in _OF_TABLES_ALONE},
    ("", "PRelu"): prelu,
    ("", "Identity"): identity,
    ("", "Dropout"): dropout,
    ("", "Cast"): cast,
    ("", "CastLike"): cast,  # ModelValues has made it one
    ("com.microsoft", "QLinearSigmoid"): qlinear_function,
    ("com.microsoft", "QLinearLeakyRelu"): qlinear_function,
}
