"""RNN, LSTM and GRU, given the input's products with the weights: step by step, a cell's parts in ONNX's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray
from reference.dynamic_quantize_linear import dynamic_quantize_linear
from reference.float_functions import hyperbolic_tangent, logistic
from reference.matrix_multiply_integer_to_float import chain_of_products, matrix_multiply_integer_to_float

__all__ = ["gru", "lstm", "rnn"]

Array = NDArray[Any]
# Of a direction: the input's products, the states' and these become the states after the step.
Cell = Callable[[int, FloatArray, FloatArray, list[FloatArray]], list[FloatArray]]


def recurrent_sums(
    states: FloatArray, recurrence: Array, scale: FloatArray | None, zero_point: Array | None
) -> FloatArray:
    """States {B, H} by one direction's matrix {H, columns}."""
    if scale is None:
        return chain_of_products(states, recurrence)
    codes, state_scale, state_zero_point = dynamic_quantize_linear(states, output_data_type=np.uint8)
    operands = [codes, state_scale, state_zero_point, recurrence, scale, zero_point, None]
    result: FloatArray = matrix_multiply_integer_to_float(*operands, output_data_type=np.float32)
    return result


def recur(
    cell: Cell,
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    states: list[FloatArray],
    direction: int,
) -> list[FloatArray]:
    """The sequence of first states, then all states after the last step. `states` are {D, B, H} each."""
    steps, count = input.shape[0], recurrence.shape[0]
    sequence = np.empty((steps, *states[0].shape), np.float32)
    last = [state.copy() for state in states]
    for index in range(count):
        own = [state[index] for state in last]
        of_direction = input.reshape(steps, input.shape[1], count, -1)[:, :, index]
        times = range(steps)
        for time in reversed(times) if direction == 1 or index == 1 else times:
            parameters = [None if parameter is None else parameter[index] for parameter in (scale, zero_point)]
            sums = recurrent_sums(own[0], recurrence[index], *parameters)
            own = cell(index, of_direction[time], sums, own)
            sequence[time, index] = own[0]
        for state, values in zip(last, own, strict=True):
            state[index] = values
    return [sequence, *last]


@np.errstate(all="ignore")
def rnn(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    function: str,
    direction: int,
) -> list[FloatArray]:
    """`function` is "tanh" or "relu"."""

    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        total = sums + inputs
        return [np.where(total < 0, np.float32(0), total) if function == "relu" else hyperbolic_tangent(total)]

    return recur(step, input, recurrence, scale, zero_point, [hidden], direction)


@np.errstate(all="ignore")
def lstm(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    cell: FloatArray,
    direction: int,
) -> list[FloatArray]:
    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        i, o, f, g = np.split(sums + inputs, 4, axis=1)
        memory = states[1] * logistic(f) + logistic(i) * hyperbolic_tangent(g)
        return [hyperbolic_tangent(memory) * logistic(o), memory]

    return recur(step, input, recurrence, scale, zero_point, [hidden, cell], direction)


@np.errstate(all="ignore")
def gru(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    bias: FloatArray | None,
    direction: int,
) -> list[FloatArray]:
    """`bias`, {D, H}, is of the last part of the state's products."""
    length = recurrence.shape[1]

    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        z, r = np.split(logistic(sums[:, : 2 * length] + inputs[:, : 2 * length]), 2, axis=1)
        last = sums[:, 2 * length :] if bias is None else sums[:, 2 * length :] + bias[index]
        n = hyperbolic_tangent(last * r + inputs[:, 2 * length :])
        return [states[0] * z + n * (np.float32(1) - z)]

    return recur(step, input, recurrence, scale, zero_point, [hidden], direction)
