"""Do two elements of a strided tensor share an address? Decided exactly, without looking at the elements.

Two elements share an address where the difference d of their indices, which is not zero, solves

    sum(d[i] * stride[i]) == 0   with   |d[i]| <= size[i] - 1.

Axes on which d must be 0 are set aside first; that decides every layout made by permuting, padding or slicing a
packed one. For what is left, the solutions of the equation are a lattice of at most seven dimensions, and the question
is whether a vector of it other than 0 lies in a box. A reduced basis of the lattice (Lenstra, Lenstra, Lovász 1982)
answers it: either a basis vector lies in the box, or all are so long that only few combinations of them could (Kannan
1987). With half the box's side as the unit, let r be the rank and b*[k] the part of basis vector b[k] that is
orthogonal to those before it. A point x of the box has |x . b*[k]| <= sum|b*[k]| <= sqrt(r) |b*[k]|, so the k-th
coefficient, given those after it, takes at most 2 sqrt(r) / |b*[k]| + 1 values. As b[0] is outside the box, it is
longer than 1, and in a reduced basis |b*[k]| is at least |b[0]| / 1.17**k. Hence the rank alone bounds the search,
whatever the sizes and strides, and the reduction takes polynomial time in their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import TypeAlias

__all__ = ["elements_share_an_address"]

_Vector: TypeAlias = list[int]


def elements_share_an_address(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two elements of a tensor lie at the same address.

    Args:
        sizes: The length of each axis, at least 1.
        strides: The distance of neighbours on each axis in elements, at least 0.

    >>> elements_share_an_address((2, 3), (3, 1)), elements_share_an_address((2, 3), (2, 1))
    (False, True)
    """
    axes = [(stride, size - 1) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    axes = _entangled_axes(sorted(axes, reverse=True))
    if not axes:
        return False
    if any(stride == 0 for stride, _ in axes):
        return True
    side = lcm(*(reach for _, reach in axes))
    units = [side // reach for _, reach in axes]
    solutions = _solutions([stride for stride, _ in axes])
    return _box_holds_a_lattice_vector([_scaled(vector, units) for vector in solutions], side)


def _entangled_axes(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop, until none can go, each (stride, reach) on which two elements at one address cannot differ.

    They cannot if its stride exceeds all that the other axes add up to, or if the steps on it that the others can
    undo, multiples of the greatest common divisor of their strides, are longer than the axis.
    """
    for position, (stride, reach) in enumerate(axes):
        others = axes[:position] + axes[position + 1 :]
        if stride > sum(s * r for s, r in others):
            return _entangled_axes(others)
        divisor = gcd(*(s for s, _ in others))
        if stride and divisor // gcd(divisor, stride) > reach:
            return _entangled_axes(others)
    return axes


def _solutions(strides: Sequence[int]) -> list[_Vector]:
    """Return a basis of the integer vectors orthogonal to the strides, by Euclid's algorithm on rows of a matrix."""
    rank = len(strides)
    rows = [[int(i == j) for j in range(rank)] for i in range(rank)]
    pivot_row, pivot = rows[0], strides[0]
    basis = []
    for row, value in zip(rows[1:], strides[1:], strict=True):
        while value:
            quotient = pivot // value
            pivot_row, row = row, _minus(pivot_row, quotient, row)
            pivot, value = value, pivot - quotient * value
        basis.append(row)
    return basis


@dataclass(frozen=True, slots=True)
class _Orthogonalization:
    """Gram and Schmidt's numbers for a basis, as integers.

    ``determinants[k]`` is the Gram determinant of the first k vectors, so that |b*[k]|**2 is determinants[k + 1] /
    determinants[k]; ``products[k][j]``, j < k, is determinants[j + 1] times the coefficient of b*[j] in b[k].
    """

    determinants: list[int]
    products: list[_Vector]

    def update(self, basis: list[_Vector], k: int) -> None:
        """Compute the numbers of vector k from those of the vectors before it; every division is exact."""
        row: _Vector = []
        for j in range(k + 1):
            value = sum(x * y for x, y in zip(basis[k], basis[j], strict=True))
            other = self.products[j] if j < k else row
            for i in range(j):
                value = (self.determinants[i + 1] * value - row[i] * other[i]) // self.determinants[i]
            row.append(value)
        self.determinants[k + 1] = row.pop()
        self.products[k] = row

    def orthogonal_parts(self, basis: list[_Vector]) -> list[_Vector]:
        """Return determinants[k] * b*[k] for every k; every division is exact."""
        parts: list[_Vector] = []
        for k, vector in enumerate(basis):
            part = vector
            for i, before in enumerate(parts):
                scale, factor, divisor = self.determinants[i + 1], self.products[k][i], self.determinants[i]
                part = [(scale * x - factor * y) // divisor for x, y in zip(part, before, strict=True)]
            parts.append(part)
        return parts


def _reduce(basis: list[_Vector]) -> _Orthogonalization:
    """Replace a basis by a reduced one of the same lattice, with 0.99 for the constant of Lovász's condition."""
    numbers = _Orthogonalization([1] * (len(basis) + 1), [[] for _ in basis])
    determinants, products = numbers.determinants, numbers.products
    k = 0
    while k < len(basis):
        numbers.update(basis, k)
        for j in reversed(range(k)):
            nearest = (2 * products[k][j] + determinants[j + 1]) // (2 * determinants[j + 1])
            basis[k] = _minus(basis[k], nearest, basis[j])
            products[k] = _minus(products[k], nearest, [*products[j], determinants[j + 1], *[0] * (k - j - 1)])
        length = determinants[k + 1] * determinants[k - 1] + products[k][k - 1] ** 2 if k > 0 else None
        if length is not None and 100 * length < 99 * determinants[k] ** 2:
            basis[k - 1], basis[k] = basis[k], basis[k - 1]
            k -= 1
        else:
            k += 1
    return numbers


def _box_holds_a_lattice_vector(basis: list[_Vector], side: int) -> bool:
    """Return whether a vector of the lattice other than 0 has no component beyond +-side."""
    numbers = _reduce(basis)
    if any(_is_inside(vector, side) for vector in basis):
        return True
    determinants, products = numbers.determinants, numbers.products
    limits = [side * sum(abs(x) for x in part) for part in numbers.orthogonal_parts(basis)]

    def search(k: int, coefficients: _Vector, point: _Vector) -> bool:
        """Choose coefficients[k] and those before it; ``coefficients`` holds the later ones, ``point`` their sum."""
        if k < 0:
            return any(coefficients) and _is_inside(point, side)
        offset = sum(products[j][k] * c for j, c in enumerate(coefficients, start=k + 1))
        lowest = -((limits[k] + offset) // determinants[k + 1])
        highest = (limits[k] - offset) // determinants[k + 1]
        return any(search(k - 1, [c, *coefficients], _minus(point, -c, basis[k])) for c in range(lowest, highest + 1))

    return search(len(basis) - 1, [], [0] * len(basis[0]))


def _is_inside(vector: _Vector, side: int) -> bool:
    return all(-side <= x <= side for x in vector)


def _minus(vector: _Vector, factor: int, other: _Vector) -> _Vector:
    return [x - factor * y for x, y in zip(vector, other, strict=True)]


def _scaled(vector: _Vector, units: _Vector) -> _Vector:
    return [x * unit for x, unit in zip(vector, units, strict=True)]
