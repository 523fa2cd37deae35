"""Models that bring functions along: the nodes of each call, beside onnxruntime, which is given the calls."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from model_mutations import MUTATIONS, Mutation, deadline, survives
from onnx_models import results_of_onnxruntime

BEGIN: Final = "g (float[2,6] x) => (float[2,6] y) <float s={0.02}, uint8 z={128}, float h={0.5}, bool t={1}>"
X: Final = np.linspace(-2, 2, 12, dtype=np.float32).reshape(2, 6)
# The nodes of a graph, and functions.
CASES: Final = {
    "between codes": (
        "a=QuantizeLinear(x,s,z) b=DequantizeLinear(a,s,z) c=my.silu(b) d=QuantizeLinear(c,s,z) "
        "y=DequantizeLinear(d,s,z)",
        ["silu (v) => (w) { u=Sigmoid(v) w=Mul(v,u) }"],
    ),
    "twice, by attributes": (
        "a=my.f<k=0.25>(x) u=my.f(a) b=my.f<k=-1.0>(u) y=my.f(b)",
        ["f <k: float=0.5> (v) => (w) { u=LeakyRelu<alpha: float=@k>(v) w=Add(u,v) }"],
    ),
    "without an attribute": ("y=my.f(x)", ["f <k> (v) => (w) { w=LeakyRelu<alpha: float=@k>(v) }"]),
    "within each other": (
        "y=my.f(x)",
        [
            "f (v) => (w) { u=my.h<k=2.0>(v) a=my.h<k=3.0>(u) w=Sub(a,u) }",
            "h <k> (x) => (y) { s=Constant<value_float: float=@k>() y=Mul(x,s) }",
        ],
    ),
    "without an input": ("c=my.f(x,h) d=my.f(c) y=my.f(d,,s)", ["f (v,l,m) => (w) { w=Clip(v,l,m) }"]),
    "in a branch": (
        "y=If(t)<then_branch=b () => (c) { u=my.f<k=0.1>(x) c=my.f<k=0.3>(u) }, else_branch=e () => (c) { c=Neg(x) }>",
        ["f <k> (v) => (w) { w=LeakyRelu<alpha: float=@k>(v) }"],
    ),
    "branches of theirs": (
        "u=my.f<k=0.1>(x,t) y=my.f<k=0.3>(u,t)",
        [
            "f <k> (v,c) => (w) { n=Neg(v) w=If(c)<"
            "then_branch=b () => (x) { u=LeakyRelu<alpha: float=@k>(n) x=Add(u,v) }, "
            "else_branch=e () => (u) { u=Relu(n) }> }"
        ],
    ),
    "other domains": (
        "y=my.f(x)",
        ["f (v) => (w) { w=com.microsoft.Gelu(v) }"],
    ),
}  # fmt: skip


def model_of(nodes: str, functions: list[str], version: int = 17, own_version: int = 17) -> bytes:
    imports = f'opset_import: ["" : {version}, "my" : 1]'
    of_functions = f'domain: "my", opset_import: ["" : {own_version}, "my" : 1, "com.microsoft" : 1]'
    text = f"<ir_version: 9, {imports}> {BEGIN} {{ {nodes} }}" + "".join(f"<{of_functions}> {f}" for f in functions)
    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


@pytest.mark.parametrize("case", CASES)
def test_calls_are_native(case: str) -> None:
    model = model_of(*CASES[case])
    session = dmlcpu.InferenceSession(model)
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}
    [result], [expected] = session.run(None, {"x": X}), results_of_onnxruntime(model, {"x": X})
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "function", "expected"),
    [
        ("c=my.f(x) _,y=my.f(c)", "f (v) => (a,b) { a=Relu(v) b=Neg(a) }", np.minimum(-X, 0)),
        ("a,b=my.f(x) y=Add(a,b)", "f (v) => (v,w) { w=Relu(v) }", X + np.maximum(X, 0)),
        ("a,b=my.f(x) y=Add(a,b)", "f (v) => (w,w) { w=Relu(v) }", 2 * np.maximum(X, 0)),
        ("b=my.f(a) a=Neg(x) y=Relu(b)", "f (v) => (w) { w=Add(u,v) u=Abs(v) }", np.maximum(np.abs(X) - X, 0)),
    ],
    ids=["less results", "what it is given", "a result twice", "not in order"],
)
def test_calls_that_onnxruntime_refuses(nodes: str, function: str, expected: Any) -> None:
    model = onnx.load_model_from_string(model_of(nodes, [function]))
    for node in model.graph.node:  # the parser of onnx 1.16 takes no output without a name
        node.output[:] = ["" if name == "_" else name for name in node.output]
    session = dmlcpu.InferenceSession(model.SerializeToString())
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}
    assert np.array_equal(session.run(None, {"x": X})[0], expected)


def test_names_of_nodes() -> None:
    """They tell the call; values of the graph are what they were."""
    nodes = load_model(model_of("u=my.f(x) y=my.f(u)", ["f (x) => (y) { u=Relu(x) y=Neg(u) }"])).nodes
    assert [node.name for node in nodes] == ["f_0/Relu_0", "f_0/Neg_1", "f_1/Relu_0", "f_1/Neg_1"]
    assert [node.inputs for node in nodes] == [("x",), ("f_0/u",), ("u",), ("f_1/u",)]
    assert [node.outputs for node in nodes] == [("f_0/u",), ("u",), ("f_1/u",), ("y",)]


def test_names_that_are_taken() -> None:
    model = onnx.load_model_from_string(model_of("u=my.f(x) y=Relu(u)", ["f (x) => (y) { u=Neg(x) y=Neg(u) }"]))
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "f_0/u"
    [result] = dmlcpu.InferenceSession(model.SerializeToString()).run(None, {"x": X})
    assert np.array_equal(result, np.maximum(X, 0))


@pytest.mark.parametrize(("version", "is_native"), [(16, True), (12, False)])
def test_functions_of_another_version(version: int, is_native: bool) -> None:
    """Softmax has another meaning since 13: a call of it is left as it is."""
    model = model_of("y=my.f(x)", ["f (v) => (w) { w=Softmax<axis=1>(v) }"], own_version=version)
    parts = dmlcpu.InferenceSession(model).partitions()
    assert [part.provider for part in parts] == ["dmlcpu" if is_native else "onnxruntime"]
    assert bool(load_model(model).proto.functions) != is_native


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_operators_that_have_kernels(domain: str) -> None:
    """What a model says of them is for those who have none, as for onnxruntime."""
    model = onnx.load_model_from_string(model_of("y=Gelu(x)", ["Gelu (v) => (w) { w=Neg(v) }"], 20, 20))
    model.graph.node[0].domain = model.functions[0].domain = domain
    model.opset_import.add(domain="com.microsoft", version=1)
    serialized = model.SerializeToString()
    [result], [expected] = (
        dmlcpu.InferenceSession(serialized).run(None, {"x": X}),
        results_of_onnxruntime(serialized, {"x": X}),
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_large_constants_and_functions() -> None:
    """The constants are taken out of a file of this size before it is parsed."""
    model = onnx.load_model_from_string(model_of(*CASES["between codes"]))
    weights = np.arange(6 << 18, dtype=np.float32).reshape(6, -1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["c", "weights"], ["product"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("product", 1, [2, weights.shape[1]]))
    serialized = model.SerializeToString()
    assert len(serialized) > 1 << 22
    session = dmlcpu.InferenceSession(serialized)
    assert {part.provider for part in session.partitions()} == {"dmlcpu"}
    for result, expected in zip(session.run(None, {"x": X}), results_of_onnxruntime(serialized, {"x": X}), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def doubling(count: int) -> list[str]:
    """Functions each of which calls the next one twice."""
    calls = [f"f{i} (v) => (w) {{ u=my.f{i + 1}(v) w=my.f{i + 1}(u) }}" for i in range(count)]
    return [*calls, f"f{count} (v) => (w) {{ w=Neg(v) }}"]


def with_graphs_between(count: int) -> list[str]:
    """Functions each of which calls the next one from a branch, of a branch, and so on."""
    functions = []
    for index in range(count):
        inner = f"v0=my.f{index + 1}(v,c)" if index < count - 1 else "v0=Neg(v)"
        for level in range(20):
            inner = f"v{level + 1}=If(c)<then_branch=b () => (v{level}) {{ {inner} }}>"
        functions.append(f"f{index} (v,c) => (v20) {{ {inner} }}")
    return functions


REFUSED: Final[dict[str, tuple[str, list[str], str]]] = {
    "itself": ("y=my.f(x)", ["f (v) => (w) { w=my.f(v) }"], "calls itself"),
    "by another": (
        "y=my.f(x)",
        ["f (v) => (w) { w=my.h(v) }", "h (v) => (w) { u=Neg(v) w=my.f(u) }"],
        "calls itself",
    ),
    "in a branch": (
        "y=my.f(x,t)",
        ["f (v,c) => (w) { w=If(c)<then_branch=b () => (u) { u=my.f(v,c) }, else_branch=e () => (n) { n=Neg(v) }> }"],
        "calls itself",
    ),
    "many": ("y=my.f0(x)", doubling(40), f"{(3 << 40) - 2} nodes"),
    "empty": (
        "y=my.f0(x)",
        [*(f"f{i} (v) => (v) {{ u=my.f{i + 1}(v) w=my.f{i + 1}(v) }}" for i in range(40)), "f40 (v) => (v) { }"],
        "nodes",
    ),
    "graphs within each other": ("y=my.f0(x,t)", with_graphs_between(60), "within each other"),
    "deep in another place": (
        "a=my.f40(x) y=my.f0(a)",
        [*(f"f{i} (v) => (w) {{ w=my.f{i + 1}(v) }}" for i in range(80)), "f80 (v) => (w) { w=Neg(v) }"],
        "more than 64 calls",
    ),
    "deep": (
        "y=my.f0(x)",
        [f"f{i} (v) => (w) {{ w=my.f{i + 1}(v) }}" for i in range(2000)],
        "more than 64 calls",
    ),
    "too many inputs": ("y=my.f(x,x)", ["f (v) => (w) { w=Neg(v) }"], "got 2 inputs and 1 output,"),
    "too many outputs": ("y,a=my.f(x)", ["f (v) => (w) { w=Neg(v) }"], "got 1 input and 2 outputs"),
    "writes an input": ("y=my.f(x)", ["f (v) => (v) { v=Neg(v) }"], "writes what it is given"),
    "no result": ("y=my.f(x)", ["f (v) => (x) { w=Neg(v) }"], "which nothing writes"),
    "reads a value of the graph": ("y=my.f(x)", ["f (v) => (w) { w=Neg(x) }"], "which nothing writes"),
}


def test_attributes_in_many_places() -> None:
    """Each node would have a copy."""
    constants = " ".join(f"c{index}=Constant<value: tensor=@k>()" for index in range(2000))
    model = onnx.load_model_from_string(model_of("y=my.f(x)", [f"f <k> (v) => (w) {{ {constants} w=Neg(v) }}"]))
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("k", np_tensor(50_000)))
    with pytest.raises(dmlcpu.InvalidModelError, match="bytes"):
        load_model(model.SerializeToString())
    model.graph.node[0].attribute[0].t.CopyFrom(np_tensor(50))
    assert len(load_model(model.SerializeToString()).nodes) == 2001


def np_tensor(length: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.zeros(length, np.float32))


@pytest.mark.parametrize("is_call", [True, False], ids=["call", "branch"])
def test_long_names(is_call: bool) -> None:
    """Nodes tell where they come from by both ends of them."""
    inner = "v0=Neg(x) " + " ".join(f"v{index + 1}=Neg(v{index})" for index in range(200))
    if is_call:
        model = onnx.load_model_from_string(model_of("y=my.f(x)", [f"f (x) => (v200) {{ {inner} }}"]))
    else:
        model = onnx.load_model_from_string(
            model_of(f"y=If(t)<then_branch=b () => (v200) {{ {inner} }}, else_branch=c () => (e) {{ e=Neg(x) }}>", [])
        )
    model.graph.node[0].name = f"begin{'-' * 100_000}end"
    read = load_model(model.SerializeToString())
    nodes = read.nodes if is_call else read.branches.of(read.nodes[0], True).nodes
    assert len(nodes) == 201
    assert nodes[-1].outputs == ("y",)
    for node in nodes:
        assert node.name.startswith("begin--")
        assert "--end/Neg" in node.name
        assert max(map(len, (node.name, *node.inputs, *node.outputs))) < 120


@pytest.mark.parametrize("is_call", [True, False], ids=["calls", "branches"])
def test_calls_of_one_name(is_call: bool) -> None:
    """Their values have a name each, which is found at once."""
    count = 8000
    model = onnx.load_model_from_string(model_of("y=my.f(x)", ["f (x) => (y) { u=Neg(x) y=Neg(u) }"]))
    del model.graph.node[:]
    then = onnx.parser.parse_graph("b () => (y) { u=Neg(x) y=Neg(u) }")
    for index in range(count):
        output = "y" if index == count - 1 else f"y{index}"
        call = onnx.helper.make_node("f", ["x"], [output], "n", domain="my")
        branch = onnx.helper.make_node(
            "If", ["t"], [output], f"{'n' * 200}{index:06}{'n' * 200}", then_branch=then, else_branch=then
        )
        model.graph.node.append(call if is_call else branch)
    with deadline():
        read = load_model(model.SerializeToString())
        nodes = read.nodes if is_call else [n for node in read.nodes for n in read.branches.of(node, True).nodes]
    assert len({name for node in nodes for name in node.outputs}) == len(nodes) == 2 * count
    assert len({node.name for node in nodes}) == len(nodes)


@pytest.mark.parametrize("case", REFUSED)
def test_functions_that_are_refused(case: str) -> None:
    nodes, functions, message = REFUSED[case]
    with deadline(), pytest.raises(dmlcpu.InvalidModelError, match=message):
        dmlcpu.InferenceSession(model_of(nodes, functions))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@given(st.data(), st.sampled_from(sorted(CASES)))
def test_damaged_models(mutation: Mutation, data: st.DataObject, case: str) -> None:
    model = onnx.load_model_from_string(model_of(*CASES[case]))
    function = data.draw(st.sampled_from([None, *model.functions]))
    try:
        if function is None:
            mutation(data, model)
        else:
            damage_function(data, model, function, mutation)
    except AttributeError:  # a function has no constants
        return
    survives(model.SerializeToString())


def damage_function(data: Any, model: onnx.ModelProto, function: onnx.FunctionProto, mutation: Mutation) -> None:
    """Its head, or its nodes by a mutation of a graph."""
    kind = data.draw(st.sampled_from(["name", "input", "output", "nodes", "nodes", "nodes"]))
    if kind == "name":
        function.name = data.draw(st.sampled_from(["f", "silu", "Neg", ""]))
    elif kind != "nodes":
        names = getattr(function, kind)
        names.append(data.draw(st.sampled_from(["v", "w", "u", ""])))
        if data.draw(st.booleans()):
            del names[0]
    else:
        other = onnx.ModelProto()
        other.CopyFrom(model)
        del other.graph.node[:]
        other.graph.node.extend(function.node)
        mutation(data, other)
        del function.node[:]
        function.node.extend(other.graph.node)
