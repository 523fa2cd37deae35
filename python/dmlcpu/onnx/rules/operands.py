"""What rules ask of the operands of a node."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from functools import wraps

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.lengths import length_by
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.constants.shape_arithmetic import FreeNumbers
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.native_partition import check_tensor
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative, NotValid
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Dequantized, Operand, Tensor, Value, as_value, element_type

__all__ = [
    "aligned",
    "axes_of",
    "axis_within",
    "beside",
    "between_codes",
    "codes_of",
    "computed",
    "computed_floats",
    "computed_with_axes",
    "constant",
    "dequantized",
    "in_order",
    "integers",
    "makes_floats",
    "number_of",
    "parameters_of",
    "present",
    "shape_asked_for",
    "table_of",
    "trains",
    "vector",
    "written",
]


def present(value: Value | None) -> Value:
    """Return an operand that may not be absent.

    Raises:
        NotNative: It is.
    """
    if value is None:
        raise NotNative("an operand is absent")
    return value


def trains(node: Node) -> bool:
    """Return whether attributes of a node say that it trains; before version 7 they have to say that it does not."""
    return not node.attributes.get("is_test", 0) if node.version < 7 else bool(node.attributes.get("training_mode", 0))


def makes_floats(node: Node) -> bool:
    """Return whether a node of ONNX's casts to FLOAT32."""
    return node.operator == "Cast" and bool(node.attributes.get("to") == onnx.TensorProto.FLOAT)


def beside(value: Value, inputs: Sequence[Value | None]) -> Value | None:
    """Return the operand beside a value, of a node that reads two."""
    return inputs[1] if inputs[0] is value else inputs[0]


def written(node: Node, results: Sequence[Value]) -> list[Value]:
    """Return those of an operator's results, in its order, that a node has names for."""
    return [value for value, name in zip(results, node.outputs, strict=False) if name]


def constant(value: Value | None, what: str) -> Array:
    """Return the array of an operand that has to be known when the model is lowered; of constant codes the floats.

    Raises:
        NotNative: It is computed.
    """
    if isinstance(value, CONSTANTS):
        return value.array
    raise NotNative(f"{what} is not a constant")


def number_of(value: Value | None) -> np.float32 | None:
    """Return the one FLOAT32 that a constant is; None of any other value."""
    if not isinstance(value, CONSTANTS) or math.prod(value.shape) != 1 or element_type(value) != np.float32:
        return None
    number: np.float32 = np.float32(value.array.reshape(()))
    return number


def codes_of(value: Value | None, what: str) -> Tensor | Array:
    """Return 8-bit codes, computed or constant.

    Raises:
        NotNative: They are of another type, or deferred.
    """
    codes = value if isinstance(value, Tensor) else constant(value, what)
    if codes.dtype not in CODE_TYPES:
        raise NotNative(f"{what} of type {codes.dtype}, not of 8-bit codes")
    return codes


def vector(value: Value | None, length: int, what: str) -> Array:
    """Return a constant FLOAT32 vector.

    Raises:
        NotNative: It is none of this length.
    """
    array = constant(present(value), what)
    if array.dtype != np.float32 or array.shape != (length,):
        raise NotNative(f"{what} of type {array.dtype} and shape {array.shape} for rows of {length}")
    return array


def aligned(lowering: Lowering, value: Value | None, shape: Sequence[int], what: str) -> Operand:
    """Return a scale or zero point with another shape, computed or constant; None if it is absent.

    Raises:
        NotNative: It has not as many elements.
    """
    if value is None:
        return None
    if math.prod(value.shape) != math.prod(shape):
        raise NotNative(f"{what} of shape {value.shape}")
    return lowering.reshaped(value, shape) if isinstance(value, Tensor) else constant(value, what).reshape(tuple(shape))


def integers(value: Value | None, what: str) -> tuple[int, ...]:
    """Return the numbers of a constant operand such as axes or sizes.

    Raises:
        NotNative: It is computed, or no integers.
    """
    if isinstance(value, FreeNumbers) and value.dtype.kind in "iu":
        return tuple(value.entries.reshape(-1).tolist())
    array = constant(value, what)
    if array.dtype.kind not in "iu":
        raise NotNative(f"{what} of type {array.dtype}")
    return tuple(array.reshape(-1).tolist())


def axes_of(node: Node, inputs: Sequence[Value | None], rank: int) -> tuple[int, ...] | None:
    """Return the axes of an attribute or the second input, each once, in ascending order; None if none are given.

    Raises:
        NotNative: They are computed, or a value of so many axes has not all of them.
    """
    given = node.attributes.get("axes")
    if given is None and len(inputs) > 1 and inputs[1] is not None:
        given = integers(inputs[1], "the axes")
    if given is None:
        return None
    return tuple(sorted({axis_within(axis, rank) for axis in given}))


def axis_within(axis: int, rank: int) -> int:
    """Return an axis of a value of so many axes, counted from the first one.

    Raises:
        NotValid: The value has no such axis.
        TypeError: It is no integer.
    """
    if not -rank <= axis < rank:
        wanted = f"one from {-rank} to {rank - 1}" if rank else "none, of a single element"
        raise NotValid(f"got axis {axis}, expected {wanted}")
    return operator.index(axis) % rank


