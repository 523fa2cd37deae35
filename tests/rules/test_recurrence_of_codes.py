"""Recurrent layers with quantized weights, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, codes, results_of_onnxruntime, steps_of
from recurrent_layers import DIRECTIONS, HIDDEN, INPUTS, SHORTER, STEPS, uniform

Array = NDArray[Any]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("sequences", [1, 3])
def test_quantized_weights(
    random_numbers: np.random.Generator, direction: str, dtype: str, per_column: bool, sequences: int
) -> None:
    """Codes of inputs are the same; those of states may differ by one, as gates do in the last bit."""
    directions, columns = 1 + (direction == "bidirectional"), 4 * HIDDEN
    line = (directions, columns) if per_column else (directions,)
    builder = Builder()
    x = builder.input("float32", (STEPS, sequences, INPUTS))

    def parameters() -> list[Array]:
        """Of columns onnxruntime takes one zero point, that of INT8 0."""
        points = random_numbers.integers(120, 136, line) - (128 if dtype == "int8" else 0)
        if per_column:
            points = np.full(line, 131 if dtype == "uint8" else 0)
        return [random_numbers.uniform(0.003, 0.005, line).astype(np.float32), points.astype(dtype)]

    weights = [codes(random_numbers, dtype, (directions, rows, columns)) for rows in (INPUTS, HIDDEN)]
    bias = uniform(random_numbers, directions, 2 * columns)
    hidden, cell = (uniform(random_numbers, directions, sequences, HIDDEN) for _ in range(2))
    operands = [x, *weights, bias, "", hidden, cell, "", *parameters(), *parameters()]
    results = builder.node("com.microsoft.DynamicQuantizeLSTM", operands, 3, direction=direction, hidden_size=HIDDEN)
    for name in results:
        builder.output(name, "float32")
    feed = {"x": uniform(random_numbers, STEPS, sequences, INPUTS, bound=2)}
    ours = dmlcpu.InferenceSession(builder.build()).run(None, feed)
    for result, expected in zip(ours, results_of_onnxruntime(builder.build(), feed), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=0.004)
    product = ["QUANTIZE_BY_RANGE", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT"]
    assert steps_of(builder)[:3] == [*product, "LSTM"]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_quantized_weights_and_lengths(random_numbers: np.random.Generator, direction: str) -> None:
    """What has ended counts no more in the range by which states are quantized."""
    directions, columns, sequences = 1 + (direction == "bidirectional"), 4 * HIDDEN, len(SHORTER)
    builder = Builder()
    x = builder.input("float32", (STEPS, sequences, INPUTS))
    weights = [codes(random_numbers, "int8", (directions, rows, columns)) for rows in (INPUTS, HIDDEN)]
    parameters = [np.full(directions, 0.004, np.float32), np.zeros(directions, np.int8)]
    lengths = builder.input("int32", (sequences,), "lengths")
    operands = [x, *weights, "", lengths, "", "", "", *parameters, *parameters]
    results = builder.node("com.microsoft.DynamicQuantizeLSTM", operands, 3, direction=direction, hidden_size=HIDDEN)
    for name in results:
        builder.output(name, "float32")
    feed = {"x": uniform(random_numbers, STEPS, sequences, INPUTS, bound=2), "lengths": SHORTER}
    ours = dmlcpu.InferenceSession(builder.build()).run(None, feed)
    for result, expected in zip(ours, results_of_onnxruntime(builder.build(), feed), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=0.004)
    assert steps_of(builder)[2] == "LSTM"
