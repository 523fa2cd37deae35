"""What sessions keep in memory: weights once, whatever the number of plans, and nothing that no later plan needs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import pytest

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.model import load_model
from onnx_models import Builder
from process_memory import IMPORTED_BY_SCRIPTS, resident_bytes

WIDTH: Final = 512


def network(shape: tuple[int | str, ...]) -> Builder:
    """Convolutions and a product of matrices with 5 MB of weights and small images."""
    rng = np.random.default_rng((SEED, 1))
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", shape), 0.02, np.uint8(128))
    for sizes in ((WIDTH, 3, 1, 1), (WIDTH, WIDTH, 3, 3), (WIDTH, WIDTH, 3, 3)):
        filters = builder.dequantized(rng.integers(-128, 128, sizes, np.int8), 0.002, np.int8(0))
        value = builder.node("Conv", [value, filters], pads=[sizes[2] // 2] * 4)
        value = builder.dequantized(builder.quantized(value, 0.1, np.uint8(128)), 0.1, np.uint8(128))
    value = builder.node("Flatten", [builder.node("GlobalAveragePool", [value])])
    value = builder.dequantized(builder.quantized(value, 0.1, np.uint8(128)), 0.1, np.uint8(128))
    weights = builder.dequantized(rng.integers(-128, 128, (WIDTH, WIDTH), np.int8), 0.002, np.int8(0))
    builder.output(builder.node("MatMul", [value, weights]), "float32")
    return builder


# Runs a session of argv[1] on inputs as argv[2] says of a length: the first length, then the others.
GROWTH: Final = """
import gc, sys
import numpy as np
import dmlcpu
from process_memory import resident_bytes

def resident():
    gc.collect()
    return resident_bytes()

def run(length):
    return session.run(None, {"x": eval(sys.argv[2])})

session = dmlcpu.InferenceSession(sys.argv[1], device=dmlcpu.Device(num_threads=1))
first_length, *lengths = map(int, sys.argv[3:])
first = run(first_length)
before = resident()
for length in lengths:
    run(length)
grown = resident() - before
assert (run(first_length)[0] == first[0]).all()
assert grown < 10_000_000, grown
"""


def assert_grows_little(path: Path, inputs: str, lengths: Sequence[int]) -> None:
    command = [sys.executable, "-c", IMPORTED_BY_SCRIPTS + GROWTH, str(path), inputs, *map(str, lengths)]
    # Left to itself, the allocator keeps as many freed arrays of weights as fit where it happens to have room.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert completed.returncode == 0, completed.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_plans_of_a_session_share_what_they_pack(tmp_path: Path) -> None:
    """Eight image sizes keep the weights once: the process grows by less than two times their bytes."""
    path = tmp_path / "model.onnx"
    path.write_bytes(network((1, 3, "H", "W")).build())
    assert_grows_little(path, "np.full((1, 3, length, length), 9, np.uint8)", range(4, 12))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("operator", ["MatMul", "Conv"])
def test_few_rows_and_many_share_what_is_packed_of_floats(tmp_path: Path, operator: str) -> None:
    """As a decoder's tokens and prompts are: 16 MB of weights, packed once."""
    rng = np.random.default_rng((SEED, 2))
    weights = rng.normal(size=(2048, 2048)).astype(np.float32)
    builder = Builder()
    if operator == "MatMul":
        value, inputs = builder.node("MatMul", [builder.input("float32", ("M", 2048)), weights]), "(length, 2048)"
    else:
        image = builder.input("float32", ("M", 2048, 1, 1))
        value, inputs = builder.node("Conv", [image, weights[:, :, None, None]]), "(length, 2048, 1, 1)"
    builder.output(value, "float32")
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.build())
    assert_grows_little(path, f"np.ones({inputs}, np.float32)", (1, 70, 2, 3, 4, 9))


def test_results_with_shared_weights_are_those_of_sessions_of_their_own(
    device: dmlcpu.Device, random_numbers: np.random.Generator
) -> None:
    model = network((1, 3, "H", "W")).build()
    shared = dmlcpu.InferenceSession(model, device=device)
    for length in (1, 5, 2):
        x = random_numbers.integers(0, 256, (1, 3, length, length), np.uint8)
        [expected] = dmlcpu.InferenceSession(model, device=device).run(None, {"x": x})
        np.testing.assert_array_equal(shared.run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (1, 3, "H", "W")], ids=["fixed", "free"])
