"""Matrices that can be multiplied, and parameters with a value for each row or column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dmlcpu.schema import Check, DescValues, Violation

__all__ = ["LineSizes", "MatrixSizes"]


_MATRIX_RANK = 4


def _as_matrices(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return sizes with ones before them, up to the rank of two batch axes, rows and columns."""
    return (1,) * (_MATRIX_RANK - len(sizes)) + tuple(sizes)


def _at_rank(sizes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return sizes without the ones before them, as far as they are more than a rank."""
    surplus = max(len(sizes) - rank, 0)
    ones = next((axis for axis, size in enumerate(sizes[:surplus]) if size != 1), surplus)
    return sizes[ones:]


@dataclass(frozen=True, slots=True)
class MatrixSizes:
    """Two tensors are matrices that can be multiplied, and a third has the product's sizes; ranks may differ."""

    a: str
    b: str
    output: str
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the second matrix if it does not go with the first, else the output if it is not their product's."""
        a, b, output = (_as_matrices(values.tensors[name].sizes) for name in (self.a, self.b, self.output))
        if b[:-1] != (*a[:-2], a[-1]):
            sizes = values.tensors[self.b].sizes
            required = _at_rank((*a[:-2], a[-1], b[-1]), len(sizes))
            expected = f"{required}: the batch of {self.a}, and as many rows as it has columns"
            return Violation(self.check, self.b, f"sizes {sizes}", expected)
        if output != (*a[:-1], b[-1]):
            sizes = values.tensors[self.output].sizes
            required = _at_rank((*a[:-1], b[-1]), len(sizes))
            return Violation(self.check, self.output, f"sizes {sizes}", f"{required}, the product's")
        return None


@dataclass(frozen=True, slots=True)
class LineSizes:
    """Each of the tensors, where present, has one element, or one for each row {M, 1} or column {N} of a matrix."""

    names: tuple[str, ...]
    matrix: str
    of_rows: bool
    check: ClassVar[Check] = Check.SIZES

    def violation(self, values: DescValues) -> Violation | None:
        """Return the first tensor of other sizes."""
        rows, columns = values.tensors[self.matrix].sizes[-2:]
        line = (rows, 1) if self.of_rows else (columns,)
        for name, tensor in values.present(self.names):
            if max(tensor.sizes) == 1 or _as_matrices(tensor.sizes) == _as_matrices(line):
                continue
            what = "row" if self.of_rows else "column"
            expected = f"one element or sizes {line} after any ones, a value for each {what} of {self.matrix}"
            return Violation(self.check, name, f"sizes {tensor.sizes}", expected)
        return None
