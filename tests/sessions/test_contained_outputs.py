"""Outputs that are no tensors, but hold some: what onnxruntime returns of them, beside native graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from command_line import failed
from model_mutations import MUTATIONS, Mutation, survives

BEGIN: Final = (
    '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[{length},6] x) => ({outputs}) '
    "<float s={{0.02}}, uint8 z={{128}}, int64[2] parts={{2,4}}>"
)
CODES: Final = "a=QuantizeLinear(x,s,z) b=DequantizeLinear(a,s,z) c=Relu(b)"
PROBABILITIES: Final = (
    "l,p=ai.onnx.ml.LinearClassifier<coefficients=[1.0,2.0,3.0,4.0,5.0,6.0,-1.0,-2.0,3.0,2.0,-3.0,-2.0], "
    'intercepts=[0.1,0.2], classlabels_ints=[0,1], post_transform="SOFTMAX">(c)'
)
# Outputs, and the nodes that make them.
CASES: Final = {
    "sequence": ("seq(float) y", f"{CODES} y=SplitToSequence<axis=1>(c,parts)"),
    "sequence before others": (
        "seq(float) y, float[n,6] w",
        f"{CODES} y=SplitToSequence<axis=1>(c,parts) t=Atanh(c) d=QuantizeLinear(t,s,z) w=DequantizeLinear(d,s,z)",
    ),
    "sequence before lengths that a run tells": (
        "seq(float) y, int64[2,m] w, float[n,6] v",
        f"{CODES} y=SplitToSequence<axis=1>(c,parts) d=QuantizeLinear(c,s,z) k=NonZero(c) w=Neg(k) "
        "v=DequantizeLinear(d,s,z)",
    ),
    "maps": (
        "seq(map(int64,float)) y, int64[n] l",
        f"{CODES} {PROBABILITIES} y=ai.onnx.ml.ZipMap<classlabels_int64s=[3,7]>(p)",
    ),
    "constants": ("seq(float) y", "k=Constant<value=float[2]{1,2}>() y=SequenceConstruct(k,k)"),
    "optional": ("optional(float[n,6]) y", f"{CODES} y=Optional(c)"),
}  # fmt: skip


def model_of(case: str, length: str = "n") -> bytes:
    outputs, nodes = CASES[case]
    text = f"{BEGIN.format(length=length, outputs=outputs)} {{ {nodes} }}"
    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


def options() -> onnxruntime.SessionOptions:
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    return quiet


def assert_same(ours: Any, theirs: Any) -> None:
    """The same lists, of the same arrays or dicts; floats nearly so."""
    assert type(ours) is type(theirs)
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        np.testing.assert_allclose([*ours.values()], [*theirs.values()], rtol=1e-5)
    else:
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", ["n", "2"])
@pytest.mark.parametrize("case", CASES)
def test_results(random_numbers: np.random.Generator, case: str, length: str) -> None:
    model = model_of(case, length)
    session = dmlcpu.InferenceSession(model)
    other = onnxruntime.InferenceSession(model, options())
    assert [(value.name, value.type) for value in session.get_outputs()] == [
        (value.name, value.type) for value in other.get_outputs()
    ]
    for rows in (2, 2, 2) if length == "2" else (2, 3, 5, 2):
        feeds = {"x": random_numbers.uniform(0.1, 0.9, (rows, 6)).astype(np.float32)}
        expected = other.run(None, feeds)
        assert_same(session.run(None, feeds), expected)
        assert_same(session.run(["y"], feeds), expected[:1])
        assert_same(session.run_async(["y"], feeds).result(), expected[:1])


def test_what_leads_to_them_is_native() -> None:
    session = dmlcpu.InferenceSession(model_of("sequence", "2"))
    assert [part.provider for part in session.partitions()] == ["dmlcpu", "onnxruntime"]
    assert session.get_outputs()[0].type == "seq(tensor(float))"


def test_an_output_that_is_asked_for_twice() -> None:
    session = dmlcpu.InferenceSession(model_of("sequence", "2"))
    first, second = session.run(["y", "y"], {"x": np.ones((2, 6), np.float32)})
    assert_same(first, second)
    assert not any(np.shares_memory(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", ["seq(float)", "map(int64,float)", "optional(float)"])
def test_inputs_are_tensors(kind: str) -> None:
    text = f'<ir_version: 9, opset_import: ["" : 17]> g ({kind} x) => (int64 y) {{ y=SequenceLength(x) }}'
    with pytest.raises(dmlcpu.InvalidModelError, match=r"'x': got a value of kind .*, expected a tensor"):
        dmlcpu.InferenceSession(onnx.parser.parse_model(text).SerializeToString())


@pytest.mark.parametrize("command", ["run", "check", "bench"])
def test_the_command_line_wants_arrays(tmp_path: Path, command: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of("sequence", "2"))
    assert "output 'y': got seq(tensor(float)), expected a tensor" in failed(command, path)


def test_types_that_are_none() -> None:
    model = onnx.load_model_from_string(model_of("sequence"))
    model.graph.output[0].type.sequence_type.elem_type.tensor_type.elem_type = 99
    with pytest.raises(dmlcpu.InvalidModelError, match="'y': the element type 99 is unknown"):
        dmlcpu.InferenceSession(model.SerializeToString())
    model.graph.output[0].type.sequence_type.elem_type.Clear()
    with pytest.raises(dmlcpu.InvalidModelError, match="'y': got a value of kind None"):
        dmlcpu.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@given(st.data(), st.sampled_from(sorted(CASES)))
def test_damaged_models(mutation: Mutation, data: st.DataObject, case: str) -> None:
    model = onnx.load_model_from_string(model_of(case, data.draw(st.sampled_from(["n", "2"]))))
    mutation(data, model)
    survives(model.SerializeToString())