def test_what_is_kept_of_a_model(tmp_path: Path, shape: tuple[int | str, ...]) -> None:
    """Of fixed shapes no array and no byte of the file; of free ones the arrays alone, for later plans."""
    path = tmp_path / "model.onnx"
    model = network(shape)
    model.output(model.constant(np.ones(4096, np.int8)), "int8")  # large enough to be left in the file
    path.write_bytes(model.build())
    weights = path.stat().st_size
    dmlcpu.InferenceSession(path).partitions()  # what is imported only now is no part of it
    gc.collect()
    tracemalloc.start()
    try:
        session = dmlcpu.InferenceSession(path)
        session.partitions()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    fixed = "H" not in shape
    assert kept < weights * (0.1 if fixed else 1.2)
    assert session._plans.variants.is_released == fixed
    assert session.get_inputs()[0].shape == list(shape)
    assert session.get_modelmeta().graph_name == "model"
    if fixed:
        with pytest.raises(dmlcpu.BindingError, match=r"got shape \(1, 3, 5, 5\), expected \(1, 3, 4, 4\)"):
            session.partitions({"x": (1, 3, 5, 5)})


def transposed_network(shape: tuple[int | str, ...]) -> Builder:
    """A convolution that is computed as several."""
    builder = Builder()
    weights = builder.dequantized(np.ones((3, 4, 3, 3), np.int8), 0.02, np.int8(0))
    value = builder.dequantized(builder.input("uint8", shape), 0.02, np.uint8(128))
    value = builder.node("ConvTranspose", [value, weights], strides=[2, 2])
    builder.output(builder.quantized(value, 0.1, np.uint8(128)), "uint8")
    return builder


@pytest.mark.parametrize("make", [network, transposed_network])
@pytest.mark.parametrize("shape", [(1, 3, 4, 4), ("N", 3, 4, 4), (1, 3, "H", "W")], ids=str)
def test_nothing_of_a_plan_waits_for_the_garbage_collector(
    make: Callable[[tuple[int | str, ...]], Builder], shape: tuple[int | str, ...]
) -> None:
    """What rules have made of values holds the weights."""
    model = make(shape).build()
    gc.collect()
    gc.disable()
    try:
        session = dmlcpu.InferenceSession(model)
        for length in (4, 5) if "H" in shape else (4,):
            session.run(None, {"x": np.zeros((1, 3, length, length), np.uint8)})
        left = [each for each in gc.get_objects() if isinstance(each, Lowering)]
    finally:
        gc.enable()
    assert not left


def test_what_no_node_refers_to_is_not_kept_with_the_proto() -> None:
    """Elements that are strings, and functions that nobody calls, as much as numbers."""
    builder = Builder()
    builder.output(builder.node("Abs", [builder.input("float32", (2,))]), "float32")
    proto = onnx.load_model_from_string(builder.build())
    size = 1 << 26
    proto.graph.initializer.append(onnx.helper.make_tensor("texts", onnx.TensorProto.STRING, [1], [b"x" * size]))
    weight = onnx.helper.make_node("Constant", [], ["y"], value=onnx.numpy_helper.from_array(np.ones(size, np.uint8)))
    imports = [onnx.helper.make_opsetid("", 17)]
    proto.functions.append(onnx.helper.make_function("own", "unused", [], ["y"], [weight], imports))
    model = proto.SerializeToString()
    del proto
    gc.collect()
    before = resident_bytes()
    nodes = load_model(model, to_run=True).nodes
    gc.collect()
    assert resident_bytes() - before < size // 2
    assert [node.operator for node in nodes] == ["Abs"]


def test_protos_without_weights() -> None:
    model = network((1, 3, 4, 4)).build()
    whole, bare = load_model(model), load_model(model, to_run=True)
    assert whole.proto.ByteSize() == len(model)
    assert bare.proto.ByteSize() < len(model) / 100
    assert list(bare.constants) == list(whole.constants)
    for name, array in whole.constants.items():
        np.testing.assert_array_equal(bare.constants[name], array)
