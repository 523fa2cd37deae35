"""DFT, forwards and backwards, of real and complex axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.moved_values import sliced_along
from dmlcpu.onnx.rules.operands import axis_within, integers, present
from dmlcpu.onnx.rules.transforms.spectrum import Spectrum
from dmlcpu.onnx.rules.transforms.transformed import Transformed, check_size
from dmlcpu.onnx.values import Value, element_type

__all__ = ["RULES"]

# From this version of DFT on the axis is an input, and by default the last one of the signal.
_AXIS_AS_INPUT_SINCE: Final = 20


def _only(value: Value | None, what: str) -> int:
    numbers = integers(value, what)
    if len(numbers) != 1:
        raise NotNative(f"{what} of {len(numbers)} numbers")
    return numbers[0]


def _axis(node: Node, inputs: Sequence[Value | None], rank: int) -> int:
    if node.version < _AXIS_AS_INPUT_SINCE:
        axis = node.attributes.get("axis", 1)
    else:
        axis = -2 if len(inputs) < 3 or inputs[2] is None else _only(inputs[2], "the axis")
    axis = axis_within(axis, rank)
    if axis == rank - 1:
        raise NotNative("a transform of real and imaginary parts")
    return axis


def _spectrum(node: Node, inputs: Sequence[Value | None], given: int, parts: int) -> Spectrum:
    """Return what a DFT of so many entries is asked for."""
    one_side, inverse = (bool(node.attributes.get(name, 0)) for name in ("onesided", "inverse"))
    is_back = one_side and inverse
    length = 2 * (given - 1) if is_back else given
    if len(inputs) > 1 and inputs[1] is not None:
        length = _only(inputs[1], "the length")
    if length < 1 or (is_back and (parts != 2 or given != length // 2 + 1)):
        raise NotNative(f"a DFT of length {length} of {given} entries of {parts} parts")
    return Spectrum(
        length=length,
        given=min(given, length),
        parts=parts,
        first=0,
        step=1,
        count=length // 2 + 1 if one_side and not inverse else length,
        wanted=(0,) if is_back else (0, 1),
        inverse=inverse,
        of_one_side=is_back,
    )


def dft(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """DFT of an axis of known length."""
    x = present(inputs[0])
    rank = len(x.shape)
    if rank < 2 or rank > 6 or element_type(x) != FLOAT32 or isinstance(x, Constant):
        raise NotNative(f"a transform of {element_type(x)} {x.shape}")
    axis, parts = _axis(node, inputs, rank), int(x.shape[-1])
    if parts not in (1, 2):
        raise NotNative(f"numbers of {parts} parts")
    spectrum = _spectrum(node, inputs, int(x.shape[axis]), parts)
    if spectrum.parts == 2 and spectrum.count < spectrum.length:
        raise NotNative("one side of the spectrum of complex numbers")
    check_size(spectrum)
    if spectrum.given != x.shape[axis]:
        x = sliced_along(lowering, x, axis, 0, spectrum.given)
    return [Transformed(lowering, x, axis, spectrum)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "DFT"): dft}
