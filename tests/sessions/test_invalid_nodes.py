"""Nodes that are not valid ONNX: the session is not opened, and is told what is wrong with which node."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlcpu
from dmlcpu.onnx.models import operator_forms
from dmlcpu.onnx.models.operator_forms import forms_of

RUNTIME = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
CONSTANTS = (
    "float[1,1,2,2] w = {1, 1, 1, 1}, float[1] one = {1}, int64[1] k = {3}, int64[1] none = {0}, float s = {1}, "
    "uint8 u = {3}, int8 i = {3}, uint8[1,1,2,2] f = {1, 1, 1, 1}, uint8[4,4] m = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}"
)


def opened(nodes: str, version: int = 17) -> dmlcpu.InferenceSession:
    """A session of a model whose nodes make y of x."""
    domains = '"com.microsoft" : 1, "com.microsoft.nchwc" : 1, "ai.onnx.ml" : 3'
    text = f'<ir_version: 8, opset_import: ["" : {version}, {domains}]> g (float[1,1,4,4] x, bool t) => '
    model = onnx.parser.parse_model(f"{text}(float[a,b,c,d] y) <{CONSTANTS}> {{ {nodes} }}")
    return dmlcpu.InferenceSession(model.SerializeToString())


@pytest.fixture(params=["with onnxruntime", "without"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("Conv <stride = [2, 2]> (x, w)", "got an attribute 'stride', expected 'strides'"),
        ("Conv <pad = [1, 1, 1, 1]> (x, w)", "got an attribute 'pad', expected 'pads'"),
        ("QLinearConv <stride = [2, 2]> (x, w, w, w, w, w, w, w)", "got an attribute 'stride', expected 'strides'"),
        ("Softmax <axes = 0> (x)", "got an attribute 'axes', expected 'axis'"),
        ("Cast <word = 7> (x)", "got an attribute 'word', expected one of to"),
        ("Relu <word = 7> (x)", "got an attribute 'word', expected none"),
        ("Split <num_outputs = 3> (x)", "it has an attribute 'num_outputs' from version 18 of ONNX's operators on"),
        ("Dropout <ratio = 0.5> (x)", "it has an attribute 'ratio' in earlier versions"),
        ('Conv <strides = "ab"> (x, w)', "got STRING for its attribute 'strides', expected INTS"),
        ("Conv <strides = [1.0, 1.0]> (x, w)", "got FLOATS for its attribute 'strides', expected INTS"),
        ("Conv <strides = 2> (x, w)", "got INT for its attribute 'strides', expected INTS"),
        ("Conv <group = 1.0> (x, w)", "got FLOAT for its attribute 'group', expected INT"),
        ("MaxPool <kernel_shape = [2.0, 2.0]> (x)", "got FLOATS for its attribute 'kernel_shape', expected INTS"),
        ("Elu <alpha = [1.0]> (x)", "got FLOATS for its attribute 'alpha', expected FLOAT"),
        ("LeakyRelu <alpha = 1> (x)", "got INT for its attribute 'alpha', expected FLOAT"),
        ('LeakyRelu <alpha = "a"> (x)', "got STRING for its attribute 'alpha', expected FLOAT"),
        ("Softmax <axis = 1.5> (x)", "got FLOAT for its attribute 'axis', expected INT"),
        ("Concat (x, x)", "its attribute 'axis' is missing"),
        ("Relu (x, x)", "got 2 inputs, expected 1"),
        ('Relu (x, "")', "got 2 inputs, expected 1"),
        ("Add (x, one, one)", "got 3 inputs, expected 2"),
        ("MatMul (x)", "got 1 input, expected 2"),
        ("Clip (x, one, one, one)", "got 4 inputs, expected 1 to 3"),
        ("Max ()", "got 0 inputs, expected 1 or more"),
        ("Add (, x)", "its input 0 is missing"),
        ("TopK (x, k)", "got 1 output, expected 2"),
        ("Gelu (x)", "ONNX has this operator from version 20 of its operators on; the model imports version 17"),
        ("Upsample (x, one)", "ONNX has this operator no more from version 10 of its operators on; the model imports"),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_what_an_operator_does_not_take(node: str, told: str) -> None:
    operator = node.split(" ")[0]
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \({operator}_0\): {re.escape(told)}"):
        opened(f"y = {node}")
    branch = f"then_branch = b () => (float[1] y) {{ [named] y = {node} }}, else_branch = c () => (y) {{ y = Neg(x) }}"
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \(named\): {re.escape(told)}"):
        opened(f"y = If <{branch}> (t)")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("com.microsoft.QuickGelu <alpha = 1> (x)", "got INT for its attribute 'alpha', expected FLOAT"),
        ("com.microsoft.Attention (x, w)", "its attribute 'num_heads' is missing"),
        ("com.microsoft.QLinearConcat <axis = 1> (s, u)", "got 2 inputs, expected 3 or more"),
        ("com.microsoft.MatMulNBits <K = 4, N = 4> (x, , s)", "its input 1 is missing"),
        ("com.microsoft.QLinearWhere (t, x, s, , x, s, u, s, u)", "its input 3 is missing"),
        ("com.microsoft.nchwc.ReorderInput <channel = 1> (x)", "got an attribute 'channel', expected"),
        ("ai.onnx.ml.Normalizer <norms = 1> (x)", "got an attribute 'norms', expected 'norm'"),
        ("ai.onnx.ml.TreeEnsemble <n_targets = 1> (x)", "ai.onnx.ml has this operator from version 5 of its operators"),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_what_an_operator_of_another_domain_does_not_take(node: str, told: str) -> None:
    operator = node.split(" ")[0]
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \(\w+_0\): {re.escape(told)}"):
        opened(f"y = {node}")
    branch = f"then_branch = b () => (float[1] y) {{ [named] y = {node} }}, else_branch = c () => (y) {{ y = Neg(x) }}"
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \(named\): {re.escape(told)}"):
        opened(f"y = If <{branch}> (t)")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("Inverse <word = 1> (x)", "Unrecognized attribute: word"),
        ("Inverse (x, x)", "has input size 2"),
        ("QuickGelu <beta = 1.0> (x)", "an attribute 'beta' that is not known here: .*Unrecognized attribute: beta"),
        ("QuickGelu (x, x)", "an input 1 that is not known here: .*has input size 2"),
        ("FusedConv <stride = [2, 2]> (x, w)", "Unrecognized attribute: stride"),
    ],
)
def test_what_a_later_onnxruntime_may_know(node: str, told: str) -> None:
    """Operators of com.microsoft get further operands and attributes: it is asked, and no kernel passes over them."""
    with pytest.raises(dmlcpu.InvalidModelError, match=told):
        opened(f"y = com.microsoft.{node}")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("Conv <auto_pad = ~FOO~> (x, w)", "got auto_pad 'FOO', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"),
        ("ConvTranspose <auto_pad = ~FOO~> (x, w)", "got auto_pad 'FOO', expected"),
        ("MaxPool <auto_pad = ~FOO~, kernel_shape = [2, 2]> (x)", "got auto_pad 'FOO', expected"),
        ("AveragePool <auto_pad = ~FOO~, kernel_shape = [2, 2]> (x)", "got auto_pad 'FOO', expected"),
        ("LpPool <auto_pad = ~FOO~, kernel_shape = [2, 2]> (x)", "got auto_pad 'FOO', expected"),
        (
            "Conv <auto_pad = ~SAME_UPPER~, pads = [1, 1, 1, 1]> (x, w)",
            "got pads [1, 1, 1, 1] beside auto_pad 'SAME_UPPER', expected one of the two",
        ),
        (
            "ConvTranspose <auto_pad = ~VALID~, pads = [0, 0, 0, 1]> (x, w)",
            "got pads [0, 0, 0, 1] beside auto_pad 'VALID', expected one of the two",
        ),
        *(
            (
                f"{pool} <kernel_shape = [2, 2], pads = [0, 1, 0, 2]> (x)",
                "got pads [0, 1, 0, 2], expected less than the kernel has on each axis, [2, 2]",
            )
            for pool in ("AveragePool", "LpPool", "MaxPool")
        ),
        ("Cast <to = 99> (x)", "got to 99, expected the number of a type of ONNX's, such as 1 for FLOAT"),
        ("Cast <to = 0> (x)", "got to 0, expected the number of a type"),
        ("EyeLike <dtype = 99> (x)", "got dtype 99, expected the number of a type"),
        ("Conv <group = 0> (x, w)", "got group [0], expected numbers from 1"),
        ("MaxPool <kernel_shape = [2, 2], storage_order = 2> (x)", "got storage_order 2, expected 0 or 1"),
        ("Softmax <axis = 32> (x)", "got axis 32, expected one from -32 to 31"),
        ("LayerNormalization <axis = 9223372036854775807> (x, w)", "got axis 9223372036854775807, expected one from"),
        ("ReduceMax <axes = [0, -33]> (x)", "got axes -33, expected one from -32 to 31"),
        ("RandomNormal <shape = [2], scale = 0.0> ()", "got scale 0, expected a number above 0"),
        ("RandomNormalLike <scale = -1.0> (x)", "got scale -1, expected a number above 0"),
        ("RandomUniform <shape = [2], low = 2.0> ()", "got low 2 and high 1, expected a range"),
        ("RandomUniformLike <high = -0.5> (x)", "got low 0 and high -0.5, expected a range"),
        (
            "TfIdfVectorizer <ngram_counts = [0, 2], ngram_indexes = [0, 1], pool_int64s = [1, 2, 3, 4]> (x)",
            "got 2 ngram_indexes, expected one for each n-gram, 3",
        ),
        (
            "TfIdfVectorizer <ngram_counts = [2, 0], ngram_indexes = [0, 1], pool_int64s = [1, 2]> (x)",
            "got ngram_counts [2, 0] of 2 words, expected where each length begins",
        ),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_values_of_attributes(node: str, told: str) -> None:
    operator, node = node.split(" ")[0], node.replace("~", '"')
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \({operator}_0\): {re.escape(told)}"):
        opened(f"y = {node}")
    branch = f"then_branch = b () => (float[1] y) {{ [named] y = {node} }}, else_branch = c () => (y) {{ y = Neg(x) }}"
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \(named\): {re.escape(told)}"):
        opened(f"y = If <{branch}> (t)")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        *(
            (f"{operator} <axis = {axis}> ({inputs})", f"got axis {axis}, expected one from -4 to 3")
            for operator, inputs in (
                ("Concat", "x, x"),
                ("Gather", "x, k"),
                ("LayerNormalization", "x, one"),
                ("LogSoftmax", "x"),
                ("Softmax", "x"),
                ("Split", "x"),
            )
            for axis in (4, -5)
        ),
        ("ReduceMax <axes = [9]> (x)", "got axis 9, expected one from -4 to 3"),
        ("Slice (x, none, k, k, none)", "got step 0 along axis 3, expected another number"),
        ("DequantizeLinear (codes, s, i)", "got int8 for its input 2, expected uint8, as its input 0 is"),
        ("QLinearConv (codes, s, i, f, s, u, s, u)", "got int8 for its input 2, expected uint8, as its input 0 is"),
        ("QLinearConv (codes, s, u, f, s, i, s, u)", "got int8 for its input 5, expected uint8, as its input 3 is"),
        ("QLinearConv (codes, s, u, f, s, u, s, u, u)", "got uint8 for its input 8, expected int32"),
        ("QLinearConv (codes, s, u, f, s, u, s, u, one)", "got float32 for its input 8, expected int32"),
        ("QLinearMatMul (codes, s, i, m, s, u, s, u)", "got int8 for its input 2, expected uint8"),
        ("QLinearMatMul (codes, s, u, m, s, i, s, u)", "got int8 for its input 5, expected uint8"),
        ("ConvInteger (codes, f, i, u)", "got int8 for its input 2, expected uint8"),
        ("MatMulInteger (codes, m, u, i)", "got int8 for its input 3, expected uint8"),
        ("com.microsoft.QLinearAdd (codes, s, u, codes, s, u, s, i)", "got int8 for its input 7, expected uint8"),
        ("com.microsoft.QLinearMul (codes, s, u, codes, s, i, s, u)", "got int8 for its input 5, expected uint8"),
        ("com.microsoft.QLinearSigmoid (codes, s, u, s, i)", "got int8 for its input 4, expected uint8"),
        ("com.microsoft.QLinearConcat <axis = 1> (s, u, codes, s, i)", "got int8 for its input 4, expected uint8"),
        (
            "com.microsoft.QLinearConcat <axis = 1> (s, u, codes, s, u, f, s, i)",
            "got int8 for its input 7, expected uint8",
        ),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_what_only_shapes_and_types_tell(node: str, told: str) -> None:
    operator = node.split(" ")[0]
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node {operator} \(named\): {re.escape(told)}"):
        opened(f"codes = QuantizeLinear (x, s, u) [named] y = {node}")


@pytest.mark.usefixtures("runtime")
def test_a_bias_of_float16_is_told_as_such() -> None:
    """Where all FLOAT16 would be FLOAT32 otherwise."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float16[1,1,4,4] x) => (float16[a,b,c,d] y) <{CONSTANTS}>'
    model = onnx.parser.parse_model(f"""{text} {{
        floats = Cast <to = 1> (x)
        codes = QuantizeLinear (floats, s, u)
        [named] made = QLinearConv (codes, s, u, f, s, u, s, u, bias)
        back = DequantizeLinear (made, s, u)
        y = Cast <to = 10> (back)
    }}""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float16([1]), "bias"))
    told = r"^node QLinearConv \(named\): got float16 for its input 8, expected int32"
    with pytest.raises(dmlcpu.InvalidModelError, match=told):
        dmlcpu.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    ("node", "version", "told"),
    [
        ("y, b, c = Split <axis = 3> (x)", 17, "got 3 outputs of 4 along the axis, expected equal parts"),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_parts_that_nothing_tells(node: str, version: int, told: str) -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node Split \(Split_0\): {told}$"):
        opened(node, version)


@pytest.mark.parametrize(
    "node",
    [
        "y, b, c = Split <axis = 3, num_outputs = 2> (x)",
        "q = com.microsoft.Inverse (x) y, b, c = Split <axis = 3, num_outputs = 2> (q)",
        "y = If <then_branch = n () => (y) { y, b, c = Split <num_outputs = 2> (x) }, else_branch = m () => (y) "
        "{ y = Neg(x) }> (t)",
    ],
)
@pytest.mark.usefixtures("runtime")
def test_a_split_of_other_counts(node: str) -> None:
    """Onnxruntime would end the process on it where no rule takes it, or in a branch."""
    with pytest.raises(
        dmlcpu.InvalidModelError, match=r"^node Split \(\w+\): got 3 outputs, expected 2, its num_outputs$"
    ):
        opened(node, 18)


def test_an_output_that_an_operator_does_not_have() -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=r"^node Relu \(Relu_0\): got 2 outputs, expected 1$"):
        opened("y, z = Relu(x)")


def test_an_attribute_that_is_there_twice() -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=r"^node Conv \(Conv_0\): two of its attributes have one name$"):
        opened("y = Conv <group = 1, group = 1> (x, w)")


def test_nodes_of_functions() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[1,1,4,4] x) => (float[1,1,4,4] y) { y = own.Layer <slope = 1.0> (x) }
        <domain: "own", opset_import: ["" : 17]>
        Layer <slope> (x) => (y) { y = LeakyRelu <ALPHA: float = @slope> (x) }"""
    right, wrong = (onnx.parser.parse_model(text.replace("ALPHA", name)) for name in ("alpha", "beta"))
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(dmlcpu.InferenceSession(right.SerializeToString()).run(None, {"x": x})[0], x)
    with pytest.raises(dmlcpu.InvalidModelError, match=r"^node LeakyRelu \(Layer_0/LeakyRelu_0\): got an attribute"):
        dmlcpu.InferenceSession(wrong.SerializeToString())


@pytest.mark.parametrize(
    ("nodes", "version"),
    [
        ("y = Relu <__mark = 1> (x)", 17),
        ('y = Clip (x, "", "")', 17),
        ('y = Conv <strides = [1, 1], kernel_shape = [2, 2]> (x, w, "")', 17),
        ("y, places = MaxPool <kernel_shape = [2, 2]> (x) ", 17),
        ("y = LayerNormalization <axis = -1> (x, one)", 12),
        ("y = ThresholdedRelu <alpha = 0.5> (x)", 9),
        ("y = GroupNormalization <num_groups = 1> (x, one, one)", 18),
        ("z = Constant <value_float = 2.0, mark = 1> () y = Add (x, z)", 17),
        ("y = Dropout <ratio = 0.5> (x)", 10),
        ("a, b = Split <axis = 3, num_outputs = 2> (x) y = Concat <axis = 3> (b, a)", 18),
        ("y = Gelu (x)", 20),
    ],
)
def test_what_is_valid_though_rare(nodes: str, version: int) -> None:
    opened(nodes, version)


# The version of onnxruntime whose operators the table has: in those of its own domains they change without a number.
OF_ONNXRUNTIME = (1, 32)


def full_name(schema: Any) -> str:
    return f"{schema.domain}.{schema.name}" if schema.domain else schema.name


def line_of(schema: Any) -> str:
    """What onnx or onnxruntime itself says of an operator, as a line of the table."""
    if schema.deprecated:
        return "removed"
    letters = {"Single": "1", "Optional": "?"}
    places = [
        "".join(letters.get(value.option.name) or "*+"[least >= len(values)] for value in values) or "-"
        for values, least in ((schema.inputs, schema.min_input), (schema.outputs, schema.min_output))
    ]
    attributes = sorted(schema.attributes.items())
    return " ".join([*places, *(f"{name}{'!' * own.required}:{own.type.name}" for name, own in attributes)])


def lines_of(schemas: Iterable[Any]) -> dict[str, list[str]]:
    """A line for each form that differs from the one before, by operator."""
    told: dict[str, list[str]] = {}
    for schema in sorted(schemas, key=lambda schema: (full_name(schema), schema.since_version)):
        lines, form = told.setdefault(full_name(schema), []), line_of(schema)
        if not lines or lines[-1].split(" ", 1)[1] != form:
            lines.append(f"{schema.since_version} {form}")
    return told


def of_onnx() -> list[Any]:
    return [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain in ("", "ai.onnx.ml")]


def of_onnxruntime() -> list[Any]:
    """The schemas of its own domains that models are written in."""
    schemas = onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()
    return [schema for schema in schemas if schema.domain in ("com.microsoft", "com.microsoft.nchwc")]


def test_the_table_is_that_of_onnx() -> None:
    """As far as the onnx that is there knows it."""
    schemas = of_onnx()
    newest = {schema.domain: 0 for schema in schemas}
    for schema in schemas:
        newest[schema.domain] = max(newest[schema.domain], schema.since_version)
    told = lines_of(schemas)
    assert len(told) > 150
    of_table = {
        operator: [line for line in lines if int(line.split(" ")[0]) <= newest[operator.rpartition(".")[0]]]
        for operator, lines in operator_forms._lines().items()
        if not operator.startswith("com.microsoft.")
    }
    assert {operator: lines for operator, lines in of_table.items() if lines} == told


@pytest.mark.skipif(RUNTIME < OF_ONNXRUNTIME, reason="the table is of a later version of onnxruntime")
def test_the_table_is_that_of_onnxruntime() -> None:
    told = lines_of(of_onnxruntime())
    assert len(told) > 100
    of_table = operator_forms._lines().items()
    assert {operator: lines for operator, lines in of_table if operator.startswith("com.microsoft.")} == told


def test_operands_are_counted_as_onnx_and_onnxruntime_count_them() -> None:
    own = of_onnxruntime() if RUNTIME >= OF_ONNXRUNTIME else []
    for schema in [*of_onnx(), *own]:
        if not schema.deprecated:
            forms = forms_of(full_name(schema))
            form = next(form for form in reversed(forms) if form.since <= schema.since_version)
            for counts, least, most in (
                (form.input_counts, schema.min_input, schema.max_input),
                (form.output_counts, schema.min_output, schema.max_output),
            ):
                assert (counts.start, min(counts.stop - 1, 2**31 - 1)) == (least, most), schema.name


@pytest.mark.parametrize(("domain", "told"), [("", "ONNX's own domain"), ("my.company", "the domain 'my.company'")])
def test_domains_that_are_not_imported(domain: str, told: str) -> None:
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy"]
    node = onnx.helper.make_node("Relu", ["x"], ["y"], domain=domain)
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("other", 1)])
    with pytest.raises(dmlcpu.InvalidModelError, match=f"Relu .Relu_0.: the model imports no operators of {told}$"):
        dmlcpu.InferenceSession(model.SerializeToString())
