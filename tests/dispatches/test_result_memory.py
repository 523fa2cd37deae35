"""The memory of results that nobody holds any more is that of later ones; what is held stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlcpu
from conftest import SEED
from process_memory import IMPORTED_BY_SCRIPTS


def codes(elements: int, seed: int = 0) -> Any:
    return np.random.default_rng((SEED, seed)).integers(0, 256, elements, np.uint8)


@pytest.mark.parametrize("elements", [8 << 10, 50_001, 1 << 20, 5 << 20])
def test_results_reuse_memory(elements: int) -> None:
    x = codes(elements)
    expected = x.astype(np.float32)
    first = dmlcpu.dequantize_linear(x, 1.0)
    second = dmlcpu.dequantize_linear(x, 2.0)
    view = first[10:20]
    address = second.ctypes.data
    assert not np.shares_memory(first, second)
    assert np.array_equal(first, expected)
    del first, second
    third = dmlcpu.dequantize_linear(x, 3.0)
    assert third.ctypes.data == address
    assert np.array_equal(third, expected * np.float32(3))
    assert np.array_equal(view, expected[10:20])


GROWING = """
import numpy as np
import dmlcpu

x = np.arange(120_000, dtype=np.uint32).astype(np.uint8)
address = dmlcpu.dequantize_linear(x[:105_000], 1.0).ctypes.data
for elements in (106_000, 99_000, 106_400, 90_000):
    result = dmlcpu.dequantize_linear(x[:elements], 1.0)
    assert result.ctypes.data == address, elements
    assert (result == x[:elements]).all()
    del result
assert dmlcpu.dequantize_linear(x, 1.0).ctypes.data != address
"""


def run(script: str) -> str:
    """What a process of its own prints: it begins with no memory of results."""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_results_that_grow_a_little_find_memory() -> None:
    """Sizes less than an eighth apart are of one block, and for smaller ones it does, down to a quarter."""
    run(GROWING)


def test_results_of_many_sizes_and_lives(random_numbers: np.random.Generator) -> None:
    """More bytes than are kept, freed in any order: no two results share an element, none changes."""
    held: list[tuple[Any, Any]] = []
    for turn in range(120):
        x = codes(int(random_numbers.integers(1 << 12, 1 << 21)), turn)
        result = dmlcpu.dequantize_linear(x, 1.0)
        assert not any(np.may_share_memory(result, other) for _, other in held)
        held.append((x, result))
        while len(held) > 20 or (held and random_numbers.random() < 0.4):
            x, result = held.pop(int(random_numbers.integers(len(held))))
            assert np.array_equal(result, x)
    for x, result in held:
        assert np.array_equal(result, x)


def test_threads_take_and_free_memory() -> None:
    def check(seed: int) -> bool:
        x = codes(10_000 + 3_000 * (seed % 9), seed)
        results = [dmlcpu.dequantize_linear(x, scale) for scale in (1.0, 2.0, 4.0)]
        wanted = x.astype(np.float32)
        return all(np.array_equal(result, wanted * scale) for result, scale in zip(results, (1, 2, 4), strict=True))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, range(400)))


MANY_SIZES = """
import numpy as np
import dmlcpu

x = np.arange(2 << 20, dtype=np.uint32).astype(np.uint8)
held = []
for turn in range(400):  # sizes that nothing needs again
    held.append(dmlcpu.dequantize_linear(x[: (1 << 20) + 2500 * turn], 1.0))
    del held[:-2]
assert (held[-1][:256] == np.arange(256)).all()
print([int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM:")][0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_more_is_kept_than_a_limit() -> None:
    assert int(run(MANY_SIZES)) < 450  # MiB: 256 are kept, some 60 are Python's and numpy's


SHORT_OF_MEMORY = """
import resource
import numpy as np
import dmlcpu
from process_memory import address_space_bytes

x = np.zeros(50 << 20, np.uint8)
held = [dmlcpu.dequantize_linear(x[: 1 << 20], 1.0) for _ in range(60)]
del held  # 240 MiB are kept
resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + (100 << 20),) * 2)
print(dmlcpu.dequantize_linear(x, 1.0).nbytes >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_kept_is_given_up_where_memory_is_short() -> None:
    assert run(IMPORTED_BY_SCRIPTS + SHORT_OF_MEMORY) == "200\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_results_of_its_own() -> None:
    x = codes(100_000)
    kept = dmlcpu.dequantize_linear(x, 1.0)
    del kept
    held = dmlcpu.dequantize_linear(x, 2.0)
    child = os.fork()
    if child == 0:
        mine = [dmlcpu.dequantize_linear(x, scale) for scale in (3.0, 5.0)]
        right = all(np.array_equal(y, x * np.float32(scale)) for y, scale in zip(mine, (3, 5), strict=True))
        os._exit(0 if right and np.array_equal(held, x * np.float32(2)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(held, x * np.float32(2))
