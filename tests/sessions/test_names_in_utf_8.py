"""Names of a model that are not UTF-8, which protobuf returns as bytes: each is told of, wherever it is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu
from command_line import failed
from onnx_models import Builder

TEXT = """
    <ir_version: 10, opset_import: ["" : 17, "own.domain" : 1, "far.domain" : 1], producer_name: "the.producer",
     doc_string: "told.of.it", metadata_props: ["meta.key": "meta.value"]>
    g (float[image_count, 4] given, bool which) => (float[image_count, 4] result)
    <float[4] initializer = {1, 2, 3, 4}>
    {
        [the_node] between = Softmax <axis = 1> (given)
        [the_call] called = own.domain.own_function <own_alpha = 0.5> (between)
        result = If (which) <
            then_branch = then_graph () => (float[inner_count, 4] in_then) { in_then = Add (called, initializer) },
            else_branch = else_graph () => (float[n, 4] in_else)
                <float[4] inner_initializer = {1, 2, 3, 4}> {
                read = Identity (inner_initializer)
                second = LeakyRelu <alpha = 0.25> (called)
                in_else = If (which) <
                    then_branch = inner_then () => (float[n, 4] innermost) {
                        innermost = own.domain.own_function <own_alpha = 0.5> (second)
                    },
                    else_branch = inner_else () => (float[n, 4] in_inner_else) { in_inner_else = Neg (second) }
                >
            }
        >
    }
    <domain: "own.domain", opset_import: ["" : 17, "far.domain" : 1]>
    own_function <own_alpha, gamma_by_default: float = 1.0> (own_input) => (own_output)
    {
        in_function = Selu <alpha : float = @own_alpha, gamma : float = @gamma_by_default> (own_input)
        bit = Constant <value = bool {1}> ()
        own_output = If (bit) <
            then_branch = own_then () => (float[own_count, 4] in_own_then) {
                in_own_then = HardSigmoid (in_function)
            },
            else_branch = own_else () => (float[own_count, 4] in_own_else) {
                in_own_else = HardSigmoid (own_input)
            }
        >
    }
"""
META = ("meta.key", "meta.value")
# Each with what holds it. A name that several places have is wrong in all of them, and told of one.
NAMES = {
    "own.domain": "domain that the model imports",
    "far.domain": "domain that the model imports",
    "image_count": "input",
    "given": "input",
    "which": "input",
    "result": "output",
    "initializer": "node If (If_2)",
    "the_node": "node 0",
    "Softmax": "node 0",
    "between": "node 0",
    "axis": "node Softmax (the_node)",
    "inner_count": "node If (If_2)",
    "in_then": "node If (If_2)",
    "in_else": "node If (If_2)",
    "read": "node If (If_2)",
    "inner_initializer": "node If (If_2)",
    "LeakyRelu": "node If (If_2)",
    "own_function": "node 1",
    "own_alpha": "node own_function (the_call)",
    "own_input": "function",
    "own_output": "function",
    "in_function": "function",
    "HardSigmoid": "function 'own_function'",
    "in_own_then": "function 'own_function'",
    "own_count": "function 'own_function'",
    "gamma_by_default": "function 'own_function'",
    "second": "node If (If_2)",
    "innermost": "node If (If_2)",
    "sparse.one": "initializer",
    "sparse.in.branch": "initializer",
    "over.load": "a function",
}


def good_model() -> onnx.ModelProto:
    """Return a model with every kind of name: of sparse initializers too, which onnx's text has not."""
    model = onnx.parser.parse_model(TEXT)
    model.graph.doc_string = "graph.doc"
    (branch,) = (found.g for found in model.graph.node[2].attribute if found.name == "else_branch")
    for graph, name in ((model.graph, "sparse.one"), (branch, "sparse.in.branch")):
        sparse = graph.sparse_initializer.add(dims=[4])
        sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), name))
        sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([2]), "indices"))
    function = model.functions.add(name="never_called", domain="own.domain", overload="over.load")
    function.opset_import.add(version=17)
    return model


def damaged_each(name: str) -> list[bytes]:
    """Return a model with a name whose first byte no UTF-8 has: in all places, and in each of them alone."""
    field = bytes([len(name)]) + name.encode()
    other = field[:1] + b"\xff" + field[2:]
    parts = good_model().SerializeToString().split(field)
    assert len(parts) > 1
    alone = [field.join(parts[:place]) + other + field.join(parts[place:]) for place in range(1, len(parts))]
    return [other.join(parts), *alone]


