"""What a template comes to for some lengths is what the rules give for them, to the last attribute and constant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx

import dmlcpu
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Replay
from dmlcpu.onnx.constant_arrays import ArrayType
from dmlcpu.onnx.foreign.parts import ForeignModels, ForeignPart
from dmlcpu.onnx.models.model import Model, load_model
from dmlcpu.onnx.planning.planner import lowered_model
from dmlcpu.onnx.planning.plans import LoweredGraph
from dmlcpu.onnx.planning.templates import PlanTemplate, at_lengths

__all__ = ["assert_templates_follow_the_rules", "assert_traced_like_lowered", "freed"]

Shapes = Mapping[str, Sequence[int]]


def freed(model: bytes) -> bytes:
    """A model that leaves all lengths of its inputs free."""
    proto = onnx.load_from_string(model)
    for value in proto.graph.input:
        for axis, length in enumerate(value.type.tensor_type.shape.dim):
            length.dim_param = f"{value.name} {axis}"
    return bytes(proto.SerializeToString())


def assert_templates_follow_the_rules(model: bytes, shapes: Iterable[Shapes], most: int) -> None:
    """Templates, no more than `most`, are enough for all shapes, and each is right wherever it says it is."""
    loaded, device = load_model(model, to_run=True), dmlcpu.Device(num_threads=1)
    templates: list[PlanTemplate] = []
    for given in shapes:
        arrays = _arrays(loaded, given)
        if not any(template.replay(loaded, arrays) for template in templates):
            made = PlanTemplate.of(loaded, arrays, device, ForeignModels())
            assert made is not None
            templates.append(made)
        for template in templates:
            _assert_right(template, loaded, arrays, device)
    assert len(templates) <= most, len(templates)


def assert_traced_like_lowered(model: bytes, shapes: Shapes) -> None:
    """Of lengths that are known only later, the rules make the same; and of neighbouring ones where they say so."""
    loaded, device = load_model(freed(model), to_run=True), dmlcpu.Device(num_threads=1)
    arrays = _arrays(loaded, shapes)
    template = PlanTemplate.of(loaded, arrays, device, ForeignModels())
    if template is None:
        assert lowered_model(loaded, arrays, device, ForeignModels()) is None
        return
    assert template.replay(loaded, arrays) is not None
    _assert_right(template, loaded, arrays, device)
    rank = max(map(len, shapes.values()), default=0)
    for axis in range(-rank, 0):  # aligned as they are broadcast
        for change in (1, 2, -1):
            others = {name: [*shape] for name, shape in shapes.items()}
            for shape in others.values():
                if len(shape) >= -axis:
                    shape[axis] = shape[axis] * 2 if change == 2 else shape[axis] + change
            _assert_right(template, loaded, _arrays(loaded, others), device)


def _arrays(model: Model, shapes: Shapes) -> dict[str, ArrayType]:
    return {value.name: (value.dtype, tuple(shapes[value.name])) for value in model.inputs}


def _assert_right(template: PlanTemplate, model: Model, arrays: Mapping[str, ArrayType], device: dmlcpu.Device) -> None:
    replay = template.replay(model, arrays)
    if replay is None:
        return
    traced, lowered = template.lowered, lowered_model(model, arrays, device, ForeignModels())
    assert lowered is not None, arrays
    assert len(traced.parts) == len(lowered.parts)
    for place, (ours, expected) in enumerate(zip(traced.parts, lowered.parts, strict=True)):
        if isinstance(ours, LoweredGraph):
            assert isinstance(expected, LoweredGraph)
            _assert_same(template.graphs[place].at(replay), expected.graph)
            assert ours.inputs == expected.inputs
            types = [(tensor.name, tensor.dtype, replay.lengths(tensor.shape)) for tensor in ours.exports]
            assert types == [(tensor.name, tensor.dtype, tensor.shape) for tensor in expected.exports]
        else:
            assert isinstance(expected, ForeignPart)
            _assert_same_part(ours, expected, replay)
    for output, other in zip(traced.outputs, lowered.outputs, strict=True):
        np.testing.assert_array_equal(output, other)


def _assert_same_part(ours: ForeignPart, expected: ForeignPart, replay: Replay) -> None:
    assert [node.name for node in ours.nodes] == [node.name for node in expected.nodes]
    assert (ours.inputs, ours.outputs) == (expected.inputs, expected.outputs)
    ours = at_lengths(ours, replay)
    assert [*ours.constants] == [*expected.constants]
    for array, other in zip(ours.constants.values(), expected.constants.values(), strict=True):
        assert isinstance(array, np.ndarray)
        assert isinstance(other, np.ndarray)
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes())


def _assert_same(ours: NativeGraph, expected: NativeGraph) -> None:
    assert [type(value) for value in ours.rows()[0]] == [type(value) for value in expected.rows()[0]]
    for value, other in zip(ours.rows()[0], expected.rows()[0], strict=True):
        if isinstance(value, np.ndarray):
            assert (value.dtype, value.shape, value.strides) == (other.dtype, other.shape, other.strides)
            assert value.tobytes() == other.tobytes()
        else:
            assert value == other
    for node, other in zip(ours.rows()[1], expected.rows()[1], strict=True):
        assert node[:4] == other[:4]
        assert {name: [*entries] for name, entries in node.attributes.items()} == {
            name: [*entries] for name, entries in other.attributes.items()
        }