def shape_asked_for(node: Node, inputs: Sequence[Value | None]) -> tuple[int, ...]:
    """Return the shape that a Reshape gives to its input."""
    value = present(inputs[0])
    wanted = list(integers(inputs[1], "the shape"))
    if not node.attributes.get("allowzero", 0):
        wanted = [value.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    if wanted.count(-1) == 1:
        place = wanted.index(-1)
        others = *wanted[:place], *wanted[place + 1 :]
        wanted[place] = length_by(_length_beside, len(others), *others, *value.shape)
    return tuple(wanted)


def _length_beside(count: int, *lengths: int) -> int:
    """Return the length that so many others leave to the elements of a shape, which follows them."""
    return math.prod(lengths[count:]) // max(math.prod(lengths[:count]), 1)


def parameters_of(
    scale: Value | None,
    zero_point: Value | None,
    dtype: np.dtype[np.generic] | None = None,
    types: Collection[np.dtype[np.generic]] = CODE_TYPES,
) -> Parameters:
    """Return the parameters of a whole tensor; codes without a zero point are UINT8 if nothing else tells.

    Raises:
        NotNative: They are computed, there are several, or the codes are of none of these types.
    """
    scales = constant(scale, "a scale")
    zero_points = np.zeros(1, dtype or np.uint8) if zero_point is None else constant(zero_point, "a zero point")
    if scales.size != 1 or zero_points.size != 1:
        raise NotNative("scales along an axis")
    if scales.dtype != np.float32 or zero_points.dtype not in types:
        raise NotNative(f"codes of type {zero_points.dtype} with scales of type {scales.dtype}")
    return Parameters(np.float32(scales.item()), int(zero_points.item()), zero_points.dtype)


def dequantized(
    lowering: Lowering, codes: Value | None, scale: Value | None, zero_point: Value | None
) -> AffineTable | Dequantized:
    """Return 8-bit codes, computed or constant, as what they are dequantized to.

    Raises:
        NotNative: They are no codes, or their parameters are none of a whole tensor.
    """
    if not isinstance(codes, Tensor | Constant) or codes.dtype not in CODE_TYPES:
        raise NotNative("operands that are no codes")
    parameters = parameters_of(scale, zero_point, codes.dtype)
    if isinstance(codes, Tensor):
        return AffineTable(codes, parameters)
    return Dequantized(codes.elements(), *lowering.pair(parameters), 0)


def table_of(codes: Value | None, scale: Value | None, zero_point: Value | None) -> AffineTable:
    """Return computed codes as what they are dequantized to.

    Raises:
        NotNative: They are no tensor, have not 8 bits, or their parameters are none of a whole tensor.
    """
    if not isinstance(codes, Tensor):
        raise NotNative("an input that is no tensor of codes")
    return AffineTable(codes, parameters_of(scale, zero_point, codes.dtype))


def between_codes(function: Callable[[Lowering, Node, AffineTable], Value]) -> Rule:
    """Return the rule of a node from codes to codes: input, scale and zero point, then those of the output.

    Args:
        function: Returns what the node makes of dequantized codes, which is then quantized.
    """

    @wraps(function)
    def rule(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        codes, scale, zero_point, output_scale, output_zero_point = (*inputs, None)[:5]
        table = table_of(codes, scale, zero_point)
        wanted = parameters_of(output_scale, output_zero_point, table.codes.dtype)
        return [as_value(lowering.quantized(function(lowering, node, table), wanted))]

    return rule


def computed(lowering: Lowering, value: Value) -> Tensor:
    """Return a value as a tensor of the graph; a constant becomes one that is packed with the graph.

    Raises:
        NotNative: No kernel takes its type, or it has no elements.
    """
    elements = lowering.elements(value)
    if isinstance(elements, Tensor):
        return elements
    check_tensor(elements.dtype, elements.shape)
    number = lowering.number(elements)
    assert number is not None
    return lowering.tensor(number, elements.dtype, elements.shape)


def computed_floats(lowering: Lowering, value: Value) -> Tensor:
    """Return a value as a FLOAT32 tensor of the graph.

    Raises:
        NotNative: It has another type.
    """
    tensor = computed(lowering, value)
    if tensor.dtype != np.float32:
        raise NotNative(f"elements of type {tensor.dtype}")
    return tensor


def computed_with_axes(lowering: Lowering, value: Value) -> Tensor:
    """Return a value as a FLOAT32 tensor of the graph, of one axis at least.

    Raises:
        NotNative: It has another type, or no axes.
    """
    tensor = computed_floats(lowering, value)
    if not tensor.shape:
        raise NotNative("a single element, which has no axes")
    return tensor


def in_order(lowering: Lowering, value: Value) -> Tensor:
    """Return a tensor whose elements are in the order of a value's: its codes, where these have that of the floats.

    Of equal floats the codes are equal, too: no product with the scale overflows.
    """
    if isinstance(value, AffineTable) and value.parameters.keeps_order and value.parameters.keeps_codes:
        return value.codes
    return computed(lowering, value)
