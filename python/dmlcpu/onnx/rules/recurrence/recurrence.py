"""Recurrent layers: RNN, LSTM, GRU, and LSTM with quantized weights.

The products of the inputs with the weights are one product, of all steps and directions; steps follow it as one
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, TypeAlias

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.graph.native_graph import Attributes
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.constants.empty_arrays import zeros_of
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import float_bits, on_floats
from dmlcpu.onnx.rules.matrix.products import Factor, Product, float_product
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed, constant, present, written
from dmlcpu.onnx.rules.quantization.quantization import dynamically_quantized
from dmlcpu.onnx.rules.recurrence.cell_functions import CellFunction, cell_functions
from dmlcpu.onnx.rules.recurrence.sequence_lengths import are_whole
from dmlcpu.onnx.values import Operand, Tensor, Value, as_value, element_type

__all__ = ["RULES"]

# The parts of a cell, and how many first states it has.
_FORMS: Final = {"RNN": (1, 1), "LSTM": (4, 2), "GRU": (3, 1)}
_DIRECTIONS: Final = {b"forward": 0, b"reverse": 1, b"bidirectional": 2}


@dataclass(frozen=True, eq=False)
class _Layer:
    """A recurrent layer of T steps, B sequences, D directions, I inputs, a state of H floats and a cell of P parts.

    Attributes:
        operator: The native one.
        direction: Its attribute.
        input: Of shape (T, B, I); a constant where there are no steps or no sequences.
        weights: Of shape (I, D * P * H).
        recurrence: Of shape (D, H, P * H).
        bias: What is added to the products of the inputs, of shape (D * P * H); it may be absent.
        lengths: Of the sequences; None if all are as long as the input.
        beside: The states before the first step, and the GRU's bias within it; each may be absent.
        cell: The functions of the cell, and whether a GRU resets the state before the product.
        weight_parameters, recurrence_parameters: Scales and zero points of codes, each (D, P * H); of floats None.
    """

    operator: str
    direction: int
    input: Tensor | Constant
    weights: Array
    recurrence: Array
    bias: Array | None
    lengths: Operand
    beside: tuple[Operand, ...]
    cell: Attributes
    weight_parameters: tuple[Array, Array] | None = None
    recurrence_parameters: tuple[Array, Array] | None = None

    def add(self, lowering: Lowering) -> list[Value]:
        """Add the layer; return all states, and those after the last step."""
        steps, sequences, _ = self.input.shape
        directions, hidden, columns = self.recurrence.shape
        if isinstance(self.input, Constant):
            return self._without_steps()
        products = self._products(lowering, self.input)
        gates = lowering.reshaped(products, (steps, sequences, directions * columns))
        scale, zero_point = self.recurrence_parameters or (None, None)
        last = (FLOAT32, (directions, sequences, hidden))
        first, *beside = self.beside
        return [
            *lowering.emit_several(
                self.operator,
                [gates, self.recurrence, scale, zero_point, first, self.lengths, *beside],
                [(FLOAT32, (steps, directions, sequences, hidden)), *[last] * _FORMS[self.operator][1]],
                {"direction": (self.direction,), **self.cell},
            )
        ]

    def _without_steps(self) -> list[Value]:
        """Return no states, and the first ones as those after the last step."""
        steps, sequences, _ = self.input.shape
        directions, hidden, _ = self.recurrence.shape
        zeros = zeros_of(FLOAT32, (directions, sequences, hidden))
        first = self.beside[: _FORMS[self.operator][1]]
        last = [zeros if state is None else state for state in first]
        return [
            zeros_of(FLOAT32, (steps, directions, sequences, hidden)),
            *(state if isinstance(state, Constant) else as_value(state) for state in last),
        ]

    def _products(self, lowering: Lowering, x: Tensor) -> Tensor:
        """Return the products of the inputs with the weights, of all steps and sequences, with the bias."""
        rows = lowering.reshaped(x, (x.shape[0] * x.shape[1], x.shape[2]))
        if self.weight_parameters is not None:
            scale, zero_point = (parameter.reshape(-1) for parameter in self.weight_parameters)
            left = Factor(*dynamically_quantized(lowering, rows))
            return Product(lowering, left, Factor(self.weights, scale, zero_point), self.bias).floats()
        product = float_product(lowering, rows, Constant(self.weights))
        return product if self.bias is None else on_floats(lowering, FloatBinary.ADD, product, Constant(self.bias))


_Inputs: TypeAlias = Sequence[Value | None]


def _with_sequences_first(layer: Callable[[Lowering, Node, _Inputs], list[Value]]) -> Rule:
    """Return the rule of a layer whose sequences may come before its steps, and before the directions of states."""

    @wraps(layer)
    def rule(lowering: Lowering, node: Node, inputs: _Inputs) -> Sequence[Value]:
        if not node.attributes.get("layout", 0):
            return written(node, layer(lowering, node, inputs))
        steps_first = [
            value if value is None or index not in (0, 5, 6) else transposed(lowering, value, (1, 0, 2))
            for index, value in enumerate(inputs)
        ]
        states, *last = layer(lowering, node, steps_first)
        results = [transposed(lowering, states, (2, 0, 1, 3))]
        return written(node, results + [transposed(lowering, state, (1, 0, 2)) for state in last])

    return rule


def _direction(node: Node, length: int) -> int:
    """Return the direction of a layer, of a state of some length.

    Raises:
        NotNative: It has none, or gates are joined.
    """
    attributes = node.attributes
    name = attributes.get("direction", b"forward")
    if name not in _DIRECTIONS or attributes.get("hidden_size", length) != length:
        raise NotNative(f"a layer of direction {name!r} and size {attributes.get('hidden_size')}")
    if attributes.get("input_forget", 0):
        raise NotNative("joined gates")
    return _DIRECTIONS[name]


def _cell(node: Node, direction: int) -> dict[str, Sequence[int]]:
    """Return the attributes of a cell: its functions and bound."""
    functions: Sequence[CellFunction] = cell_functions(node, 1 + direction // 2)
    cell: dict[str, Sequence[int]] = {"functions": [number for function in functions for number in function.numbers]}
    if "clip" in node.attributes:
        bound = np.float32(node.attributes["clip"])
        if not bound > 0:
            raise NotNative(f"a bound of {bound}")
        cell["bound"] = (float_bits(bound),)
    return cell


def _input(lowering: Lowering, value: Value | None) -> Tensor | Constant:
    """Return the input of a layer, as a constant where it has no steps or no sequences.

    Raises:
        NotNative: It is of another type.
    """
    value = present(value)
    is_empty = isinstance(value, Constant) and 0 in value.shape[:2]
    tensor = value if isinstance(value, Constant) and is_empty else computed(lowering, value)
    if tensor.dtype != np.float32 or len(tensor.shape) != 3:
        raise NotNative(f"an input of type {tensor.dtype} and shape {tensor.shape}")
    return tensor


def _lengths(lowering: Lowering, value: Value | None, tensor: Tensor | Constant) -> Operand:
    """Return the lengths of sequences; None if all are as long as their tensor."""
    if value is None:
        return None
    steps, sequences, _ = tensor.shape
    if element_type(value) != np.int32 or value.shape != (sequences,):
        raise NotNative(f"lengths of type {element_type(value)} and shape {value.shape}")
    if isinstance(value, Constant) and are_whole(value, steps, sequences):
        return None
    return lowering.elements(value)


def _floats(value: Value | None, what: str, shape: tuple[int, ...]) -> Array:
    array = constant(value, what)
    if array.dtype != np.float32 or array.shape != shape:
        raise NotNative(f"{what} of type {array.dtype} and shape {array.shape}")
    return array


def _state(lowering: Lowering, value: Value | None, shape: tuple[int, ...]) -> Operand:
    """Return a first state, computed or constant, or None."""
    if value is None:
        return None
    floats = lowering.elements(value)
    if floats.dtype != np.float32 or floats.shape != shape:
        raise NotNative(f"a first state of type {floats.dtype} and shape {floats.shape}")
    return floats


def _summed_bias(value: Value | None, directions: int, columns: int) -> Array | None:
    """Return the sum of the two biases of each direction."""
    if value is None:
        return None
    both = _floats(value, "the bias", (directions, 2 * columns)).reshape(directions, 2, columns)
    summed: Array = both[:, 0] + both[:, 1]
    return summed.reshape(-1)


def _of_floats(lowering: Lowering, node: Node, inputs: _Inputs) -> _Layer:
    """Return a layer of floats, to whose inputs' products the sum of both biases is added.

    Raises:
        NotNative: It has peepholes, or operands that do not fit together.
    """
    parts, states = _FORMS[node.operator]
    count = 5 + states
    if any(value is not None for value in inputs[count:]):
        raise NotNative("peepholes, or more inputs than the operator has")
    x, weights, recurrence, bias, lengths, *first = (*inputs, *[None] * count)[:count]
    tensor = _input(lowering, x)
    length, given = constant(recurrence, "the recurrence").shape[-1], tensor.shape[2]
    direction, columns = _direction(node, length), parts * length
    directions = 1 + direction // 2
    state = (directions, tensor.shape[1], length)
    return _Layer(
        node.operator,
        direction,
        tensor,
        _floats(weights, "the weights", (directions, columns, given)).reshape(-1, given).T,
        _floats(recurrence, "the recurrence", (directions, columns, length)).transpose(0, 2, 1),
        _summed_bias(bias, directions, columns),
        _lengths(lowering, lengths, tensor),
        tuple(_state(lowering, value, state) for value in first),
        _cell(node, direction),
    )


@_with_sequences_first
def layer_of_floats(lowering: Lowering, node: Node, inputs: _Inputs) -> list[Value]:
    """RNN, and LSTM without peepholes."""
    return _of_floats(lowering, node, inputs).add(lowering)


@_with_sequences_first
def gru(lowering: Lowering, node: Node, inputs: _Inputs) -> list[Value]:
    """GRU, which resets behind the product, as frameworks train it, or before it."""
    layer, bias = _of_floats(lowering, node, inputs), (*inputs, None)[3]
    resets_first = not node.attributes.get("linear_before_reset", 0)
    of_inputs, within = layer.bias, None
    if bias is not None and not resets_first:
        directions, length, columns = layer.recurrence.shape
        both = _floats(bias, "the bias", (directions, 2 * columns))
        of_inputs, of_states = both[:, :columns].copy(), both[:, columns:]
        of_inputs[:, : 2 * length] += of_states[:, : 2 * length]
        of_inputs, within = of_inputs.reshape(-1), np.ascontiguousarray(of_states[:, 2 * length :])
    cell = {**layer.cell, "resets_first": (int(resets_first),)}
    return replace(layer, bias=of_inputs, beside=(*layer.beside, within), cell=cell).add(lowering)


def _codes(what: str, operands: _Inputs, shape: tuple[int, ...]) -> tuple[Array, tuple[Array, Array]]:
    """Return codes of directions, rows and columns, and the scales and zero points of their columns."""
    codes, scales, zero_points = (constant(value, f"{what}, its scale or zero point") for value in operands)
    directions, _, columns = shape
    if codes.dtype not in CODE_TYPES or codes.shape != shape:
        raise NotNative(f"{what} of type {codes.dtype} and shape {codes.shape}")

    def of_columns(array: Array, dtype: np.dtype[Any]) -> Array:
        if array.dtype != dtype or array.shape not in ((directions,), (directions, columns)):
            raise NotNative(f"{what} with a scale or zero point of type {array.dtype} and shape {array.shape}")
        return np.broadcast_to(array.reshape(directions, -1), (directions, columns))

    return codes, (of_columns(scales, FLOAT32), of_columns(zero_points, codes.dtype))


def dynamic_quantize_lstm(lowering: Lowering, node: Node, inputs: _Inputs) -> Sequence[Value]:
    """DynamicQuantizeLSTM: weights of codes, inputs and states quantized by their range."""
    x, weights, recurrence, bias, lengths, hidden, cell, peepholes = inputs[:8]
    if peepholes is not None:
        raise NotNative("peepholes")
    tensor = _input(lowering, x)
    directions, length, columns = constant(recurrence, "the recurrence").shape
    direction = _direction(node, length)
    if (directions, columns) != (1 + direction // 2, 4 * length):
        raise NotNative("a recurrence of another shape")
    codes, parameters = _codes("the weights", [weights, *inputs[8:10]], (directions, tensor.shape[2], columns))
    matrices, of_matrices = _codes("the recurrence", [recurrence, *inputs[10:12]], (directions, length, columns))
    if codes.dtype != matrices.dtype:
        raise NotNative(f"weights of type {codes.dtype} and a recurrence of type {matrices.dtype}")
    state = (directions, tensor.shape[1], length)
    layer = _Layer(
        "LSTM",
        direction,
        tensor,
        codes.transpose(1, 0, 2).reshape(tensor.shape[2], -1),
        matrices,
        _summed_bias(bias, directions, columns),
        _lengths(lowering, lengths, tensor),
        (_state(lowering, hidden, state), _state(lowering, cell, state)),
        _cell(node, direction),
        parameters,
        of_matrices,
    )
    return written(node, layer.add(lowering))


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "RNN"): layer_of_floats,
    ("", "LSTM"): layer_of_floats,
    ("", "GRU"): gru,
    ("com.microsoft", "DynamicQuantizeLSTM"): dynamic_quantize_lstm,
}
