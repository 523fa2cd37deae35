"""The exact test for outputs whose elements share addresses, against counting the addresses."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dmlcpu.shared_addresses import elements_share_an_address


def counted(sizes: list[int], strides: list[int]) -> bool:
    axes = ([index * stride for index in range(size)] for size, stride in zip(sizes, strides, strict=True))
    return len({sum(parts) for parts in product(*axes)}) < prod(sizes)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes of at most 1296 elements, with strides that are arbitrary, or nearly those of a packed permuted layout."""
    rank = draw(st.integers(1, 8))
    largest = {1: 1000, 2: 36, 3: 10, 4: 6}.get(rank, 3 if rank <= 6 else 2)
    sizes = draw(st.lists(st.integers(1, largest), min_size=rank, max_size=rank))
    if draw(st.booleans()):
        highest = draw(st.sampled_from([3, 30, 1000, 10**6, 2**32 - 1]))
        return sizes, draw(st.lists(st.integers(0, highest), min_size=rank, max_size=rank))
    strides, step = [0] * rank, 1
    for axis in draw(st.permutations(range(rank))):
        strides[axis] = step
        step = max(0, step * sizes[axis] + draw(st.integers(-1, 2)))
    return sizes, strides


@given(layout=layouts())
@example(layout=([2, 3, 4], [6, 4, 1]))
@example(layout=([3, 3], [3, 2]))
@example(layout=([3, 4], [3, 2]))
def test_agrees_with_counting_addresses(layout: tuple[list[int], list[int]]) -> None:
    sizes, strides = layout
    assert elements_share_an_address(sizes, strides) == counted(sizes, strides)


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        # Each pair of axes, and each three of them, is free of overlap; all four are not: 1 * 7 + 1 * 8 = 5 + 10.
        ((2, 2, 2, 2), (7, 8, 5, 10), True),
        ((2, 2, 2), (7, 8, 5), False),
        # The least solution of 65537 a = 65536 b is a = 65536, b = 65537.
        ((65536, 65536), (65537, 65536), False),
        ((65537, 65538), (65537, 65536), True),
        # NHWC, alone and in a buffer with a padded row.
        ((1, 64, 56, 56), (200704, 1, 3584, 64), False),
        ((2, 64, 56, 56), (201600, 1, 3600, 64), False),
        # A row one element too short.
        ((2, 64, 56, 56), (200704, 1, 3583, 64), True),
        # Axes of length 1 never step.
        ((1, 3), (0, 1), False),
        ((1, 1), (0, 0), False),
        ((2, 1), (0, 1), True),
    ],
)
def test_known_layouts(sizes: tuple[int, ...], strides: tuple[int, ...], expected: bool) -> None:
    assert elements_share_an_address(sizes, strides) is expected


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        (tuple(16**power for power in range(8)), False),
        (tuple(15**power for power in range(8)), True),
        # A difference of 0 has steps that add up to 0, since their digits add up to less than 2**24; then no digit is
        # left but 0. No stride exceeds the reach of the others.
        (tuple(2**24 + 16**power for power in range(6)), False),
        # 2**32 elements in an interval of fewer addresses.
        ((35791391, 30541337, 27644437, 33554393, 31415927, 27182819, 34567891, 29979247), True),
    ],
)
def test_layouts_with_too_many_elements_to_count(strides: tuple[int, ...], expected: bool) -> None:
    """Eight axes of 16 elements have 31**8 differences of indices."""
    assert elements_share_an_address((16,) * len(strides), strides) is expected
