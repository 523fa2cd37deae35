"""Processes: what threads of the library are in one, and in one that forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SEED
from process_memory import IS_SANITIZED

linux_only = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="threads are counted on Linux")
BINDS_THREADS = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1

PREAMBLE = f"""
import multiprocessing, os, signal, sys, threading, time
import numpy as np
import dmlcpu

device = dmlcpu.Device(num_threads=2)
x = np.random.default_rng({SEED}).normal(0, 3, 700_000).astype(np.float32)
expected = dmlcpu.quantize_linear(x, 0.1, 128, device=dmlcpu.Device(num_threads=1))

def is_right(_=None):
    return bool((dmlcpu.quantize_linear(x, 0.1, 128, device=device) == expected).all())

def child_is_right_with_help():
    child = os.fork()
    if child == 0:
        os._exit(0 if is_right() and thread_count() == 2 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def thread_count():
    return len(os.listdir("/proc/self/task"))

def thread_count_is(expected):
    # The system counts a thread that was joined until it has ended altogether.
    for _ in range(1000):
        if thread_count() == expected:
            return True
        time.sleep(0.01)
    return False
"""


def run_script(body: str) -> str:
    """What a process prints that is given a minute at most."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREAMBLE + body]
    # numpy's own threads come and go at a fork.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@forks
def test_a_child_has_threads_of_its_own() -> None:
    """The workers of the parent do not exist in the child."""
    assert run_script("""
assert is_right()
before = thread_count()
assert all(child_is_right_with_help() for _ in range(3))
assert is_right() and thread_count() == before

def child_of_a_child():
    child = os.fork()
    if child == 0:
        os._exit(0 if is_right() and child_is_right_with_help() and thread_count() == 2 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

assert child_of_a_child()
print("done")
""")


@forks
def test_a_fork_amid_dispatches() -> None:
    """Others dispatch while one forks: the child finds no lock taken, and does not wait for processors of theirs."""
    assert run_script("""
stop = threading.Event()
outcomes = []

def work():
    while not stop.is_set():
        outcomes.append(is_right())

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
assert all(child_is_right_with_help() for _ in range(15))
stop.set()
for thread in threads:
    thread.join()
assert outcomes and all(outcomes)
print("done")
""")


@forks
def test_a_fork_amid_dispatches_of_a_graph() -> None:
    """The memory between its steps is shared by threads: one that holds it does not exist in the child."""
    assert run_script("""
builder = dmlcpu.GraphBuilder(device)
values = dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc(dmlcpu.TensorDataType.FLOAT32, (4,)))
codes = dmlcpu.quantize_linear(values, 0.5, 128)
graph = builder.build(dmlcpu.ExecutionFlags.NONE, [dmlcpu.dequantize_linear(codes, 0.5, 128)])
few = np.float32([1, 2, 3, 4])

def graph_is_right():
    return graph.dispatch(input_0=few).tolist() == few.tolist()

def child_ends():
    child = os.fork()
    if child == 0:
        os._exit(0 if graph_is_right() else 1)
    for _ in range(2000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.005)
    os.kill(child, 9)
    return False

stop = threading.Event()
outcomes = []

def work():
    while not stop.is_set():
        outcomes.append(graph_is_right())

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
ended = all(child_ends() for _ in range(100))
stop.set()
for thread in threads:
    thread.join()
assert ended and outcomes and all(outcomes)
print("done")
""")


@forks
def test_a_pool_of_forked_processes() -> None:
    assert run_script("""
assert is_right()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(is_right, range(6)))
print("done")
""")


@forks
def test_a_fork_amid_the_packing_of_a_graph() -> None:
    """Constants that graphs share are compared at length: whoever does so does not exist in the child."""
    assert run_script("""
from dmlcpu import _core

table = np.zeros(16 << 20, np.uint8)
shared = _core.new_session_memory()

def graph():
    values = [table, (0, "x", 5, table.shape, None), (1, "y", 5, table.shape, None)]
    nodes = [("ELEMENT_WISE_IF", "node", (1, 0, 0), (2,), {})]
    made = _core.bind_graph(_core.new_graph(values, nodes), "scalar", 1, print, tuple, shared)
    made.initialize({})
    return made

def child_ends():
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        graph()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

first = graph()
stop = threading.Event()

def work():
    while not stop.is_set():
        graph()

thread = threading.Thread(target=work)
thread.start()
ended = []
for _ in range(20):
    time.sleep(0.013)
    ended.append(child_ends())
stop.set()
thread.join()
assert all(ended)
print("done")
""")


@linux_only
@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer has a thread of its own")
def test_workers_are_as_many_as_the_widest_dispatch_asks_for() -> None:
    assert run_script("""
before = thread_count()
assert is_right()
assert thread_count() == before + 1

def work(device):
    for _ in range(10):
        dmlcpu.quantize_linear(x, 0.1, 128, device=device)

devices = [dmlcpu.Device(num_threads=count) for count in (1, 2, 3, 5, 5, 5, 4, 2)]
threads = [threading.Thread(target=work, args=(device,)) for device in devices]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert thread_count_is(before + 4), (before, thread_count())
print("done")
""")


@linux_only
def test_a_device_of_one_thread_starts_none() -> None:
    assert run_script("""
before = thread_count()
assert (dmlcpu.quantize_linear(x, 0.1, 128, device=dmlcpu.Device(num_threads=1)) == expected).all()
assert thread_count() == before
print("done")
""")


def test_a_process_ends_whatever_its_workers_do() -> None:
    assert run_script("""
threading.Thread(target=lambda: [is_right() for _ in range(20)], daemon=True).start()
assert is_right()
print("done")
""")


@pytest.mark.parametrize("call", ["slow_binding", "slow_function"])
def test_a_process_ends_while_python_is_called(call: str) -> None:
    """Its interpreter shuts down, and a thread that the module has called Python in wants to go on."""
    assert run_script(
        """
called = threading.Event()

def slow(result):
    called.set()
    time.sleep(0.5)  # which ends while the interpreter shuts down
    return result

class Slow:
    shape, dtype = x.shape, x.dtype

    def __dlpack__(self, **_):
        return slow(x).__dlpack__()

    def __dlpack_device__(self):
        return x.__dlpack_device__()

class Last:
    def __del__(self, sleep=time.sleep):  # of a module that is there no more
        sleep(1.5)

def slow_binding():
    builder = dmlcpu.GraphBuilder(dmlcpu.Device(num_threads=1))
    floats = dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc.from_array(x))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [dmlcpu.quantize_linear(floats, 0.1, 128)])
    graph.dispatch(input_0=Slow())

def slow_function():
    dmlcpu._core.call_in_default_float_environment(slow, x)

sys.last = Last()  # cleared behind all threads
threading.Thread(target=CALL, daemon=True).start()
assert called.wait(30)
print("done", flush=True)
""".replace("CALL", call)
    )


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="no signals to wait for")
def test_signals_are_the_programs() -> None:
    """A worker that took one which the program has blocked would end the process."""
    assert run_script("""
assert is_right()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
assert signal.sigtimedwait({signal.SIGUSR1}, 10).si_signo == signal.SIGUSR1
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # as it was: a worker's mask is its own
caught = []
signal.signal(signal.SIGUSR1, lambda *_: caught.append(True))
os.kill(os.getpid(), signal.SIGUSR1)
assert caught
print("done")
""")


