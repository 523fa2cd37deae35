"""Recurrent layers: RNN, LSTM, GRU, and LSTM with quantized weights.

The products of the inputs with the weights are one product, of all steps and directions; steps follow it as one
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeAlias

import numpy as np

from dmlcpu.dtypes import CODE_TYPES, FLOAT32
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.matrix.products import Factor, Product, float_product
from dmlcpu.onnx.rules.movement.moved_values import transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary, FloatUnary
from dmlcpu.onnx.rules.operands import computed, constant, present, written
from dmlcpu.onnx.rules.quantization.quantization import dynamically_quantized
from dmlcpu.onnx.rules.recurrence.sequence_lengths import are_whole
from dmlcpu.onnx.values import Array, Constant, Operand, Tensor, Value, element_type

__all__ = ["RULES"]

# The functions of a cell, in ONNX's order.
_LSTM_FUNCTIONS: Final = (b"sigmoid", b"tanh", b"tanh")
_GRU_FUNCTIONS: Final = (b"sigmoid", b"tanh")
# Of RNN's cell those with a kernel.
_RNN_FUNCTIONS: Final = {b"tanh": FloatUnary.TANH, b"relu": FloatUnary.RELU}
_DIRECTIONS: Final = {b"forward": 0, b"reverse": 1, b"bidirectional": 2}


@dataclass(frozen=True, eq=False)
class _Layer:
    """A recurrent layer of T steps, B sequences, D directions, I inputs, a state of H floats and a cell of P parts.

    Attributes:
        operator: The native one.
        direction: Its attribute.
        input: Of shape (T, B, I).
        weights: Of shape (I, D * P * H).
        recurrence: Of shape (D, H, P * H).
        bias: What is added to the products of the inputs, of shape (D * P * H); it may be absent.
        beside: The states before the first step, and the GRU's bias within it; each may be absent.
        weight_parameters, recurrence_parameters: Scales and zero points of codes, each (D, P * H); of floats None.
        function: That of RNN's cell; of the others None.
    """

    operator: str
    direction: int
    input: Tensor
    weights: Array
    recurrence: Array
    bias: Array | None
    beside: tuple[Operand, ...]
    weight_parameters: tuple[Array, Array] | None = None
    recurrence_parameters: tuple[Array, Array] | None = None
    function: FloatUnary | None = None

    def add(self, lowering: Lowering) -> list[Tensor]:
        """Add the layer; return all states, and those after the last step."""
        steps, sequences, _ = self.input.shape
        directions, hidden, columns = self.recurrence.shape
        products = self._products(lowering)
        gates = lowering.reshaped(products, (steps, sequences, directions * columns))
        scale, zero_point = self.recurrence_parameters or (None, None)
        last = (FLOAT32, (directions, sequences, hidden))
        return lowering.emit_several(
            self.operator,
            [gates, self.recurrence, scale, zero_point, *self.beside],
            [(FLOAT32, (steps, directions, sequences, hidden)), *[last] * (2 if self.operator == "LSTM" else 1)],
            {"direction": (self.direction,), **({} if self.function is None else {"function": (self.function,)})},
        )

    def _products(self, lowering: Lowering) -> Tensor:
        """Return the products of the inputs with the weights, of all steps and sequences, with the bias."""
        rows = lowering.reshaped(self.input, (self.input.shape[0] * self.input.shape[1], self.input.shape[2]))
        if self.weight_parameters is not None:
            scale, zero_point = (parameter.reshape(-1) for parameter in self.weight_parameters)
            left = Factor(*dynamically_quantized(lowering, rows))
            return Product(lowering, left, Factor(self.weights, scale, zero_point), self.bias).floats()
        product = float_product(lowering, rows, Constant(self.weights))
        return product if self.bias is None else on_floats(lowering, FloatBinary.ADD, product, Constant(self.bias))


_Inputs: TypeAlias = Sequence[Value | None]


def _with_sequences_first(layer: Callable[[Lowering, Node, _Inputs], list[Tensor]]) -> Rule:
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


def _direction(node: Node, activations: Sequence[bytes], length: int) -> int:
    """Return the direction of a layer, of a state of some length, that is like those with a kernel.

    Raises:
        NotNative: It has other functions, or bounds.
    """
    attributes = node.attributes
    name = attributes.get("direction", b"forward")
    if name not in _DIRECTIONS or attributes.get("hidden_size", length) != length:
        raise NotNative(f"a layer of direction {name!r} and size {attributes.get('hidden_size')}")
    direction = _DIRECTIONS[name]
    given = [function.lower() for function in attributes.get("activations", ())]
    if given and given != [*activations] * (1 + direction // 2):
        raise NotNative("other functions than a cell's own")
    if "clip" in attributes or attributes.get("input_forget", 0):
        raise NotNative("bounds or joined gates")
    return direction


def _input(lowering: Lowering, value: Value | None, lengths: Value | None) -> Tensor:
    """Return the input of a layer whose sequences all have its length.

    Raises:
        NotNative: It is of another type, or some are shorter.
    """
    tensor = computed(lowering, present(value))
    if tensor.dtype != np.float32 or len(tensor.shape) != 3:
        raise NotNative(f"an input of type {tensor.dtype} and shape {tensor.shape}")
    is_whole = lengths is None or (isinstance(lengths, Constant) and are_whole(lengths, *tensor.shape[:2]))
    if not is_whole or (lengths is not None and element_type(lengths) != np.int32):
        raise NotNative("sequences of their own lengths")
    return tensor


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


def _matrices(
    node: Node, tensor: Tensor, weights: Value | None, recurrence: Value | None, activations: Sequence[bytes]
) -> tuple[int, Array, Array]:
    """Return the direction of a layer of floats, its weights and its recurrence as ``_Layer`` has them.

    A cell of several functions has one part more than these.
    """
    length = constant(recurrence, "the recurrence").shape[-1]
    parts = len(activations) + (len(activations) > 1)
    direction, columns = _direction(node, activations, length), parts * length
    directions, inputs = 1 + direction // 2, tensor.shape[2]
    matrices = _floats(recurrence, "the recurrence", (directions, columns, length))
    rows = _floats(weights, "the weights", (directions, columns, inputs)).reshape(-1, inputs)
    return direction, rows.T, matrices.transpose(0, 2, 1)


@_with_sequences_first
def rnn(lowering: Lowering, node: Node, inputs: _Inputs) -> list[Tensor]:
    """RNN of hyperbolic tangents or of Relu, the same in both directions."""
    x, weights, recurrence, bias, lengths, hidden = (*inputs, *[None] * 6)[:6]
    name = next(iter(node.attributes.get("activations", ())), b"tanh").lower()
    if name not in _RNN_FUNCTIONS or len(inputs) > 6:
        raise NotNative(f"a cell of {name!r}")
    tensor = _input(lowering, x, lengths)
    direction, rows, matrices = _matrices(node, tensor, weights, recurrence, [name])
    directions, length, columns = matrices.shape
    beside = (_state(lowering, hidden, (directions, tensor.shape[1], length)),)
    biases, function = _summed_bias(bias, directions, columns), _RNN_FUNCTIONS[name]
    return _Layer("RNN", direction, tensor, rows, matrices, biases, beside, function=function).add(lowering)


@_with_sequences_first
def lstm(lowering: Lowering, node: Node, inputs: _Inputs) -> list[Tensor]:
    """LSTM without peepholes."""
    x, weights, recurrence, bias, lengths, hidden, cell = (*inputs, *[None] * 7)[:7]
    if any(value is not None for value in inputs[7:]):
        raise NotNative("peepholes")
    tensor = _input(lowering, x, lengths)
    direction, rows, matrices = _matrices(node, tensor, weights, recurrence, _LSTM_FUNCTIONS)
    directions, length, columns = matrices.shape
    state = (directions, tensor.shape[1], length)
    states = _state(lowering, hidden, state), _state(lowering, cell, state)
    biases = _summed_bias(bias, directions, columns)
    return _Layer("LSTM", direction, tensor, rows, matrices, biases, states).add(lowering)


@_with_sequences_first
def gru(lowering: Lowering, node: Node, inputs: _Inputs) -> list[Tensor]:
    """GRU that resets behind the product, as frameworks train it."""
    x, weights, recurrence, bias, lengths, hidden = (*inputs, *[None] * 6)[:6]
    if not node.attributes.get("linear_before_reset", 0) or len(inputs) > 6:
        raise NotNative("a reset before the product")
    tensor = _input(lowering, x, lengths)
    direction, rows, matrices = _matrices(node, tensor, weights, recurrence, _GRU_FUNCTIONS)
    directions, length, columns = matrices.shape
    of_inputs = within = None
    if bias is not None:
        both = _floats(bias, "the bias", (directions, 2 * columns))
        of_inputs, of_states = both[:, :columns].copy(), both[:, columns:]
        of_inputs[:, : 2 * length] += of_states[:, : 2 * length]
        of_inputs, within = of_inputs.reshape(-1), np.ascontiguousarray(of_states[:, 2 * length :])
    beside = _state(lowering, hidden, (directions, tensor.shape[1], length)), within
    return _Layer("GRU", direction, tensor, rows, matrices, of_inputs, beside).add(lowering)


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
    tensor = _input(lowering, x, lengths)
    directions, length, columns = constant(recurrence, "the recurrence").shape
    direction = _direction(node, _LSTM_FUNCTIONS, length)
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
        (_state(lowering, hidden, state), _state(lowering, cell, state)),
        parameters,
        of_matrices,
    )
    return written(node, layer.add(lowering))


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "RNN"): rnn,
    ("", "LSTM"): lstm,
    ("", "GRU"): gru,
    ("com.microsoft", "DynamicQuantizeLSTM"): dynamic_quantize_lstm,
}
