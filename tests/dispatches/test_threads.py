"""Threads: of one dispatch, and of many callers at once."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlcpu
from bound_arrays import Arrays, compiled, dispatched, input_names, owning, random_inputs, same_bits
from conftest import SEED
from dmlcpu import _core
from dmlcpu.graph.native_graph import ValueKind
from operator_samples import CONVOLUTION, LARGE_DESCS, VALID_DESCS, changed, tensor
from process_memory import IS_SANITIZED, measures_memory, resident_bytes

each_large_desc = pytest.mark.parametrize("desc", LARGE_DESCS.values(), ids=lambda desc: desc.operator_type.name)


def inputs_of(desc: dmlcpu.OperatorDesc, seed: int = SEED) -> Arrays:
    return random_inputs(desc, np.random.default_rng(seed))


def run_threads(count: int, body: Callable[[int], None]) -> None:
    """Runs body(0) ... body(count - 1) at once, and raises what one of them raised."""
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            barrier.wait()
            body(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# --- one dispatch -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected() -> dict[dmlcpu.OperatorType, Arrays]:
    device = dmlcpu.Device(isa="scalar", num_threads=1)
    return {name: dispatched(compiled(device, desc), **inputs_of(desc)) for name, desc in LARGE_DESCS.items()}


@each_large_desc
@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(
    desc: dmlcpu.OperatorDesc, isa: str, count: int, expected: dict[dmlcpu.OperatorType, Arrays]
) -> None:
    operator = compiled(dmlcpu.Device(isa=isa, num_threads=count), desc)
    for _ in range(3):
        assert same_bits(dispatched(operator, **inputs_of(desc)), expected[desc.operator_type])


HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")


@pytest.mark.skipif(HAS_GIL, reason="this Python always has a GIL")
def test_the_gil_stays_off() -> None:
    """Importing a module that does not say that it is safe without turns it on."""
    check = "import sys, dmlcpu; print(sys._is_gil_enabled())"
    run = subprocess.run([sys.executable, "-c", check], stdout=subprocess.PIPE, text=True, check=True)
    assert run.stdout == "False\n"


needs_gil = pytest.mark.skipif(not HAS_GIL, reason="this Python has no GIL")


@needs_gil
def test_the_gil_is_released() -> None:
    """A Python thread goes on while a dispatch lasts: it never waits for most of it."""
    desc = changed(
        CONVOLUTION,
        **dict.fromkeys(("filter_zero_point_tensor", "bias_tensor")),
        input_tensor=tensor("UINT8", 1, 128, 40, 40),
        filter_tensor=tensor("INT8", 128, 128, 3, 3),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        output_tensor=tensor("UINT8", 1, 128, 38, 38),
        **dict.fromkeys(("strides", "dilations"), (1, 1)),
        **dict.fromkeys(("start_padding", "end_padding"), (0, 0)),
        group_count=1,
    )
    operator = compiled(dmlcpu.Device(isa="scalar", num_threads=1), desc)
    inputs = inputs_of(desc)
    assert longest_pause_during(lambda: operator.dispatch(**inputs)) < 1 / 2


@needs_gil
def test_the_gil_is_released_while_a_graph_is_compiled() -> None:
    nodes, layout = 20_000, (int(dmlcpu.TensorDataType.FLOAT32), (1,), None)
    values = [(int(ValueKind.INPUT), "x", *layout)]
    values += [(int(ValueKind.INTERMEDIATE), "", *layout)] * (nodes - 1)
    values += [(int(ValueKind.OUTPUT), "y", *layout)]
    rows = [("SOFTMAX", str(index), (index,), (index + 1,), {"axis": (0,)}) for index in range(nodes)]
    graph = _core.new_graph(values, rows)
    pause = longest_pause_during(lambda: _core.bind_graph(graph, "scalar", 1, lambda *_: ((), None), tuple))
    assert pause < 1 / 2


def longest_pause_during(call: Callable[[], object]) -> float:
    """Of another thread, as a share of all the time."""
    calling, done = threading.Event(), threading.Event()

    def work() -> None:
        calling.set()
        call()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    calling.wait()
    times = [time.perf_counter()]
    while not done.is_set():
        times.append(time.perf_counter())
    thread.join()
    return float(max(np.diff(times))) / (times[-1] - times[0])


# --- many callers -----------------------------------------------------------------------------------------------


@each_large_desc
@pytest.mark.parametrize("count", [1, 2, 5])
def test_callers_share_one_compiled_operator(desc: dmlcpu.OperatorDesc, count: int) -> None:
    """Each with inputs of its own; a part of them is owned, and the same for all."""
    owned = [name for name in input_names(desc) if name not in ("input_tensor", "a_tensor")]
    shared = {name: inputs_of(desc)[name] for name in owned}
    operator = compiled(dmlcpu.Device(num_threads=count), owning(desc, owned))
    if owned:
        operator.initialize(**shared)
    alone = compiled(dmlcpu.Device(num_threads=1), desc)

    def dispatch(index: int) -> None:
        bound = {name: content for name, content in inputs_of(desc, SEED + index).items() if name not in owned}
        wanted = dispatched(alone, **shared, **bound)
        for _ in range(4):
            assert same_bits(dispatched(operator, **bound), wanted), index

    run_threads(6, dispatch)


def test_callers_create_and_compile_at_once() -> None:
    wanted = {
        name: dispatched(compiled(dmlcpu.Device(num_threads=1), desc), **inputs_of(desc))
        for name, desc in VALID_DESCS.items()
    }

    def work(index: int) -> None:
        device = dmlcpu.Device(num_threads=1 + index % 3) if index % 2 else dmlcpu.default_device()
        for _ in range(10):
            for name, desc in VALID_DESCS.items():
                operator = compiled(device, owning(desc, input_names(desc)[1:]))
                inputs = inputs_of(desc)
                first = inputs.pop(input_names(desc)[0])
                if inputs:
                    operator.initialize(**inputs)
                assert same_bits(dispatched(operator, **{input_names(desc)[0]: first}), wanted[name]), name

    run_threads(6, work)


def test_callers_of_functions() -> None:
    x = np.random.default_rng(SEED).normal(0, 1, (50, 60)).astype(np.float32)
    wanted = [dmlcpu.quantize_linear(x[: 40 + index], 0.1, index) for index in range(6)]

    def work(index: int) -> None:
        for _ in range(30):
            assert (dmlcpu.quantize_linear(x[: 40 + index], 0.1, index) == wanted[index]).all()

    run_threads(6, work)


@measures_memory
def test_threads_that_end_leave_no_memory_behind() -> None:
    desc = LARGE_DESCS[dmlcpu.OperatorType.QUANTIZED_LINEAR_CONVOLUTION]
    operator = compiled(dmlcpu.Device(num_threads=1), desc)
    dispatches, most_left = 300, 16 << 20
    assert dispatches * operator.binding_properties.temporary_resource_size > 1.5 * most_left
    inputs = inputs_of(desc)

    def dispatch(_: int) -> None:
        operator.dispatch(**inputs)

    for _ in range(20):
        run_threads(1, dispatch)
    before = resident_bytes()
    for _ in range(dispatches):
        run_threads(1, dispatch)
    assert resident_bytes() - before < most_left


@measures_memory
def test_memory_of_a_large_dispatch_goes_back_when_small_ones_follow() -> None:
    calls = 1 << 15

    def product(rows: int, length: int) -> tuple[Any, Arrays]:
        desc = dmlcpu.MatrixMultiplyIntegerOperatorDesc(
            a_tensor=tensor("UINT8", rows, length),
            a_zero_point_tensor=None,
            b_tensor=tensor("UINT8", length, length),
            b_zero_point_tensor=None,
            output_tensor=tensor("INT32", rows, length),
        )
        return compiled(dmlcpu.Device(num_threads=1), desc), inputs_of(desc)

    (small, few), (large, many) = product(1, 8), product(300, 4000)
    most_left = large.binding_properties.temporary_resource_size / 2

    def work(_: int) -> None:
        small.dispatch(**few)
        before = resident_bytes()
        large.dispatch(**many)
        for _ in range(calls):
            small.dispatch(**few)
        assert resident_bytes() - before < most_left

    run_threads(1, work)


# Sums of so many taps are sums of halves, and those of theirs. Where AVX2 is all there is, activations that are mostly
# small take the largest buffers, by filters of 8 bits in several segments.
CALLS_ON_A_SMALL_STACK = """
HALVED = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["" : 19]> g (float[1,1,9,9] x) => (float[1,1,9,9] y) {{ y = AveragePool'
    '<kernel_shape=[1000000000,1000000000], pads=[999999999,999999999,0,0], count_include_pad=1>(x) }}'
).SerializeToString()

generator = np.random.default_rng({seed})
codes = np.where(generator.random((1, 12, 12, 512)) < 0.005, 200, 100).astype(np.uint8).transpose(0, 3, 1, 2)
filters = generator.integers(-128, 128, (32, 512, 3, 3)).astype(np.int8)
SMALL_ACTIVATIONS = dmlcpu.ConvolutionIntegerOperatorDesc(
    input_tensor=dmlcpu.TensorDesc.from_array(codes),
    input_zero_point_tensor=None,
    filter_tensor=dmlcpu.TensorDesc.from_array(filters, flags=dmlcpu.TensorFlags.OWNED_BY_DML),
    filter_zero_point_tensor=None,
    output_tensor=dmlcpu.TensorDesc(dmlcpu.TensorDataType.INT32, (1, 32, 5, 5)),
    strides=(2, 2), dilations=(1, 1), start_padding=(0, 0), end_padding=(0, 0), group_count=1,
)

def call():
    for isa in dmlcpu.available_isas():
        for threads in (1, 2):
            device = dmlcpu.Device(isa=isa, num_threads=threads)
            for desc in (*VALID_DESCS.values(), *LARGE_DESCS.values()):
                dispatched(compiled(device, desc), **random_inputs(desc, generator))
            convolution = compiled(device, SMALL_ACTIVATIONS)
            convolution.initialize(filter_tensor=filters)
            convolution.dispatch(input_tensor=codes)
            dmlcpu.InferenceSession(HALVED, device=device).run(None, {{"x": np.ones((1, 1, 9, 9), np.float32)}})
    print("done")

threading.stack_size(128 << 10)
thread = threading.Thread(target=call)
thread.start()
thread.join()
"""


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers make frames larger")
def test_a_caller_needs_no_more_stack_than_the_guide_says() -> None:
    script = (
        f"import sys; sys.path[:] = {sys.path}\n"
        "import threading, numpy as np, onnx.parser, dmlcpu\n"
        "from bound_arrays import compiled, dispatched, random_inputs\n"
        "from operator_samples import LARGE_DESCS, VALID_DESCS\n"
    )
    script += CALLS_ON_A_SMALL_STACK.format(seed=SEED)
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert (completed.returncode, completed.stdout) == (0, "done\n"), completed.stderr
