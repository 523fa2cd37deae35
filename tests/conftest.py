"""Fixtures, seeds and hypothesis profiles of all tests.

The library is imported only where a test asks for a device, so the tests of the reference run without it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import TYPE_CHECKING

# Before numpy is imported: its products of matrices are small here, and the threads that wait for the next one spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

if TYPE_CHECKING:
    import dmlcpu

SEED = int(os.environ.get("DMLCPU_TEST_SEED", "20240607"))
THREAD_COUNTS = (1, 2)

# No database: with the seed alone a run can be repeated, on any machine. No limits of time, even for drawing examples:
# machines are busy.
COMMON = hypothesis.settings(
    deadline=None, database=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("default", COMMON, max_examples=60)
hypothesis.settings.register_profile("ci", COMMON, max_examples=200)
hypothesis.settings.register_profile("fuzz", COMMON, max_examples=10_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_report_header() -> str:
    return f"DMLCPU_TEST_SEED={SEED}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Half a million objects of tests, which live to the end: the garbage collector need not walk over them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.obj):
            hypothesis.seed(SEED)(getattr(item.obj, "__func__", item.obj))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"repeat with DMLCPU_TEST_SEED={SEED}"))
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "isa" in metafunc.fixturenames:
        import dmlcpu

        metafunc.parametrize("isa", dmlcpu.available_isas(), indirect=True)


def opened_device(isa: str, num_threads: int) -> dmlcpu.Device:
    import dmlcpu

    device = dmlcpu.Device(isa=isa, num_threads=num_threads)
    assert device.isa == isa
    return device


@pytest.fixture
def isa(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this CPU can run."""
    name: str = request.param
    return name


@pytest.fixture(params=THREAD_COUNTS, ids=lambda count: f"{count}thread")
def num_threads(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def device(isa: str, num_threads: int) -> dmlcpu.Device:
    """A device on the ISA and with the threads that the test is parametrised by."""
    return opened_device(isa, num_threads)


@pytest.fixture(scope="session")
def devices() -> dict[str, dmlcpu.Device]:
    """A device of every ISA with every thread count by a label, for tests that run all of them in one example."""
    import dmlcpu

    return {
        f"{isa}, {num_threads} threads": opened_device(isa, num_threads)
        for isa in dmlcpu.available_isas()
        for num_threads in THREAD_COUNTS
    }


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the variables that devices read; a test may set them."""
    for name in ("DMLCPU_ISA", "DMLCPU_NUM_THREADS", "DMLCPU_VERBOSE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def random_numbers() -> np.random.Generator:
    """Numbers that follow from the seed alone, the same in every test."""
    return np.random.default_rng(SEED)
