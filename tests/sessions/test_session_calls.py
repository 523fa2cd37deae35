"""What callers give a session and get of it: feeds, outputs, options, futures, processes that fork."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from doubling_model import X, doubled, expected
from onnx_models import Builder, codes

Array = NDArray[Any]


def aliases() -> bytes:
    """Outputs that are the input, the same value under two names, and a view of a value."""
    builder = Builder()
    x = builder.input("uint8", (2, 3))
    y = builder.quantized(builder.node("Sigmoid", [builder.dequantized(x, 0.1, np.uint8(7))]), 0.004, np.uint8(0))
    constant = builder.constant(np.int64([1, 2]))
    for value in (x, y, constant):
        for result in (value, builder.node("Identity", [value]), builder.node("Identity", [value])):
            builder.output(result, "int64" if value == constant else "uint8")
    builder.output(builder.node("Reshape", [x, np.int64([-1])]), "uint8")
    return builder.build()


def test_outputs_are_arrays_of_their_own() -> None:
    session = dmlcpu.InferenceSession(aliases())
    feed = X.copy()
    first = [array.copy() for array in session.run(None, {"x": feed})]
    results = session.run(None, {"x": feed})
    for index, result in enumerate(results):
        assert not np.may_share_memory(result, feed)
        assert not any(np.may_share_memory(result, other) for other in results[:index])
        result[:] = 99
    np.testing.assert_array_equal(feed, X)
    for again, once in zip(session.run(None, {"x": feed}), first, strict=True):
        np.testing.assert_array_equal(again, once)
    name = session.get_outputs()[1].name
    one, other = session.run([name, name], {"x": feed})
    assert not np.may_share_memory(one, other)


@pytest.mark.parametrize("names", [None, [], (), 0], ids=str)
def test_all_outputs(names: Any) -> None:
    """Of None, of no names, and of 0, as programs ask onnxruntime for them."""
    session = dmlcpu.InferenceSession(aliases())
    expected = session.run([output.name for output in session.get_outputs()], {"x": X})
    for results in (session.run(names, {"x": X}), session.run_async(names, {"x": X}).result(timeout=60)):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, array)


def test_names_of_outputs_that_are_none() -> None:
    session = dmlcpu.InferenceSession(aliases())
    for names in (1, True, "y"):
        with pytest.raises(dmlcpu.BindingError, match=r"^output_names: got .*, expected None or a list of names"):
            session.run(cast("Any", names), {"x": X})


def misaligned(array: Array) -> Array:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    moved = memory.view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def test_every_run_checks_feeds_as_the_first_one_does() -> None:
    """A run after a good one hands the feeds to the native graph, which must not take what the session refuses."""
    builder = Builder()
    x, y = builder.input(np.float32, ("N", 4)), builder.input(np.float32, (1,), "y")
    scaled = builder.node("Mul", [x, builder.node("Reshape", [y, np.int64([1, 1])])])
    builder.output(builder.quantized(scaled, 0.5, np.uint8(9)), "uint8")
    x, y = np.float32([[1, -2, 3, 4], [5, 6, -7, 8]]), np.float32([3])
    wide = np.stack([x, x + 1], axis=-1)
    good: list[Any] = [
        {"x": x, "y": y},
        {"y": y, "x": x},
        {"x": wide[..., 0], "y": y},
        {"x": np.asfortranarray(x), "y": y},
        {"x": misaligned(x), "y": misaligned(y)},
        {"x": np.ma.masked_array(x), "y": y[::-1]},
        {"x": x.astype(">f4"), "y": y},
        {"x": x.tolist(), "y": [3]},
        {"x": [*x.astype(np.float64)], "y": (3.0,)},
        MappingProxyType({"x": x, "y": y}),
        {"x": x[:1], "y": y},
        {"x": np.concatenate([x, x]), "y": y},
    ]
    bad: list[Any] = [
        {"x": x, "y": np.float32(3)},
        {"x": x, "y": y.reshape(1, 1)},
        {"x": x.reshape(-1), "y": y},
        {"x": x.reshape(1, 2, 4), "y": y},
        {"x": x.T, "y": y},
        {"x": x.astype(np.float64), "y": y},
        {"x": x.astype(">f8"), "y": y},
        {"x": x.view(np.int32), "y": y},
        {"x": x},
        {"x": x, "y": y, "z": y},
        {"x": x, "z": y},
        [("x", x), ("y", y)],
    ]
    session = dmlcpu.InferenceSession(builder.build())
    session.run(None, good[0])
    for feeds in good:
        [result], [again] = session.run(None, feeds), session.run(None, feeds)
        wanted = np.rint(np.asarray(feeds["x"]) * 3 / 0.5) + 9
        np.testing.assert_array_equal(result, np.clip(wanted, 0, 255).astype(np.uint8))
        np.testing.assert_array_equal(again, result)
        assert not np.may_share_memory(again, result)
    for feeds in bad:
        with pytest.raises(dmlcpu.BindingError) as first:
            dmlcpu.InferenceSession(builder.build()).run(None, feeds)
        session.run(None, good[0])
        with pytest.raises(dmlcpu.BindingError) as later:
            session.run(None, feeds)
        assert str(later.value) == str(first.value)


@pytest.mark.parametrize(
    ("dtype", "numbers", "refused"),
    [
        ("float32", [0.1, 2, True], [1e39, "1", None]),
        ("float16", [0.5, -3, np.float32(7)], [70000]),
        ("float64", [0.1, 1 << 60], ["1"]),
        ("int64", [1 << 62, -5, True], [1 << 63, 1.0]),
        ("uint64", [1 << 63, (1 << 64) - 1], [-1, 1 << 64]),
        ("int8", [-128, 127], [128, -129, 0.0]),
        ("bool", [True, False, 1], [2, 0.0]),
    ],
)
def test_lists_of_numbers(dtype: str, numbers: list[Any], refused: list[Any]) -> None:
    """They become what an input is of, if it has them."""
    builder = Builder()
    builder.output(builder.node("Identity", [builder.input(dtype, ("count",))]), dtype)
    session = dmlcpu.InferenceSession(builder.build())
    for feed in (numbers, tuple(numbers), [np.asarray(number) for number in numbers], []):
        for result in (session.run(None, {"x": feed})[0], session.run_async(None, {"x": feed}).result()[0]):
            np.testing.assert_array_equal(result, np.array(feed, dtype), strict=True)
    for number in refused:
        with pytest.raises(dmlcpu.BindingError, match=f"expected {dtype} of shape"):
            session.run(None, {"x": [number]})


def test_numbers_and_words_alone() -> None:
    builder = Builder()
    builder.output(builder.node("Identity", [builder.input("float32", ())]), "float32")
    assert dmlcpu.InferenceSession(builder.build()).run(None, {"x": 3})[0] == 3
    builder = Builder()
    builder.input("float32", ("count",))
    builder.inputs[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    builder.output(builder.node("Identity", ["x"]), "float32")
    builder.outputs[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    session = dmlcpu.InferenceSession(builder.build())
    for words in (["a", "bc"], np.array(["a", "bc"]), np.array(["a", "bc"], object)):
        assert session.run(None, {"x": words})[0].tolist() == ["a", "bc"]


def test_inputs_without_axes_stay_without_them() -> None:
    builder = Builder()
    x, y = builder.input(np.float32, (2,)), builder.input(np.float32, (), "y")
    builder.output(builder.node("Add", [x, y]), np.float32)
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": np.float32([1, 2]), "y": np.array(3, np.float32)}
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.float32([4, 5]))
        with pytest.raises(dmlcpu.BindingError, match="'y': got float32 of shape"):
            session.run(None, {**feeds, "y": np.float32([3])})


def test_outputs_of_every_run_are_those_that_are_asked_for() -> None:
    builder = Builder()
    floats = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(7))
    rows = [builder.quantized(builder.node("Mul", [floats, np.float32(k)]), 0.1, np.uint8(7)) for k in (2, 3, 4)]
    names = [rows[2], rows[0], rows[1]]
    for name in names:
        builder.output(name, "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": X}
    wanted = dict(zip(names, session.run(None, feeds), strict=True))
    np.testing.assert_array_equal(wanted[rows[0]], expected(X))
    for asked in (names, names[::-1], (names[1],), [names[2], names[0], names[2]], [], None):
        results = session.run(asked, feeds)
        for name, result in zip(asked or names, results, strict=True):
            np.testing.assert_array_equal(result, wanted[name])
        assert not any(np.may_share_memory(a, b) for a, b in itertools.combinations(results, 2))
    for nothing in ("y", ["y"], 5, [names[0], None]):
        with pytest.raises(dmlcpu.BindingError, match=names[0]):
            session.run(nothing, feeds)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [5, "CPUExecutionProvider", {}, dmlcpu.SessionOptions])
def test_options_that_are_none(options: Any) -> None:
    with pytest.raises(TypeError, match=r"sess_options: got an object of type .*, expected SessionOptions"):
        dmlcpu.InferenceSession(doubled(), options)


def test_sessions_with_options_of_onnxruntime_pickle() -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.logid = "mine"
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("session.dynamic_block_base", "4")
    session = pickle.loads(pickle.dumps(dmlcpu.InferenceSession(doubled(), options)))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
    own = session.get_session_options()
    assert isinstance(own, dmlcpu.SessionOptions)
    assert (session.device.num_threads, own.logid) == (2, "mine")
    assert own.execution_mode is dmlcpu.ExecutionMode.ORT_PARALLEL
    assert own.graph_optimization_level is dmlcpu.GraphOptimizationLevel.ORT_ENABLE_ALL


def test_verbose_sessions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dmlcpu.InferenceSession(doubled())
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("DMLCPU_VERBOSE", "1")
    session = dmlcpu.InferenceSession(doubled(("N", 3)))
    assert capsys.readouterr().err == ""  # nothing is compiled yet
    for _ in range(2):
        session.run(None, {"x": X})
    head, step = capsys.readouterr().err.splitlines()
    assert head.startswith("dmlcpu: graph; isa: ")
    assert step.startswith("dmlcpu: step 0: CODE_TABLE (")


@pytest.mark.parametrize("fault", ["bias", "scale"])
def test_types_that_no_kernel_takes_are_told_with_the_node(fault: str) -> None:
    builder = Builder()
    x = builder.input("uint8", (1, 3, 4, 4))
    scale = np.array(0.5, np.float64 if fault == "scale" else np.float32)
    operands = [x, scale, np.uint8(0), np.ones((2, 3, 1, 1), np.int8), scale, np.int8(0), scale, np.uint8(0)]
    bias = np.zeros(2, np.int64 if fault == "bias" else np.int32)
    builder.output(builder.node("QLinearConv", [*operands, bias]), "uint8")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"QLinearConv \(QLinearConv_0\): .*(int64|float64|double)"):
        dmlcpu.InferenceSession(builder.build())


HUGE: Final[dict[str, dict[str, list[int]]]] = {
    "all sides": {"kernel_shape": [2, 2], "pads": [(1 << 31) - 2] * 4},
    "kernel": {"kernel_shape": [1 << 31, 1 << 31]},
    "kernel and pads": {"kernel_shape": [(1 << 63) - 1, 2], "pads": [(1 << 63) - 1, 0, (1 << 63) - 1, 0]},
    "shape": {"kernel_shape": [1, 1], "pads": [1 << 40, 0, 1 << 40, 0]},
}


@pytest.mark.parametrize("attributes", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("quantized", [True, False])
def test_windows_larger_than_any_memory(attributes: dict[str, list[int]], quantized: bool) -> None:
    builder = Builder()
    x = builder.input("uint8", (1, 2, 6, 6))
    value = builder.dequantized(x, 0.1, np.uint8(3)) if quantized else x
    value = builder.node("MaxPool", [value], **attributes)
    builder.output(builder.quantized(value, 0.1, np.uint8(3)) if quantized else value, "uint8")
    with pytest.raises((dmlcpu.InvalidModelError, MemoryError)):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((1, 2, 6, 6), np.uint8)})


FORKING: Final = """
import gc, os, signal, sys, threading, time
import numpy as np
import dmlcpu

