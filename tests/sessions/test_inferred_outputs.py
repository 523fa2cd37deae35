"""What sessions tell of outputs whose shapes the model does not, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import onnx
import onnxruntime
import pytest

import dmlcpu

CASES: Final = {
    "fixed": "g (float[2,6] x) => (y) { y=MatMul(x,w) }",
    "free": 'g (float[b,"six"] x) => (float y, z) { y=Relu(x) z=Shape(y) }',
    "a computed shape": "g (float[b,6] x) => (float y) { s=Constant<value_ints=[0,2,3]>() y=Reshape(x,s) }",
    "a free length": "g (float[b,3] x) => (float y) { k=NonZero(x) y=Cast<to=1>(k) }",
    "no rank": "g (float[b,3] x, int64[n] s) => (float y) { y=Reshape(x,s) }",
    "codes": "g (float[b,6] x) => (y) <float s={0.1}, uint8 z={3}> { a=QuantizeLinear(x,s,z) y=Identity(a) }",
    "some": "g (float[b,6] x) => (float y, float[b,6] z) { y=Relu(x) z=Neg(x) }",
}
Told = list[tuple[str, list[Any], str]]


def model_of(case: str) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {CASES[case]}')
    for value in model.graph.output:
        if value.name == "y" and value.type.tensor_type.elem_type:
            value.type.tensor_type.ClearField("shape")
    if case == "fixed":
        model.graph.initializer.append(onnx.helper.make_tensor("w", 1, [6, 5], [0.5] * 30))
    serialized: bytes = model.SerializeToString()
    return serialized


def told(session: Any) -> Told:
    return [(value.name, value.shape, value.type) for value in session.get_outputs()]


def expected_of(model: bytes) -> Told:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return told(onnxruntime.InferenceSession(model, options))


@pytest.mark.parametrize("case", CASES)
def test_shapes(case: str) -> None:
    model = model_of(case)
    session = dmlcpu.InferenceSession(model)
    assert told(session) == told(session) == expected_of(model)


def test_files_that_are_replaced(tmp_path: Path) -> None:
    """A session tells of the model that it has read."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of("fixed"))
    session = dmlcpu.InferenceSession(path)
    path.write_bytes(model_of("some"))
    assert told(session) == [("y", [2, 5], "tensor(float)")]


def test_lengths_of_the_options() -> None:
    options = dmlcpu.SessionOptions()
    options.add_free_dimension_override_by_name("b", 3)
    session = dmlcpu.InferenceSession(model_of("some"), options)
    assert told(session) == [("y", [3, 6], "tensor(float)"), ("z", [3, 6], "tensor(float)")]


def test_an_output_that_is_no_tensor_leaves_the_shapes_of_others() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[b,6] x) => (y, seq(float) z) '
        "{ y=Relu(x) z=SequenceConstruct(x) }"
    )
    model.graph.output[1].ClearField("type")
    session = dmlcpu.InferenceSession(model.SerializeToString())
    assert told(session) == expected_of(model.SerializeToString())
