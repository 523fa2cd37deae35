"""Which plans a session keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dmlcpu.onnx.planning.plan_cache import PlanCache


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
