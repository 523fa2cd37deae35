"""What a Fourier transform is asked for, as a matrix, or as two with fewer elements together.

A transform of length n = n1 * n2 is, for j = j1 * n2 + j2 and k = k1 + n1 * k2, with w = exp(-2 pi i / n),

    y[k] = sum over j2 of w ** (j2 * k) * (sum over j1 of w ** (n2 * j1 * k1) * x[j])

so one matrix for all j2, then one for each k1, with the factors between both within.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dmlcpu.onnx.constant_arrays import Array

__all__ = ["Spectrum"]


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What is asked for of the transform of an axis.

    Attributes:
        length: Of the transform, n.
        given: Entries of the axis, at most n, or of one side of a spectrum n // 2 + 1; what is missing is 0.
        parts: Of an entry: 1, or 2, real and imaginary.
        first, step, count: Of the results along the axis, which of them, and how many.
        wanted: Of a result: (0,), its real part, (1,), its imaginary one, or both.
        inverse: Whether it is a spectrum that is transformed.
        of_one_side: Whether that is one side of the spectrum of a real signal, which is the result.
    """

    length: int
    given: int
    parts: int
    first: int
    step: int
    count: int
    wanted: tuple[int, ...]
    inverse: bool
    of_one_side: bool

    def narrowed(self, start: int, step: int, count: int) -> Spectrum:
        """Return every step-th of the results along the axis, from a start on."""
        return replace(self, first=self.first + start * self.step, step=self.step * step, count=count)

    @property
    def elements(self) -> int:
        """How many its matrix has."""
        return self.given * self.parts * self.count * len(self.wanted)

    @property
    def factors(self) -> tuple[int, int] | None:
        """The lengths n1 and n2 by which two matrices take least; None where the first results are not asked for."""
        whole = self.first == 0 and self.step == 1 and self.given == self.length and not self.of_one_side
        pairs = [(n1, self.length // n1) for n1 in range(2, self.length // 2 + 1) if self.length % n1 == 0]
        return min(pairs, key=lambda pair: sum(self.elements_of(pair)), default=None) if whole else None

    def rows_of(self, factors: tuple[int, int]) -> int:
        """Return how many results each k1 has: those are the first ones, and a few behind them."""
        return -(-self.count // factors[0])

    def elements_of(self, factors: tuple[int, int]) -> tuple[int, int]:
        """Return how many multiplications the first matrix takes, and how many elements the second ones have."""
        n1, n2 = factors
        return 2 * n1 * self.length * self.parts, n1 * 2 * n2 * self.rows_of(factors) * len(self.wanted)

    def matrix(self) -> Array:
        """Return the matrix, FLOAT32 {given, parts, count, wanted}."""
        bins = self.first + self.step * np.arange(self.count)
        matrix = self._of_parts(self._powers(np.arange(self.given)[:, None] * bins), self.parts)
        if self.of_one_side:  # the other side is what is there but for the sign of imaginary parts
            weights = np.full(self.given, 2.0)
            weights[0] = 1
            if self.length % 2 == 0:
                weights[self.length // 2 :] = 1
            matrix *= weights[:, None, None, None]
        return self._as_asked(matrix)

    def first_matrix(self, factors: tuple[int, int]) -> Array:
        """Return the first of two: FLOAT32 {n1 (j1), parts, n1 (k1), 2}."""
        n1, n2 = factors
        indices = np.arange(n1)
        return self._of_parts(self._powers(n2 * indices[:, None] * indices), self.parts).astype(np.float32)

    def second_matrices(self, factors: tuple[int, int]) -> Array:
        """Return the others: FLOAT32 {n1 (k1), n2 (j2), 2, rows (k2), wanted}."""
        n1, n2 = factors
        bins = np.arange(n1)[:, None, None] + n1 * np.arange(self.rows_of(factors))
        matrix = self._of_parts(self._powers(np.arange(n2)[:, None] * bins), 2)
        return self._as_asked(matrix)

    def _powers(self, exponents: Array) -> Array:
        """Return powers of the transform's root of 1, in double precision."""
        angles = 2 * math.pi / self.length * (exponents % self.length)
        powers: Array = np.exp((1j if self.inverse else -1j) * angles)
        return powers

    def _of_parts(self, matrix: Array, parts: int) -> Array:
        """Return a complex matrix {..., j, k} as one of real and imaginary parts: {..., j, parts, k, 2}."""
        by_part = (matrix, 1j * matrix)[:parts]
        return np.stack([np.stack([each.real, each.imag], -1) for each in by_part], -3)

    def _as_asked(self, matrix: Array) -> Array:
        chosen = matrix[..., list(self.wanted)]
        return np.ascontiguousarray(chosen / self.length if self.inverse else chosen, np.float32)
