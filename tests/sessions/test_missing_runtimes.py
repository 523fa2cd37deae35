"""Nodes that nobody runs: custom operators, and those without a kernel where onnxruntime is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu
from command_line import run
from dmlcpu.onnx.foreign.runner import OF_ONNXRUNTIME

X = np.float32([[1, -2, 3, 0]])
INSTEAD = "custom operators are not supported: express it by ONNX's operators, or as functions of the model"


def model_of(body: str, inputs: str = "float[N, 4] x", output: str = "float[a, b] y") -> bytes:
    imports = '<ir_version: 8, opset_import: ["" : 17, "my.company" : 1, "com.microsoft" : 1]>'
    model: bytes = onnx.parser.parse_model(f"{imports} g ({inputs}) => ({output}) {body}").SerializeToString()
    return model


@pytest.fixture(params=[True, False], ids=["installed", "missing"])
def is_installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    return bool(request.param)


@pytest.fixture
def without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


@pytest.mark.usefixtures("is_installed")
@pytest.mark.parametrize("rows", ["2", "N"])
def test_custom_operators_are_refused_at_opening(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "custom.onnx"
    path.write_bytes(model_of("{ a = Relu(x) b = my.company.Bent(a) y = Neg(b) }", f"float[{rows}, 4] x"))
    told = f"no runtime has the operator my.company.Bent; {INSTEAD}"
    with pytest.raises(dmlcpu.MissingRuntimeError) as raised:
        dmlcpu.InferenceSession(path)
    assert str(raised.value) == told
    own, left = raised.value.partitions
    assert (own.provider, own.nodes, left.provider) == ("dmlcpu", ("Relu_0",), "nobody")
    assert left.nodes == ("Bent_1", "Neg_2")
    described = run("info", path)
    assert (described.exit_code, described.stderr) == (0, f"dmlcpu: {told}\n")
    assert ["1", "nobody", "2"] in [line.split() for line in described.stdout.splitlines()]


@pytest.mark.usefixtures("is_installed")
@pytest.mark.parametrize("rows", ["2", "N"])
def test_custom_operators_behind_unknown_shapes(rows: str) -> None:
    """A plan ends where only a run tells the shapes; what follows counts, too."""
    body = "{ places = NonZero(x) floats = Cast<to = 1>(places) y = my.company.Bent(floats) }"
    with pytest.raises(dmlcpu.MissingRuntimeError, match=r"no runtime has the operator my\.company\.Bent; "):
        dmlcpu.InferenceSession(model_of(body, f"float[{rows}, 4] x"))


@pytest.mark.usefixtures("is_installed")
def test_several_custom_operators_within_a_branch() -> None:
    branches = "then_branch = t () => (float[a, b] u) { v = my.company.Bent(x) u = my.company.Curved(v) }"
    branches += ", else_branch = e () => (float[a, b] w) { w = my.company.Bent(x) }"
    model = model_of(f"{{ s = ReduceMax<keepdims = 0>(x) c = Cast<to = 9>(s) y = If(c)<{branches}> }}")
    with pytest.raises(dmlcpu.MissingRuntimeError, match=r"operators my\.company\.Bent, my\.company\.Curved; "):
        dmlcpu.InferenceSession(model).run(None, {"x": X})


@pytest.mark.usefixtures("is_installed")
def test_custom_operators_that_no_run_needs() -> None:
    branches = "then_branch = t () => (float[a, b] u) { u = Neg(x) }"
    branches += ", else_branch = e () => (float[a, b] w) { w = my.company.Bent(x) }"
    body = f"<bool[1] c = {{1}}> {{ unread = my.company.Bent(x) y = If(c)<{branches}> }}"
    [y] = dmlcpu.InferenceSession(model_of(body)).run(None, {"x": X})
    assert y.tolist() == (-X).tolist()


@pytest.mark.usefixtures("without_onnxruntime")
def test_operators_without_a_rule_are_found_at_opening() -> None:
    with pytest.raises(dmlcpu.MissingRuntimeError, match=r"pip install onnxruntime\): com\.microsoft\.Trilu \(Trilu_1"):
        dmlcpu.InferenceSession(model_of("{ a = Relu(x) y = com.microsoft.Trilu(a) }"))


@pytest.mark.usefixtures("without_onnxruntime")
def test_operators_without_a_rule_that_need_no_runtime() -> None:
    """A Range of constants is one itself, and a NonZero is a function of arrays."""
    body = "<float first = {0}, float end = {4}, float step = {1}> { r = Range(first, end, step) y = Add(x, r) }"
    [y] = dmlcpu.InferenceSession(model_of(body)).run(None, {"x": X})
    assert y.tolist() == (X + np.arange(4)).tolist()
    [places] = dmlcpu.InferenceSession(model_of("{ y = NonZero(x) }", output="int64[2, b] y")).run(None, {"x": X})
    assert places.tolist() == [[0, 0, 0], [0, 1, 2]]


@pytest.mark.usefixtures("without_onnxruntime")
def test_lengths_of_1_that_nodes_do_not_take_refuse_no_model() -> None:
    """Nor does a node with a rule that other lengths have a kernel for."""
    body = "<float[2, 4] k = {0,1,2,3,4,5,6,7}> { b = NonZero(x) s = Add(x, k) y = Relu(s) z = Identity(b) }"
    session = dmlcpu.InferenceSession(model_of(body, "float[N, 4] x", "float[N, 4] y, int64[2, c] z"))
    assert session.run(["y"], {"x": np.repeat(X, 2, 0)})[0].tolist() == [[1, 0, 5, 3], [5, 3, 9, 7]]


def test_operators_that_onnx_does_not_have_are_found_at_opening() -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=r"node Reluu \(Reluu_1\): no kernel for this operator: "):
        dmlcpu.InferenceSession(model_of("{ a = Neg(x) y = Reluu(a) }"))


@pytest.mark.usefixtures("without_onnxruntime")
def test_operators_that_nobody_has_are_told_of_without_onnxruntime() -> None:
    """What may be of onnxruntime's own is what it is missed for."""
    with pytest.raises(dmlcpu.InvalidModelError, match=r"^node Reluu \(Reluu_1\): ONNX has no such operator$"):
        dmlcpu.InferenceSession(model_of("{ a = Neg(x) y = Reluu(a) }"))
    for operator in ("Affine", "ScaledTanh"):
        with pytest.raises(dmlcpu.MissingRuntimeError, match=operator):
            dmlcpu.InferenceSession(model_of(f"{{ a = Neg(x) y = {operator}(a) }}"))