def damaged(name: str) -> bytes:
    """Return a model with such a name in all of its places."""
    return damaged_each(name)[0]


def test_the_model_itself_is_good() -> None:
    session = dmlcpu.InferenceSession(good_model().SerializeToString())
    given = np.zeros((3, 4), np.float32)
    assert [session.run(None, {"given": given, "which": np.array(bit)})[0].shape for bit in (True, False)] == [
        (3, 4)
    ] * 2


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_utf_8(name: str) -> None:
    shown = re.escape(repr(b"\xff" + name[1:].encode()))
    with pytest.raises(dmlcpu.InvalidModelError, match=f"{re.escape(NAMES[name])}.*: {shown} is not UTF-8$"):
        dmlcpu.InferenceSession(damaged(name))


@pytest.mark.parametrize("name", NAMES)
def test_one_place_that_is_not_utf_8(name: str) -> None:
    for file in damaged_each(name)[1:]:
        with pytest.raises(dmlcpu.InvalidModelError, match=r" is not UTF-8$"):
            dmlcpu.InferenceSession(file)


def test_graphs_in_nodes_of_a_model_without_functions() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 17]> g (float[4] given, bool which) => (float[4] result) {
            result = If (which) <
                then_branch = outer () => (float[4] in_then) {
                    in_then = If (which) <
                        then_branch = inner () => (float[4] innermost) { innermost = Elu <alpha = 0.5> (given) },
                        else_branch = other () => (float[4] in_other) { in_other = Neg (given) }
                    >
                },
                else_branch = last () => (float[4] in_else) { in_else = Neg (given) }
            >
        }
    """
    model = onnx.parser.parse_model(text)
    sparse = model.graph.node[0].attribute[1].g.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "sparse.in.branch"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([2])))
    file = model.SerializeToString()
    dmlcpu.InferenceSession(file)
    for name in ("then_branch", "innermost", "alpha", "in_other", "in_else", "sparse.in.branch"):
        whose = "an initializer" if name == "sparse.in.branch" else r"node If \(If_0\)"
        field = bytes([len(name)]) + name.encode()
        parts = file.split(field)
        for place in range(1, len(parts)):
            other = field.join(parts[:place]) + field[:1] + b"\xff" + field[2:] + field.join(parts[place:])
            with pytest.raises(dmlcpu.InvalidModelError, match=rf"{whose}: b'\\xff{name[1:]}' is not UTF-8$"):
                dmlcpu.InferenceSession(other)


def test_a_file_of_weights(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }
    """)
    weights = model.graph.initializer[0]
    weights.CopyFrom(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    dmlcpu.InferenceSession(path)
    path.write_bytes(path.read_bytes().replace(b"\x0bweights.bin", b"\x0b\xffeights.bin"))
    with pytest.raises(dmlcpu.InvalidModelError, match=r"weights: b'\\xffeights.bin' is not UTF-8$"):
        dmlcpu.InferenceSession(path)


def test_an_attribute_of_a_model_without_functions() -> None:
    builder = Builder()
    builder.output(builder.node("Softmax", [builder.input("float32", (3,))], axis=0), "float32")
    file = builder.build().replace(b"\x04axis", b"\x04\xffxis")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"node Softmax \(Softmax_0\): b'\\xffxis' is not UTF-8$"):
        dmlcpu.InferenceSession(file)


def test_a_producer_is_told_as_well_as_it_can_be() -> None:
    metadata = dmlcpu.InferenceSession(damaged("the.producer")).get_modelmeta()
    assert metadata.producer_name == r"\xffhe.producer"
    assert dmlcpu.InferenceSession(damaged("told.of.it")).get_modelmeta().description == r"\xffold.of.it"
    assert dmlcpu.InferenceSession(damaged("graph.doc")).get_modelmeta().graph_description == r"\xffraph.doc"
    properties = [dmlcpu.InferenceSession(damaged(name)).get_modelmeta().custom_metadata_map for name in META]
    assert properties == [{r"\xffeta.key": "meta.value"}, {"meta.key": r"\xffeta.value"}]


def test_a_command_tells_of_it_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for name in ("axis", "far.domain", "image_count"):
        path.write_bytes(damaged(name))
        assert rf"\xff{name[1:]}' is not UTF-8" in failed("check", path)
