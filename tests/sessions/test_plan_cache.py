"""Which plans a session keeps, and how large it takes them to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import dmlcpu
from dmlcpu.onnx.planning.plan_cache import PlanCache
from onnx_models import Builder


def plan(size: int) -> Any:
    return SimpleNamespace(size=size, last_use=0)


def filled(count: int, size: int) -> PlanCache:
    cache = PlanCache()
    for number in range(count):
        made = plan(size)
        cache.keep((number,), made)
        cache.used(made)
    return cache


def test_small_plans_are_kept() -> None:
    assert [*filled(512, 1 << 18)] == [(number,) for number in range(512)]


def test_of_large_plans_sixteen_are_kept() -> None:
    assert [*filled(20, 1 << 30)] == [(number,) for number in range(4, 20)]


def test_the_plans_used_last_are_kept() -> None:
    cache = filled(512, 0)
    cache.used(cache[0,])
    cache.keep((512,), plan(0))
    assert (0,) in cache
    assert (1,) not in cache
    assert len(cache) == 512


def test_a_plan_takes_the_place_of_one_with_its_key() -> None:
    cache = filled(16, 1 << 23)
    latest = plan(1 << 23)
    for _ in range(3):
        cache.keep((0,), latest)
    assert len(cache) == 16
    assert cache[0,] is latest


def test_a_large_plan_takes_the_place_of_as_many_as_it_needs() -> None:
    """Of 64 parts of the bytes 50 have been used; another 25 are wanted."""
    cache = filled(50, (1 << 27) // 64)
    cache.keep((50,), plan((1 << 27) // 64 * 25))
    assert [*cache] == [(number,) for number in range(11, 51)]


def sizes_of_plans(builder: Builder, lengths: range) -> list[int]:
    session = dmlcpu.InferenceSession(builder.build())
    for length in lengths:
        session.run(None, {"x": np.ones((length, 4), np.float32)})
    return [plan.size for plan in session._plans.cache.values()]


def test_masks_of_lengths_count() -> None:
    """Each plan has a mask of its own: known from the third on, which is made of the one before."""
    builder = Builder(18)
    x = builder.input(np.float32, ("L", 4))
    length = builder.node("Gather", [builder.node("Shape", [x]), np.int64(0)])
    places = builder.node("Range", [np.int64(0), length, np.int64(1)])
    rows, columns = (builder.node("Unsqueeze", [places, np.int64([axis])]) for axis in (0, 1))
    mask = builder.node("Where", [builder.node("LessOrEqual", [rows, columns]), np.float32(-1e9), np.float32(0)])
    scores = builder.node("MatMul", [x, builder.node("Transpose", [x])])
    builder.output(builder.node("Softmax", [builder.node("Add", [scores, mask])]), np.float32)
    lengths = range(500, 520)
    for size, length in list(zip(sizes_of_plans(builder, lengths), lengths, strict=True))[2:]:
        assert 4 * length**2 <= size < 8 * length**2


def test_weights_are_every_plans() -> None:
    builder = Builder(18)
    weights = np.ones((4, 1 << 16), np.float32)
    builder.output(builder.node("MatMul", [builder.input(np.float32, ("L", 4)), weights]), np.float32)
    assert max(sizes_of_plans(builder, range(3, 20))) < weights.nbytes / 8


def test_sessions_of_other_runtimes_for_all_lengths_are_every_plans() -> None:
    builder = Builder(18)
    weights = np.ones((4, 1 << 16), np.float64)
    builder.output(
        builder.node("MatMul", [builder.node("Cast", [builder.input(np.float32, ("L", 4))], to=11), weights]),
        np.float64,
    )
    assert max(sizes_of_plans(builder, range(3, 20))) < weights.nbytes / 8
