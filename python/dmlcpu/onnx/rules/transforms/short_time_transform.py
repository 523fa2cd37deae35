"""STFT: the Fourier transform of windows, a few samples apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import join, sliced_along
from dmlcpu.onnx.rules.operands import computed, computed_floats, constant, integers, present
from dmlcpu.onnx.rules.transforms.spectrum import Spectrum
from dmlcpu.onnx.rules.transforms.transformed import Transformed, check_size
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["RULES"]

# The pieces of a window, of as many samples as windows are apart.
_MOST_PIECES: Final = 64


def _window_of(node: Node, inputs: Sequence[Value | None]) -> tuple[int, int, Array | None]:
    """Return how many samples windows are apart, how many each has, and their factors.

    Raises:
        NotNative: They are computed, none, or do not agree.
    """
    step, window, length = (*inputs[1:], None, None)[:3]
    steps = integers(step, "the step")
    factors = None if window is None else constant(window, "the window")
    lengths = (*(() if length is None else integers(length, "the length")), *(() if factors is None else factors.shape))
    if len(steps) != 1 or steps[0] < 1 or len({*lengths}) != 1 or lengths[0] < 1:
        raise NotNative(f"windows of {lengths} samples that are {steps} apart")
    if factors is not None and (factors.ndim != 1 or factors.dtype != FLOAT32):
        raise NotNative(f"a window {factors.dtype} {factors.shape}")
    return steps[0], lengths[0], factors


def _frames(lowering: Lowering, signal: Tensor, step: int, length: int, count: int) -> Tensor:
    """Return the windows of a signal {N, samples, parts} as rows: {N, count, length, parts}.

    A row is pieces of as many samples as windows are apart, each a slice of all windows' samples.
    """
    batch, samples, parts = signal.shape
    if count == 1:  # however far apart others would be
        alone = computed(lowering, sliced_along(lowering, signal, 1, 0, length))
        return lowering.reshaped(alone, (batch, 1, length, parts))
    pieces = -(-length // step)
    read = (pieces - 1 + count) * step
    if read > samples:  # of the last piece the first samples alone are there
        zeros = np.zeros((1, 1, 1), np.float32)
        padding = lowering.emit("EXPAND", [zeros], FLOAT32, (batch, read - samples, parts))
        signal = join(lowering, [signal, padding], 1)
    columns: list[Tensor] = []
    for piece in range(pieces):
        run = computed(lowering, sliced_along(lowering, signal, 1, piece * step, count * step))
        rows = lowering.reshaped(run, (batch, count, step, parts))
        width = min(step, length - piece * step)
        columns.append(computed(lowering, sliced_along(lowering, rows, 2, 0, width)))
    return columns[0] if pieces == 1 else join(lowering, columns, 2)


def stft(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """STFT of real or complex signals."""
    value = present(inputs[0])
    step, length, factors = _window_of(node, inputs)
    if isinstance(value, Constant) or len(value.shape) not in (2, 3):
        raise NotNative(f"a signal of shape {value.shape}")
    signal = computed_floats(lowering, value)
    parts = 1 if len(signal.shape) == 2 else int(signal.shape[2])
    batch, samples = signal.shape[0], int(signal.shape[1])
    count = (samples - length) // step + 1
    if parts not in (1, 2) or count < 1 or -(-length // step) > _MOST_PIECES:
        raise NotNative(f"a signal {signal.shape} in windows of {length} samples that are {step} apart")
    bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
    spectrum = Spectrum(length, length, parts, 0, 1, bins, (0, 1), inverse=False, of_one_side=False)
    check_size(spectrum)
    frames = _frames(lowering, lowering.reshaped(signal, (batch, samples, parts)), step, length, count)
    return [Transformed(lowering, frames, 2, spectrum, factors)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "STFT"): stft}
