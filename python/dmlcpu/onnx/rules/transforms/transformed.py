"""The Fourier transform of an axis, by products of matrices, when it is known what is read of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.constant_arrays import Array, Constant, broadcast_to
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import on_floats
from dmlcpu.onnx.rules.movement.moved_values import sliced, sliced_along, transposed
from dmlcpu.onnx.rules.native_functions import FloatBinary
from dmlcpu.onnx.rules.operands import computed, computed_floats
from dmlcpu.onnx.rules.transforms.spectrum import Spectrum
from dmlcpu.onnx.values import Deferred, Tensor, Value

__all__ = ["Transformed", "check_size"]

# Two products and what moves between them pay from so many elements of one matrix on, and where they take a half.
_LEAST_ELEMENTS: Final = 1 << 16
# Of the matrices of one transform: 16 MiB. Of longer transforms factors are not even looked for.
_MOST_ELEMENTS: Final = 1 << 22
_LONGEST: Final = 1 << 16


def _uses_two(spectrum: Spectrum) -> tuple[int, int] | None:
    """Return the factors of the two lengths by which a transform is computed; None if by one matrix."""
    if spectrum.elements < _LEAST_ELEMENTS:
        return None
    factors = spectrum.factors
    return None if factors is None or 2 * sum(spectrum.elements_of(factors)) > spectrum.elements else factors


def check_size(spectrum: Spectrum) -> None:
    """Refuse a transform whose matrices would be too large.

    Raises:
        NotNative: They are.
    """
    is_long = spectrum.length > _LONGEST
    factors = None if is_long else _uses_two(spectrum)
    if is_long or (spectrum.elements if factors is None else spectrum.elements_of(factors)[1]) > _MOST_ELEMENTS:
        raise NotNative(f"a Fourier transform of length {spectrum.length}, whose factors are too large")


class Transformed(Deferred):
    """The transform of a real or complex axis: {..., axis, ..., parts}.

    What is sliced off it is not computed, and neither is what only that would read of the transform before it.
    Between two transforms real and imaginary parts are planes.

    Args:
        lowering: Where operators are added.
        source: What is transformed, FLOAT32 {..., axis, ..., 1 or 2}.
        axis: Not the last one.
        spectrum: What is asked for.
        window: A factor for each entry of the axis.
    """

    def __init__(
        self, lowering: Lowering, source: Value, axis: int, spectrum: Spectrum, window: Array | None = None
    ) -> None:
        self._lowering, self._source, self._axis, self._window = lowering, source, axis, window
        self._spectrum = spectrum
        self.shape = (*source.shape[:axis], spectrum.count, *source.shape[axis + 1 : -1], len(spectrum.wanted))
        self._planes: tuple[Tensor, int] | None = None

    def sliced(self, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Value:
        """Return a part, which is the transform of a part as well."""
        axis, last = self._axis, len(self.shape) - 1
        spectrum = self._spectrum.narrowed(int(starts[axis]), int(steps[axis]), int(shape[axis]))
        wanted = self._spectrum.wanted[int(starts[last]) :: int(steps[last])][: int(shape[last])]
        read = [*self._source.shape]
        begin, stride = [0] * len(read), [1] * len(read)
        for place in range(last):
            if place != axis:
                read[place], begin[place], stride[place] = shape[place], starts[place], steps[place]
        source = self._source
        if tuple(read) != source.shape:
            source = sliced(self._lowering, source, begin, stride, read)
        return Transformed(self._lowering, source, axis, replace(spectrum, wanted=wanted), self._window)

    def floats(self) -> Tensor:
        """Compute the transform."""
        planes, place = self.planes(self._axis + 1)
        return self._with_parts_last(planes, place)

    def planes(self, wanted: int) -> tuple[Tensor, int]:
        """Compute the transform with its parts elsewhere than last.

        Args:
            wanted: The axis that the parts should be, before or behind that of the transform.

        Returns:
            The tensor, and which of its axes the parts are.
        """
        if self._planes is None:
            place = wanted if wanted in (self._axis, self._axis + 1) else self._axis
            factors = _uses_two(self._spectrum)
            self._planes = (self._by_one(place), place) if factors is None else self._by_two(factors)
        return self._planes

    def _is_followed(self) -> bool:
        """Return whether there are axes behind the transformed one."""
        return any(length != 1 for length in self._source.shape[self._axis + 1 : -1])

    def _with_parts_last(self, tensor: Tensor, place: int) -> Tensor:
        last = len(tensor.shape) - 1
        if place == last or tensor.shape[place] == 1:
            return self._lowering.reshaped(tensor, self.shape)
        order = (*(axis for axis in range(last + 1) if axis != place), place)
        return transposed(self._lowering, tensor, order)

    def _given(self) -> tuple[Tensor, bool]:
        """Return what is transformed with its parts beside the axis, and whether they are before it."""
        axis, source = self._axis, self._source
        if isinstance(source, Transformed):
            tensor, place = source.planes(axis + 1)
            if place in (axis, axis + 1) or tensor.shape[place] == 1:
                return tensor, place == axis
            tensor = source._with_parts_last(tensor, place)
        else:
            tensor = computed_floats(self._lowering, source)
        last = len(tensor.shape) - 1
        if axis == last - 1 or tensor.shape[last] == 1:
            return tensor, False
        order = (*range(axis + 1), last, *range(axis + 1, last))
        return transposed(self._lowering, tensor, order), False

    def _by_one(self, place: int) -> Tensor:
        """Add the product with one matrix, whose result has its parts as an axis before or behind the transform's."""
        tensor, parts_first = self._given()
        axis, spectrum = self._axis, self._spectrum
        matrix = spectrum.matrix()
        if self._window is not None:
            matrix = matrix * self._window[:, None, None, None]
        if parts_first:
            matrix = matrix.transpose(1, 0, 2, 3)
        if place == axis:
            matrix = matrix.transpose(0, 1, 3, 2)
        columns = spectrum.count * len(spectrum.wanted)
        matrix = np.ascontiguousarray(matrix).reshape(-1, columns)
        before, behind = math.prod(self.shape[:axis]), math.prod(self.shape[axis + 1 : -1])
        results = (spectrum.count, len(spectrum.wanted))
        shape = (*self.shape[:axis], *(results[::-1] if place == axis else results), *self.shape[axis + 1 : -1])
        if not self._is_followed():
            rows = self._lowering.reshaped(tensor, (before, matrix.shape[0]))
            product = self._lowering.emit("FLOAT_PRODUCT", [rows, matrix], FLOAT32, (before, columns))
        else:
            given = self._lowering.reshaped(tensor, (before, matrix.shape[0], behind))
            factor = broadcast_to(np.ascontiguousarray(matrix.T), (before, columns, matrix.shape[0]))
            product = self._lowering.emit("FLOAT_PRODUCT", [factor, given], FLOAT32, (before, columns, behind))
        return self._lowering.reshaped(product, shape)

    def _by_two(self, factors: tuple[int, int]) -> tuple[Tensor, int]:
        """Add the products with two matrices, of rows that the axis is brought together in."""
        (n1, n2), spectrum, emit = factors, self._spectrum, self._lowering.emit
        before, behind = math.prod(self.shape[: self._axis]), math.prod(self.shape[self._axis + 1 : -1])
        rows, count = self._rows(before, behind), before * behind
        first = np.ascontiguousarray(spectrum.first_matrix(factors).transpose(2, 3, 1, 0))
        factor = broadcast_to(first.reshape(2 * n1, -1), (count, 2 * n1, spectrum.parts * n1))
        given = self._lowering.reshaped(rows, (count, spectrum.parts * n1, n2))
        inner = emit("FLOAT_PRODUCT", [factor, given], FLOAT32, (count, 2 * n1, n2))
        by_k1 = transposed(self._lowering, self._lowering.reshaped(inner, (count, n1, 2 * n2)), (1, 0, 2))
        second = np.ascontiguousarray(spectrum.second_matrices(factors).transpose(0, 2, 1, 4, 3))
        of_k1, parts = spectrum.rows_of(factors), len(spectrum.wanted)
        second = second.reshape(n1, 2 * n2, parts * of_k1)
        product = emit("FLOAT_PRODUCT", [by_k1, second], FLOAT32, (n1, count, parts * of_k1))
        bins = self._lowering.reshaped(transposed(self._lowering, product, (1, 2, 0)), (count, parts, of_k1 * n1))
        planes = computed(self._lowering, sliced_along(self._lowering, bins, 2, 0, spectrum.count))
        if self._is_followed():
            apart = self._lowering.reshaped(planes, (before, behind, parts, spectrum.count))
            planes = transposed(self._lowering, apart, (0, 2, 3, 1))
        shape = (*self.shape[: self._axis], parts, spectrum.count, *self.shape[self._axis + 1 : -1])
        return self._lowering.reshaped(planes, shape), self._axis

    def _rows(self, before: int, behind: int) -> Tensor:
        """Return what is transformed, as often as there are entries before and behind the axis: {rows, parts, axis}."""
        tensor, parts_first = self._given()
        length, parts = self._spectrum.length, self._spectrum.parts
        beside = (parts, length) if parts_first else (length, parts)
        apart = self._lowering.reshaped(tensor, (before, *beside, behind))
        together = transposed(self._lowering, apart, (0, 3, 1, 2) if parts_first else (0, 3, 2, 1))
        rows = self._lowering.reshaped(together, (before * behind, parts, length))
        if self._window is None:
            return rows
        return on_floats(self._lowering, FloatBinary.MULTIPLY, rows, Constant(self._window))
