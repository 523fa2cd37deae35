"""Nodes that onnxruntime ends the process on, because of shapes that only a run may tell: they are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import dmlcpu
from dmlcpu.onnx.foreign.guards import add_guards, told_by_guard
from dmlcpu.onnx.models.subgraphs import graphs_within


def run(graph: str, feeds: Mapping[str, Any], version: int = 17) -> list[Any]:
    text = f'<ir_version: 8, opset_import: ["" : {version}, "com.microsoft" : 1]> {graph}'
    model = onnx.parser.parse_model(text).SerializeToString()
    results: list[Any] = dmlcpu.InferenceSession(model).run(None, dict(feeds))
    return results


def ones(*shape: int, dtype: type = np.float32) -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


IMAGE = {"x": ones(1, 2, 4, 4), "square": ones(2, 2)}
# Nodes that make y, what they read, what is wrong, and what they read where all is well.
CASES = [
    ("y = com.microsoft.Inverse(x)", {"x": ones(2, 3)}, "input 0 has to be of square", {"x": np.eye(3, dtype="f") * 2}),
    ("y = com.microsoft.Inverse(x)", {"x": ones(5, 4, 1)}, "input 0 has to be of square", {"x": ones(5, 1, 1)}),
    (
        "y, a, b, c = Unique <axis = 0> (x)",
        {"x": ones(2, 0)},
        "input 0 has to be of some elements behind the axis",
        {"x": ones(0, 2)},
    ),
    ("y, a, b, c = Unique <axis = 1> (x)", {"x": ones(2, 3, 0)}, "elements behind the axis", {"x": ones(0, 3, 2)}),
    ("y, a, b, c = Unique <axis = -2> (x)", {"x": ones(3, 0)}, "elements behind the axis", {"x": ones(0, 3)}),
    (
        "y = com.microsoft.DynamicQuantizeMatMul(x, codes, s)",
        {"x": ones(4), "codes": ones(4, dtype=np.int8), "s": ones(8)},
        "input 2 has to be of one element, as input 1 is a vector",
        {"x": ones(4), "codes": ones(4, 3, dtype=np.int8), "s": ones(3)},
    ),
    (
        "y = com.microsoft.MatMulIntegerToFloat(x, codes, one, s)",
        {"x": ones(4, dtype=np.uint8), "codes": ones(4, dtype=np.int8), "one": ones(1), "s": ones(8)},
        "input 3 has to be of one element, as input 1 is a vector",
        {"x": ones(4, dtype=np.uint8), "codes": ones(4, dtype=np.int8), "one": ones(1), "s": ones(1)},
    ),
    (
        "d = Det(square) y = Conv(x, w)",
        {**IMAGE, "w": ones(3, 2, 0, 2)},
        "input 1 has to be of some",
        {**IMAGE, "w": ones(0, 2, 2, 2)},
    ),
    (
        'y = com.microsoft.FusedConv <activation = "Relu"> (x, w, b, sum)',
        {**IMAGE, "w": ones(3, 2, 2, 0), "b": ones(3), "sum": ones(1, 3, 3, 5)},
        "input 1 has to be of some elements in each filter",
        {**IMAGE, "w": ones(3, 2, 2, 2), "b": ones(3), "sum": ones(1, 3, 3, 3)},
    ),
    (
        "y = com.microsoft.SkipLayerNormalization(x, skip, gamma)",
        {"x": ones(2, 2, 8), "skip": ones(0, 2, 8), "gamma": ones(8)},
        "input 1 has to be of some elements",
        {"x": ones(0, 2, 8), "skip": ones(0, 2, 8), "gamma": ones(8)},
    ),
    (
        "y = STFT(x, step, window)",
        {"x": ones(1, 16, 1), "step": np.array(4), "window": ones(0)},
        "input 2 has to be of one axis and some elements",
        {"x": ones(1, 16, 1), "step": np.array(4), "window": ones(8)},
    ),
    (
        "y = STFT(x, step, , length)",
        {"x": ones(1, 16, 1), "step": np.array(4), "length": np.array(0)},
        "input 3 has to be of a number above 0",
        {"x": ones(1, 16, 1), "step": np.array(4), "length": np.array(8)},
    ),
    *(
        (
            f"y = com.microsoft.QLinearWhere(t, x, {', '.join(operands)})",
            {
                "t": ones(2, dtype=bool),
                "x": ones(2, dtype=np.uint8),
                "s": ones(1),
                "z": ones(1, dtype=np.uint8),
                "wrong": ones(2, dtype=np.float32 if place in (0, 3, 5) else np.uint8),
            },
            f"input {place + 2} has to be of one element",
            {
                "t": ones(2, dtype=bool),
                "x": ones(2, dtype=np.uint8),
                "s": ones(1),
                "z": ones(1, dtype=np.uint8),
                "wrong": ones(dtype=np.float32 if place in (0, 3, 5) else np.uint8),
            },
        )
        for place in (0, 1, 3, 4, 5, 6)
        for operands in [["s", "z", "x", "s", "z", "s", "z"]]
        if operands.__setitem__(place, "wrong") is None
    ),
    (
        "y, a = Scan <body = step (u, v) => (w, o) { w = Add(u, v) d = Det(w) o = Identity(w) }, num_scan_inputs = 1, "
        "scan_input_axes = [1], scan_output_axes = [1]> (s, x)",
        {"x": ones(2, 0, 2, 2), "s": ones(2, 2, 2)},
        "what it walks along other axes than the first has to be of some elements",
        {"x": ones(2, 3, 2, 2), "s": ones(2, 2, 2)},
    ),
    (
        "a, y = Scan <body = step (u, v) => (w, o) { w = Add(u, v) d = Det(w) o = Compress <axis = 0> (w, none) }, "
        "num_scan_inputs = 1, scan_output_axes = [1]> (s, x)",
        {"x": ones(2, 2, 2), "s": ones(2, 2), "none": ones(2, dtype=bool) < 1},
        "what it walks along other axes than the first has to be of some elements",
        {"x": ones(2, 2, 2), "s": ones(2, 2), "none": ones(2, dtype=bool)},
    ),
]


@pytest.mark.parametrize("is_branch", [False, True])
@pytest.mark.parametrize(("node", "wrong", "told", "right"), CASES, ids=[case[0].split("(")[0] for case in CASES])
def test_what_is_guarded(
    node: str, wrong: Mapping[str, Any], told: str, right: Mapping[str, Any], is_branch: bool
) -> None:
    def graph(feeds: Mapping[str, Any]) -> str:
        inputs = [
            f"{onnx.helper.tensor_dtype_to_string(onnx.helper.np_dtype_to_tensor_dtype(a.dtype)).split('.')[1].lower()}"
            f"[{', '.join(f'{name}{axis}' for axis in range(a.ndim))}] {name}"
            for name, a in feeds.items()
        ]
        if not is_branch:
            return f"g ({', '.join(inputs)}) => (y) {{ {node} }}"
        branches = f"then_branch = b () => (y) {{ {node} }}, else_branch = c () => (e) {{ e = Identity(x) }}"
        return f"g ({', '.join([*inputs, 'bool chosen'])}) => (r) {{ r = If <{branches}> (chosen) }}"

    chosen = {"chosen": np.array(True)} if is_branch else {}
    with pytest.raises(dmlcpu.BindingError, match=told):
        run(graph(wrong), {**wrong, **chosen})
    assert run(graph(right), {**right, **chosen})[0].size >= 0


@pytest.mark.parametrize(
    ("node", "feeds"),
    [
        ("MultiHeadAttention <num_heads = 2> (x, k, v)", {"x": ones(2, 3, 8), "k": ones(2, 5, 8), "v": ones(2, 5, 0)}),
        (
            "RotaryEmbedding <num_heads = 2> (x, places, c, c)",
            {"x": ones(2, 3, 0), "places": ones(1, dtype=np.int64), "c": ones(5, 2)},
        ),
        (
            "QMoE <k = 1> (x, r, w, , , w, s)",
            {"x": ones(4, 8), "r": ones(4, 2), "w": ones(2, 8, 4, dtype=np.uint8), "s": ones(2, 8)},
        ),
        ("AttnLSTM <hidden_size = 2> (x, x, x)", {"x": ones(1)}),
    ],
)
def test_what_is_refused_before_a_run(node: str, feeds: Mapping[str, Any]) -> None:
    inputs = ", ".join(
        f"{'int64' if a.dtype == np.int64 else 'uint8' if a.dtype == np.uint8 else 'float'}"
        f"[{', '.join(f'{name}{axis}' for axis in range(a.ndim))}] {name}"
        for name, a in feeds.items()
    )
    with pytest.raises(
        (dmlcpu.BindingError, dmlcpu.InvalidModelError), match="without which onnxruntime cannot run it"
    ):
        run(f"g ({inputs}) => (y) {{ y = com.microsoft.{node} }}", feeds)


def test_the_results_behind_a_guard() -> None:
    x = np.array([[[2, 0], [0, 4]], [[1, 2], [0, 1]]], np.float32)
    graph = "g (float[a,b,c] x) => (y) { s = Sinh(x) t = Asinh(s) y = com.microsoft.Inverse(x) }"
    np.testing.assert_array_equal(run(graph, {"x": x})[0], np.linalg.inv(x))


@pytest.mark.parametrize("version", [7, 9, 11, 12, 18])
def test_guards_in_models_of_every_version(version: int) -> None:
    graph = "g (float[a,b] x) => (y) { y = com.microsoft.Inverse(x) }"
    with pytest.raises(dmlcpu.BindingError, match="has to be of square matrices"):
        run(graph, {"x": ones(2, 3)}, version)
    np.testing.assert_array_equal(run(graph, {"x": ones(1, 1) * 4}, version)[0], ones(1, 1) / 4)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_a_recurrent_layer_of_nothing_in_a_loop(operator: str, shape: tuple[int, ...]) -> None:
    gates = {"LSTM": 4, "GRU": 3}[operator]
    graph = (
        "g (float[a,b,c] x, float[d,e,f] w, float[h,i,j] r, int64 m) => (y) { y = Loop <body = step (int64 n, bool c) "
        f'=> (o, p) {{ o = Identity(c) q = Det(r) p = {operator} <hidden_size = 2> (x, w, r) }}> (m, "") }}'
    )
    feeds = {"w": ones(1, gates * 2, shape[2]), "r": ones(1, gates * 2, 2), "m": np.array(2, np.int64)}
    with pytest.raises((dmlcpu.BindingError, dmlcpu.InvalidModelError), match="elements"):
        run(graph, {"x": ones(*shape), **feeds})


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ('y, "" = Split <axis = 1> (x, parts)', [[1], [3]]),
        ('"", y = Split <axis = 1> (x, parts)', [[2], [4]]),
        ('"", y = Loop <body = b (int64 i, bool c, float[] s) => (d, t, u) { d = Identity(c) e = Det(s) t = Neg(s) '
         "u = Relu(s) }> (m, , x)", [[[1, 2], [3, 4]]]),
        ('y, "" = If <then_branch = b () => (p, q) { p = Identity(x) q = Det(x) }, else_branch = c () => (v, w) '
         "{ v = Neg(x) w = Relu(x) }> (t)", [[1, 2], [3, 4]]),
        ('z, mean, "" = BatchNormalization <training_mode = 1> (x, s, s, s, s) y = Identity(mean)', [1.1, 1.2]),
    ],
)  # fmt: skip
def test_outputs_that_are_left_out(nodes: str, expected: list[Any]) -> None:
    inputs = "float[a,b] x, int64[n] parts, int64 m, bool t, float[k] s"
    feeds = {
        "x": np.array([[1, 2], [3, 4]], np.float32),
        "parts": np.ones(2, np.int64),
        "m": np.array(1, np.int64),
        "t": np.array(True),
        "s": ones(2),
    }
    [result] = run(f"g ({inputs}) => (y) {{ {nodes} }}", feeds)
    np.testing.assert_array_equal(result, np.array(expected, np.float32))


def test_a_batch_of_none_is_walked() -> None:
    """Onnxruntime divides by what is behind the axis alone."""
    step = "step (u, v) => (w, o) { w = Add(u, v) d = Det(w) o = Identity(d) }"
    graph = f"g (float[a,b,c,d] x, float[e,f,h] s) => (y, o) {{ y, o = Scan <body = {step}, num_scan_inputs = 1, "
    feeds = {"x": ones(0, 3, 2, 2), "s": ones(0, 2, 2)}
    results = run(f"{graph} scan_input_axes = [1]> (s, x) }}", feeds)
    assert [result.shape for result in results] == [(0, 2, 2), (3, 0)]


def test_filters_that_are_known_have_none() -> None:
    """Onnxruntime looks for weights of codes right before a convolution, of branches in the graphs around them, too."""
    w = "float[3,2,2,2] w = {" + ", ".join(["1"] * 24) + "}"
    kept = "u = Identity(k) y = Conv(x, u)"
    constant = f"[c] k = Constant <value = {w}> ()"
    for node in (f"{constant} {kept}", kept.replace("k)", "w)")):
        branches = f"then_branch = b () => (y) {{ {node} }}, else_branch = c () => (e) {{ e = Identity(x) }}"
        text = f"g (float[1,2,4,4] x, bool t) => (r) <{w}> {{ r = If <{branches}> (t) }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
        add_guards(model)
        inner = {node.op_type for graph in graphs_within(model.graph.node[0].attribute) for node in graph.node}
        assert inner == {"Conv", "Identity"} | ({"Constant"} if "Constant" in node else set())


def test_only_a_guard_is_quoted() -> None:
    message = "Non-zero status. Name:'guard: it's n: input 0 is bad' Status Message: indices"
    assert told_by_guard(message) == "it's n: input 0 is bad"
    assert told_by_guard("Non-zero status. Name:'n' Status Message: indices") == ""
