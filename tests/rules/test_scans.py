"""Scan: loops along axes of their inputs, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, floats

Array = NDArray[Any]


def scan(opset: int = 17, **attributes: Any) -> Builder:
    """A Scan of one state along two inputs, with two results."""
    inner = Builder(prefix="b")
    for name, shape in (("s", (2, 3)), ("p", (2, 3)), ("q", (3,))):
        inner.input("float32", shape, name)
    state = inner.node("Add", [inner.node("Mul", ["s", "p"]), "q"])
    for name, shape in ((state, (2, 3)), (inner.node("Neg", [state]), (2, 3)), (inner.node("Abs", ["q"]), (3,))):
        inner.output(name, "float32", shape)
    builder = Builder(opset)
    axes = attributes.get("scan_input_axes", [0, 0])
    shapes = [[2, 3], [3]]
    for shape, axis in zip(shapes, axes, strict=True):
        shape.insert(axis, 5)
    given = [builder.input("float32", shape, name) for shape, name in zip(([2, 3], *shapes), "xyz", strict=True)]
    outputs = builder.node("Scan", given, 3, body=inner.graph(), num_scan_inputs=2, **attributes)
    for name in outputs:
        builder.output(name, "float32")
    return builder


def feeds_of(builder: Builder, rng: np.random.Generator) -> dict[str, Array]:
    return {
        value.name: floats(rng, [entry.dim_value for entry in value.type.tensor_type.shape.dim])
        for value in builder.inputs
    }


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [1, 0]},
        {"scan_input_axes": [2, 1], "scan_input_directions": [1, 0]},
        {"scan_input_directions": [0, 1], "scan_output_directions": [1, 0]},
        {"scan_output_axes": [2, 1], "scan_output_directions": [0, 1]},
        {"scan_output_axes": [-1, -2]},
    ],
    ids=str,
)
@pytest.mark.parametrize("opset", [11, 17])
def test_scans(random_numbers: np.random.Generator, attributes: dict[str, Any], opset: int) -> None:
    builder = scan(opset, **attributes)
    assert_like_onnxruntime(builder.build(), feeds_of(builder, random_numbers))


def test_scans_of_a_free_length(random_numbers: np.random.Generator) -> None:
    """Each length is a plan of its own."""
    builder = scan()
    for value in builder.inputs[1:]:
        value.type.tensor_type.shape.dim[0].dim_param = "steps"
    for steps in (1, 4, 2, 4):
        feeds = {"x": (2, 3), "y": (steps, 2, 3), "z": (steps, 3)}
        arrays = {name: floats(random_numbers, shape) for name, shape in feeds.items()}
        assert_like_onnxruntime(builder.build(), arrays)
    unfit = {"x": np.zeros((2, 3), "f"), "y": np.zeros((4, 2, 3), "f"), "z": np.zeros((3, 3), "f")}
    session = dmlcpu.InferenceSession(builder.build())
    with pytest.raises(dmlcpu.DmlError):
        session.run(None, unfit)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scan_input_axes", [-10]),
        ("num_scan_inputs", "a"),
        ("scan_input_axes", 1),
        ("scan_input_directions", 1),
        ("scan_output_axes", 0),
    ],
)
def test_scans_that_are_malformed(random_numbers: np.random.Generator, name: str, value: Any) -> None:
    model = onnx.load_model_from_string(scan().build())
    [node] = (node for node in model.graph.node if node.op_type == "Scan")
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    feeds = feeds_of(scan(), random_numbers)
    with pytest.raises(dmlcpu.DmlError):
        dmlcpu.InferenceSession(model.SerializeToString()).run(None, feeds)
