"""RNN, LSTM and GRU, given the input's products with the weights: step by step, a cell's parts in ONNX's order.

Of sequences of their own lengths each is computed with as many steps as it has, but the products of codes, which all
that have not ended share. `functions` are a cell's, on its clipped sums where there is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.arithmetic import FloatArray
from reference.float_functions import clip
from reference.matrix_multiply_integer_to_float import chain_of_products, matrix_multiply_integer_to_float
from reference.quantize_by_range import quantize_by_range

__all__ = ["Function", "gru", "lstm", "rnn"]

Array = NDArray[Any]
# Of a direction: the input's products, the states' and these become the states after the step.
Cell = Callable[[int, FloatArray, FloatArray, list[FloatArray]], list[FloatArray]]
Function = Callable[[FloatArray], FloatArray]


def bounded(function: Function, bound: np.float32 | None) -> Function:
    return function if bound is None else lambda x: function(clip(x, -bound, bound))


def recurrent_sums(
    states: FloatArray, recurrence: Array, scale: FloatArray | None, zero_point: Array | None
) -> FloatArray:
    """States {B, H} by one direction's matrix {H, columns}."""
    if scale is None:
        return chain_of_products(states, recurrence)
    codes, state_scale, state_zero_point = quantize_by_range(states)
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
    lengths: Array | None,
    direction: int,
) -> list[FloatArray]:
    """The sequence of first states, then all states after the last step. `states` are {D, B, H} each."""
    steps, sequences, count = *input.shape[:2], recurrence.shape[0]
    ends = np.full(sequences, steps) if lengths is None else lengths
    sequence = np.zeros((steps, *states[0].shape), np.float32)
    last = [np.zeros_like(state) for state in states]
    numbers = np.arange(sequences)
    for index in range(count):
        own = [np.where(ends[:, np.newaxis] > 0, state[index], np.float32(0)) for state in states]
        of_direction = input.reshape(steps, sequences, count, -1)[:, :, index]
        for step in range(steps):
            is_backward = direction == 1 or index == 1
            times = np.where(step < ends, ends - 1 - step, step) if is_backward else np.full(sequences, step)
            parameters = [None if parameter is None else parameter[index] for parameter in (scale, zero_point)]
            sums = recurrent_sums(own[0], recurrence[index], *parameters)
            own = cell(index, of_direction[times, numbers], sums, own)
            for number in numbers[step < ends]:
                sequence[times[number], index, number] = own[0][number]
            for state, values in zip(last, own, strict=True):
                state[index, step + 1 == ends] = values[step + 1 == ends]
            own[0] = np.where((step + 1 < ends)[:, np.newaxis], own[0], np.float32(0))
    return [sequence, *last]


@np.errstate(all="ignore")
def rnn(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    lengths: Array | None,
    direction: int,
    functions: Sequence[Function],
    bound: np.float32 | None,
) -> list[FloatArray]:
    gate = bounded(functions[0], bound)

    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        return [gate(sums + inputs)]

    return recur(step, input, recurrence, scale, zero_point, [hidden], lengths, direction)


@np.errstate(all="ignore")
def lstm(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    lengths: Array | None,
    cell: FloatArray,
    direction: int,
    functions: Sequence[Function],
    bound: np.float32 | None,
) -> list[FloatArray]:
    gate, candidate, result = *(bounded(function, bound) for function in functions[:2]), functions[2]

    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        i, o, f, g = np.split(sums + inputs, 4, axis=1)
        memory = states[1] * gate(f) + gate(i) * candidate(g)
        return [result(memory) * gate(o), memory]

    return recur(step, input, recurrence, scale, zero_point, [hidden, cell], lengths, direction)


@np.errstate(all="ignore")
def gru(
    input: FloatArray,
    recurrence: Array,
    scale: FloatArray | None,
    zero_point: Array | None,
    hidden: FloatArray,
    lengths: Array | None,
    bias: FloatArray | None,
    direction: int,
    functions: Sequence[Function],
    bound: np.float32 | None,
    resets_first: bool,
) -> list[FloatArray]:
    """`bias`, {D, H}, is of the last part of the state's products; what resets first has none."""
    length = recurrence.shape[1]
    gate, candidate = (bounded(function, bound) for function in functions)

    def step(index: int, inputs: FloatArray, sums: FloatArray, states: list[FloatArray]) -> list[FloatArray]:
        z, r = np.split(gate(sums[:, : 2 * length] + inputs[:, : 2 * length]), 2, axis=1)
        if resets_first:
            last = recurrent_sums(r * states[0], recurrence[index][:, 2 * length :], None, None)
        else:
            last = (sums[:, 2 * length :] if bias is None else sums[:, 2 * length :] + bias[index]) * r
        n = candidate(last + inputs[:, 2 * length :])
        return [states[0] * z + n * (np.float32(1) - z)]

    return recur(step, input, recurrence, scale, zero_point, [hidden], lengths, direction)
