"""Lengths that are known only later: what is computed of them and decided by them is recorded."""

from __future__ import annotations

import gc
import math
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlcpu.graph.lengths import broadcast_shapes, decided_by, derived, is_free, length_by
from dmlcpu.graph.record import Length, Record

lengths = st.integers(1, 40)


@given(st.lists(lengths, min_size=2, max_size=2), st.lists(lengths, min_size=2, max_size=2), st.integers(1, 5))
def test_arithmetic_is_computed_again(first: list[int], later: list[int], step: int) -> None:
    def computed(a: int, b: int) -> list[int]:
        rows = (a + 2 * step - 1) // step + 1
        results = [rows, 3 - b, -a, +b, abs(3 - b), 7 // b, a % b, *divmod(a, 5), *divmod(20, b)]
        return [
            *results,
            np.int64(2) * a,
            b - np.int32(3),
            math.prod((a, 2, b)),
            sum((a, b)),
            length_by(math.gcd, a, b),
        ]

    record = Record()
    results = computed(*map(record.free, first))
    replay = record.again(later)
    assert replay is not None
    assert [replay.of(result) for result in results] == computed(*later)
    assert replay.lengths((5, *results)) == (5, *computed(*later))


@given(lengths, lengths)
def test_a_record_says_of_which_lengths_it_is_one(first: int, later: int) -> None:
    def decided(length: int) -> list[bool]:
        comparisons: list[Callable[[Any, Any], bool]] = [operator.lt, operator.le, operator.gt, operator.eq]
        return [compare(length, 20) for compare in comparisons] + [length % 3 != 0, bool(length // 10), length > 5]

    record = Record()
    decisions = decided(record.free(first))
    assert decisions == decided(first)
    assert (record.again([later]) is not None) == (decisions == decided(later))


@pytest.mark.parametrize(
    "use",
    [
        int, float, hash, str, range, lambda length: [0] * length, lambda length: np.zeros(length), lambda a: a / 2,
        lambda length: 2 / length, lambda length: length * 0.5, lambda length: np.float32(2) * length,
        lambda length: length < 7.5, lambda length: np.broadcast_to(np.zeros(1), (3, length)), np.int64,
    ],
)  # fmt: skip
def test_what_is_not_recorded_binds(use: Callable[[Any], object]) -> None:
    record = Record()
    length = record.free(9)
    use(length)
    assert record.again([9]) is not None
    assert record.again([8]) is None


def test_a_length_computed_twice_is_one() -> None:
    record = Record()
    length: Any = record.free(9)
    assert (length + 1).place == (length + 1).place
    assert (length + 1).place != (1 + length).place


def test_small_arrays_of_the_same_bytes_are_one() -> None:
    record = Record()
    length = record.free(3)
    zeros = [np.zeros(1, np.float32), np.zeros(1, np.float32), -np.zeros(1, np.float32), np.zeros((1, 1), np.float32)]
    others = [np.zeros(1, np.int32), np.array([b"0000"], dtype=object), np.zeros(99, np.float32)]
    made = [derived(np.broadcast_to, array, length) for array in (*zeros[:3], others[0])]
    assert made[0].place == made[1].place
    assert len({value.place for value in made}) == 3
    sizes = [length_by(lambda array, _: array.size, array, length) for array in (*zeros, *others, others[-1].copy())]
    assert sizes == [1, 1, 1, 1, 1, 1, 99, 99]


@given(st.lists(st.tuples(lengths, lengths, lengths), min_size=2, max_size=8))
def test_what_depends_on_a_length_that_changed_is_computed_again(given_lengths: list[tuple[int, ...]]) -> None:
    """One time after the other, from whatever came before, of which some is another record's."""
    record = Record()
    a, b, c = map(record.free, given_lengths[0])

    def computed(a: int, b: int, c: int) -> list[int]:
        return [a + 1, a * b, (a * b) // 3 + c, length_by(max, a, b, c), c - 4]

    results = computed(a, b, c)
    decisions = [a < 30, a + b < 60, bool((b + c) % 7), c != 13]
    for given_now in given_lengths:
        now = [given_now[0] < 30, given_now[0] + given_now[1] < 60, bool(sum(given_now[1:]) % 7), given_now[2] != 13]
        replay = record.again(given_now)
        assert (replay is not None) == (now == decisions)
        if replay is not None:
            assert [replay.of(result) for result in results] == computed(*given_now)


def test_what_is_recorded_after_a_replay_is_computed_as_well() -> None:
    record = Record()
    a, b = record.free(2), record.free(3)
    assert record.again([5, 3]) is not None
    later: Any = derived(operator.mul, a, b)
    for lengths_now in ([5, 3], [5, 4], [2, 4]):
        replay = record.again(lengths_now)
        assert replay is not None
        assert replay.of(later) == math.prod(lengths_now)


def test_a_length_that_is_added_after_a_replay() -> None:
    record = Record()
    a = record.free(2)
    doubled: Any = a * 2
    assert record.again([5]) is not None
    b = record.free(3)
    total: Any = doubled + b
    for lengths_now in ([5, 3], [4, 7]):
        replay = record.again(lengths_now)
        assert replay is not None
        assert replay.of(total) == 2 * lengths_now[0] + lengths_now[1]


def test_more_sets_of_lengths_than_are_remembered() -> None:
    record = Record()
    free = [record.free(length) for length in range(4)]
    total: Any = sum(free[1:], free[0])
    for bits in range(32):
        lengths_now = [length + (bits >> place & 1) for place, length in enumerate(range(4))]
        replay = record.again(lengths_now)
        assert replay is not None
        assert replay.of(total) == sum(lengths_now)


def test_what_is_not_needed_is_forgotten_and_decisions_are_not() -> None:
    record, calls = Record(), []

    def counted(length: int) -> int:
        calls.append(length)
        return length + 1

    a, b = record.free(2), record.free(3)
    needed, other = derived(counted, a), derived(counted, b)
    assert decided_by(operator.lt, derived(counted, other), 9)
    derived(counted, needed)
    record.keep([needed])
    calls.clear()
    replay = record.again([4, 3])
    assert replay is not None
    assert (replay.of(needed), calls) == (5, [4])
    assert record.again([4, 6]) is not None
    assert calls == [4, 6, 7]
    assert record.again([4, 7]) is None


def test_arrays_that_no_replay_reads_are_let_go() -> None:
    record = Record()
    length = record.free(3)
    read, unread, deciding = (np.full(1 << 10, number) for number in (2, 3, 5))
    needed = derived(np.sum, derived(operator.mul, read, length))
    made = derived(operator.mul, unread, length)
    assert decided_by(operator.lt, derived(np.max, derived(operator.mul, deciding, length)), 20)
    kept, let_go = [*map(weakref.ref, (read, deciding))], [*map(weakref.ref, (unread, made.value))]
    record.keep([needed])
    del read, unread, deciding, made
    gc.collect()
    assert [array() is None for array in (*kept, *let_go)] == [False, False, True, True]
    for later, total in ((2, 4 << 10), (3, 6 << 10), (4, None)):
        replay = record.again([later])
        assert (None if replay is None else replay.of(needed)) == total


def test_what_a_function_makes_is_derived() -> None:
    record = Record()
    indices = derived(np.arange, record.free(3))
    np.testing.assert_array_equal(indices.value, [0, 1, 2])
    replay = record.again([2])
    assert replay is not None
    np.testing.assert_array_equal(replay.of(indices), [0, 1])
    assert derived(max, 2, 3) == 3
    assert decided_by(operator.lt, 2, 3) is True


def test_lengths_that_a_function_does_not_take() -> None:
    record = Record()
    length = record.free(4)
    assert 12 // (length - 3) == 12
    assert record.again([3]) is None


def test_lengths_are_told() -> None:
    length = Record().free(2)
    assert type(length) is Length
    assert is_free((1, length))
    assert not is_free((1, 2))


shapes = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=4)


@given(st.lists(shapes, max_size=3))
def test_shapes_are_broadcast_as_by_numpy(given_shapes: list[list[int]]) -> None:
    try:
        expected = np.broadcast_shapes(*map(tuple, given_shapes))
    except ValueError:
        with pytest.raises(ValueError, match="do not fit together"):
            broadcast_shapes(*given_shapes)
        return
    assert broadcast_shapes(*given_shapes) == expected


@given(shapes, shapes, lengths)
def test_free_lengths_are_broadcast(one: list[int], other: list[int], later: int) -> None:
    record = Record()
    length = record.free(2)
    try:
        shape = broadcast_shapes([*one, length], [*other, 1])
    except ValueError:
        return
    replay = record.again([later])
    if replay is not None:
        assert replay.lengths(shape) == np.broadcast_shapes((*one, later), (*other, 1))


def test_no_number_binds_as_well() -> None:
    record = Record()
    share = derived(operator.truediv, derived(float, record.free(0)), derived(float, record.free(1)))
    nothing = derived(operator.mul, share, float("inf"))
    assert math.isnan(nothing.bound)
    assert record.again([0, 5]) is not None
    assert record.again([1, 5]) is None


def test_zeros_of_another_sign_are_others() -> None:
    record = Record()
    zero = derived(operator.mul, derived(float, record.free(0) - 3), 0.0)
    assert str(zero.bound) == "-0.0"
    assert record.again([1]) is not None
    assert record.again([4]) is None


def test_an_entry_by_itself() -> None:
    """It follows from the lengths that it depends on alone, whatever is decided or forgotten, or bound to others."""
    record = Record()
    count, other, rows = (record.free(length) for length in (3, 5, 2))
    assert other < 6
    made = derived(np.full, length_by(operator.add, count * 2, rows), 7)
    function, value = record.function_of(made), made.value
    int(count)
    record.keep([])
    assert function.free == (count.place, rows.place)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(function(4, 1), [7] * 9)
    np.testing.assert_array_equal(function(3, 2), value)
    assert record.function_of(derived(abs, other))(-9) == 9