@linux_only
@pytest.mark.skipif(not BINDS_THREADS, reason="one processor")
def test_workers_are_not_bound_as_a_caller_is() -> None:
    assert run_script("""
before = {int(thread) for thread in os.listdir("/proc/self/task")}

def call():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    assert is_right()

thread = threading.Thread(target=call)
thread.start()
thread.join()

def workers():
    return {int(task) for task in os.listdir("/proc/self/task")} - before - {thread.native_id}

# Python's end of a thread comes before the system's, and a list made in between may leave out those after it
for _ in range(1000):
    if not os.path.exists(f"/proc/self/task/{thread.native_id}"):
        break
    time.sleep(0.01)
assert workers()

def is_free():
    return os.sched_getaffinity(0) in [os.sched_getaffinity(worker) for worker in workers()]

for _ in range(1000):  # until the worker has begun
    if is_free():
        break
    time.sleep(0.01)
assert is_free()
print("done")
""")


@linux_only
@pytest.mark.skipif(not BINDS_THREADS or IS_SANITIZED, reason="one processor, or slower than a process may be")
def test_a_worker_that_has_made_room_comes_back() -> None:
    """Callers that keep all processors busy send it away from a job, of which much is left when they are done."""
    assert run_script("""
from dmlcpu import _core

def product(length, num_threads):
    rows = [(1, (length, length), (length, 1), False, output) for output in (False, False, True)]
    names = [(name, None) for name in ("a", "b", "output")]
    compiled = _core.bind_operator("FLOAT_PRODUCT", names, rows, {}, "scalar", num_threads, print, tuple)
    ones = np.ones((length, length), np.float32)
    return lambda: compiled.dispatch({"a": ones, "b": ones})

before = set(os.listdir("/proc/self/task"))
product(200, 2)()
(worker,) = set(os.listdir("/proc/self/task")) - before

def worked():  # ticks of the clock
    fields = open(f"/proc/self/task/{worker}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])

long, short = product(1200, 2), product(300, 1)
ended, enough = threading.Event(), threading.Event()

def work():
    long()
    ended.set()

def disturb():
    while not enough.is_set():
        short()

caller = threading.Thread(target=work)
others = [threading.Thread(target=disturb) for _ in range(_core.usable_processor_count())]
begun = worked()
caller.start()
while worked() < begun + 2 and not ended.is_set():
    time.sleep(0.001)
for other in others:
    other.start()
seen = None
while seen != worked() and not ended.is_set():  # until the worker rests
    seen = worked()
    time.sleep(0.1)
enough.set()
for other in others:
    other.join()
rested = worked()
has_ended = ended.is_set()  # where the machine is very slow
caller.join()
assert has_ended or worked() > rested + 2, (rested, worked())
print("done")
""")