def test_onnxruntimes_own_operators_in_onnxs_domain() -> None:
    kernels = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state").get_all_opkernel_def()
    names = {kernel.op_name for kernel in kernels if kernel.domain == "" and not onnx.defs.has(kernel.op_name)}
    assert {name for name in names if not name.startswith("Memcpy")} == OF_ONNXRUNTIME


@pytest.mark.usefixtures("is_installed")
@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ("kernel_shape = [3, 3]", r"got kernel_shape \(3, 3\), expected the filter's \(1, 1\)"),
        ("strides = [1]", "got attributes that do not fit the number of its spatial axes"),
    ],
)
def test_windows_that_are_not_valid(attributes: str, told: str) -> None:
    body = f"<float[1, 4, 1, 1] w = {{1, 1, 1, 1}}> {{ y = Conv<{attributes}>(x, w) }}"
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^node Conv \(Conv_0\): {told}$"):
        dmlcpu.InferenceSession(model_of(body, "float[1, 4, 8, 8] x", "float[a, b, c, d] y"))


def test_operators_that_are_known_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onnx would read all of its schemas, which takes as long as opening a small model does."""

    def has(*_: object) -> bool:
        raise AssertionError("onnx was asked for an operator")

    body = """{
        y = If(b) <
            then_branch = t () => (float[N, 4] p) { p = Neg(x) },
            else_branch = e () => (float[N, 4] q) { q = Abs(x) }>
    }"""
    model = model_of(body, "float[N, 4] x, bool b")
    monkeypatch.setattr(onnx.defs, "has", has)
    [y] = dmlcpu.InferenceSession(model).run(None, {"x": np.ones((1, 4), np.float32), "b": True})
    assert (y == -1).all()
    with pytest.raises(AssertionError, match="onnx was asked"):
        dmlcpu.InferenceSession(model_of("{ y = Bent(x) }"))
