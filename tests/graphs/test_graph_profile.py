"""Profiles of graphs: what they return, what describe tells of them, and the trace that they are written as."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import dmlcpu
from dmlcpu import Device, GraphBuilder, TensorDesc
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.native_graph import NativeGraph


def two_steps(x: Any) -> Any:
    """A table of codes between floats, on arrays or expressions."""
    return dmlcpu.dequantize_linear(dmlcpu.quantize_linear(x, 0.5, 128), 0.25, 127)


@pytest.fixture
def x(random_numbers: np.random.Generator) -> Any:
    return random_numbers.normal(0, 9, (3, 50)).astype(np.float32)


@pytest.fixture
def graph(x: Any) -> CompiledGraph:
    builder = GraphBuilder(Device(num_threads=2))
    return builder.build(
        dmlcpu.ExecutionFlags.NONE, [two_steps(dmlcpu.input_tensor(builder, 0, TensorDesc.from_array(x)))]
    )


def test_a_profile_has_each_step(graph: CompiledGraph, x: Any) -> None:
    outputs, times = graph.profile(input_0=x)
    np.testing.assert_array_equal(outputs, two_steps(x))
    assert [time.type for time in times] == ["ELEMENT_WISE_QUANTIZE_LINEAR", "ELEMENT_WISE_DEQUANTIZE_LINEAR"]
    assert all(later.begin >= time.begin + time.duration for time, later in itertools.pairwise(times))


def test_a_step_moves_repeated_elements_once(graph: CompiledGraph) -> None:
    """Scales and zero points of the operators are one element, which strides of 0 repeat."""
    told = re.findall(r"^step \d+: \w+ \([^)]*\), (\d+) bytes;", graph.describe(), re.MULTILINE)
    floats, codes, scale, zero_point = 4 * 150, 150, 4, 1
    assert [int(size) for size in told] == [floats + codes + scale + zero_point] * 2


def test_describe_tells_the_times_of_the_last_profile(graph: CompiledGraph, x: Any) -> None:
    before = graph.describe()
    assert " us" not in before
    graph.profile(input_0=x)
    _, times = graph.profile(input_0=x)
    told = re.findall(r"^step \d+: \w+ \([^)]*\), \d+ bytes, ([\d.]+) us;", graph.describe(), re.MULTILINE)
    assert told == [f"{time.duration / 1e3:.1f}" for time in times]
    whole = (times[-1].begin + times[-1].duration) / 1e3
    assert f"\nprofile: {whole:.1f} us\n" in graph.describe()
    untimed = re.sub(r"(, |\nprofile: )[\d.]+ us", "", graph.describe())
    assert untimed == before


def test_a_profile_is_written_as_a_trace(graph: CompiledGraph, x: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with pytest.raises(dmlcpu.DmlError, match="call profile before write_trace"):
        graph.write_trace(path)
    assert not path.exists()
    _, times = graph.profile(input_0=x)
    graph.write_trace(path)
    whole, *steps = json.loads(path.read_text())["traceEvents"]
    assert (whole["name"], whole["cat"], whole["ph"], whole["ts"]) == ("dmlcpu", "Part", "X", 0)
    assert whole["dur"] == (times[-1].begin + times[-1].duration) / 1e3
    assert [(e["cat"], e["ph"], e["ts"], e["dur"], e["args"]["operator"], e["args"]["node"]) for e in steps] == [
        ("Node", "X", time.begin / 1e3, time.duration / 1e3, time.type, time.name) for time in times
    ]
    with pytest.raises(OSError, match="absent"):
        graph.write_trace(tmp_path / "absent" / "trace.json")


def test_bindings_may_have_any_name(x: Any) -> None:
    graph = NativeGraph()
    value = graph.add_input("self", TensorDesc.from_array(x))
    graph.mark_output(value, "path", TensorDesc.from_array(x))
    compiled = CompiledGraph(Device(num_threads=1), graph)
    np.testing.assert_array_equal(compiled.dispatch(**{"self": x}), x)
    np.testing.assert_array_equal(compiled.profile(**{"self": x})[0], x)


@pytest.mark.parametrize("is_fed", [True, False], ids=["fed", "zeros"])
def test_a_profiled_model_tells_the_times_of_its_steps(tmp_path: Path, is_fed: bool) -> None:
    path = Path(__file__).parents[1] / "data" / "models" / "keyword_spotting.qop.onnx"
    session = dmlcpu.InferenceSession(path)
    [value] = session.get_inputs()
    x = np.zeros([length if isinstance(length, int) else 1 for length in value.shape], np.float32)
    assert not any(re.search(r" bytes, [\d.]+ us;", part.description) for part in session.partitions())
    session.profile(tmp_path / "trace.json", {value.name: x} if is_fed else None)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    [part] = [part for part in session.partitions() if part.provider == "dmlcpu"]
    told = re.findall(r"^step \d+: .*?, \d+ bytes, ([\d.]+) us;", part.description, re.MULTILINE)
    assert told == [f"{event['dur']:.1f}" for event in events if event["cat"] == "Node"]


def test_a_profile_of_no_feeds_is_one_of_zeros(tmp_path: Path) -> None:
    """Indices of 0 are in range, words are empty, and a condition that chooses a branch is not met."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[rows, 4] table, int64[rows, count] index, string[rows] words, bool chosen) =>
          (float[a, b, c] y, string[d] w)
        {
            found = Gather(table, index)
            y = If <then_branch = t () => (z) { z = Sqrt(found) }, else_branch = e () => (v) { v = Neg(found) }>
                (chosen)
            w = Identity(words)
        }""")
    session = dmlcpu.InferenceSession(model.SerializeToString())
    path = tmp_path / "trace.json"
    assert session.profile(path) == str(path)
    steps = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
    assert any("GATHER" in step for step in steps)
    assert session.deciding_inputs == ("chosen",)


@pytest.mark.parametrize("is_free", [True, False])
def test_feeds_are_asked_for_where_zeros_do_not_fit(tmp_path: Path, is_free: bool) -> None:
    size = ("height", "width") if is_free else (1, 1)
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[images, 3] other, float[2, 3, {size[0]}, {size[1]}] x) => (float[a, b, c, d] y, float[e, f] z)
        <float[1, 3, 2, 2] w = {{{", ".join("1" * 12)}}}>
        {{
            y = Conv(x, w)
            z = Relu(other)
        }}""".replace("images", "images" if is_free else "2")
    )
    session = dmlcpu.InferenceSession(model.SerializeToString())
    wanted = r"^input 'other' has free lengths, \(images, 3\): give input_feed, .* \(.*Conv_0" if is_free else "Conv_0"
    error = dmlcpu.BindingError if is_free else dmlcpu.InvalidModelError
    with pytest.raises(error, match=wanted):
        session.profile(tmp_path / "trace.json")
    feeds = {"other": np.zeros((2, 3), np.float32), "x": np.zeros((2, 3, 1, 1), np.float32)}
    with pytest.raises(error, match="Conv_0"):
        session.profile(tmp_path / "trace.json", feeds)
    if is_free:
        feeds["x"] = np.zeros((2, 3, 4, 4), np.float32)
        assert Path(session.profile(tmp_path / "trace.json", feeds)).exists()