def in_child(work):
    child = os.fork()
    if child == 0:
        ok = False
        try:
            work()
            ok = True
        finally:
            os._exit(0 if ok else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

native, foreign, seed = sys.argv[1:]
options = dmlcpu.SessionOptions()
options.intra_op_num_threads = 2
session = dmlcpu.InferenceSession(native, options)
x = np.random.default_rng(int(seed)).integers(0, 256, (300, 3), np.uint8)
expected = session.run_async(None, {"x": x}).result(timeout=20)[0]

def run_async():
    futures = [session.run_async(None, {"x": x}) for _ in range(5)]
    assert all((future.result(timeout=20)[0] == expected).all() for future in futures)

assert in_child(run_async)
assert in_child(lambda: in_child(run_async) or os._exit(2))
run_async()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(
    "body",
    [
        "",
        """
# Another thread plans while this one forks: its lock is not left taken in the child.
stop = threading.Event()

def plan():
    for length in range(1, 1 << 30):
        if stop.is_set():
            return
        session.run(None, {"x": np.zeros((length, 3), np.uint8)})

thread = threading.Thread(target=plan)
thread.start()
assert all(in_child(lambda: (run_async(), session.run(None, {"x": x[:7]}))) for _ in range(15))
stop.set()
thread.join()
""",
        """
# A lock that is taken when a process forks is another one in the child.
def in_time(work):
    signal.alarm(30)
    work()

with session._lock:
    assert in_child(lambda: in_time(run_async))
with session._plans._lock:
    assert in_child(lambda: in_time(lambda: session.run(None, {"x": x[:7]})))
""",
        """
# The threads of another runtime's session are not in the child either, which frees none that waits for them.
other = dmlcpu.InferenceSession(foreign, options)
floats = np.random.default_rng(int(seed)).normal(size=(300, 300)).astype(np.float32)
[sums] = other.run(None, {"x": floats})
time.sleep(0.5)  # until they sleep

def run_other():
    global other
    signal.alarm(30)
    for _ in range(2):
        np.testing.assert_array_equal(other.run(None, {"x": floats})[0], sums)
    del other
    gc.collect()

assert other.partitions()[0].provider == "onnxruntime"
assert in_child(run_other)
run_other()
""",
    ],
    ids=["run_async", "amid planning", "locks", "onnxruntime"],
)
def test_children_have_threads_and_locks_of_their_own(body: str, tmp_path: Path) -> None:
    builder = Builder()
    x = builder.input("float32", (300, 300))
    builder.output(builder.node("LpNormalization", [builder.node("Tan", [x])]), "float32")
    paths = [tmp_path / "native.onnx", tmp_path / "foreign.onnx"]
    paths[0].write_bytes(doubled(("N", 3)))
    paths[1].write_bytes(builder.build())
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING + body, *map(str, [*paths, SEED])]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert completed.returncode == 0, completed.stderr


def test_the_plans_used_last_are_kept(random_numbers: np.random.Generator) -> None:
    session = dmlcpu.InferenceSession(doubled(("N", 3)))
    feeds = [codes(random_numbers, "uint8", (length, 3)) for length in range(1, 514)]
    for feed in feeds[:512]:
        session.run(None, {"x": feed})
    kept = dict(session._plans.cache)
    session.run(None, {"x": feeds[0]})
    session.run(None, {"x": feeds[512]})
    assert [key for key in kept if key not in session._plans.cache] == [list(kept)[1]]
    session.run(None, {"x": feeds[0]})
    assert session._plans.cache[next(iter(kept))] is next(iter(kept.values()))
