"""Layers on blocks of channels, as onnxruntime saves models that it has optimized for one CPU, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded, floats, results_of_onnxruntime, steps_of

Array = NDArray[Any]

DOMAIN: Final = "com.microsoft.nchwc"
SHAPE: Final = (2, 32, 10, 9)
WINDOW: Final[Mapping[str, Any]] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}


class BlockBuilder(Builder):
    """A model with layers of onnxruntime's own domain of blocks."""

    def proto(self) -> onnx.ModelProto:
        proto = super().proto()
        proto.opset_import.add(domain=DOMAIN, version=1)
        return proto

    def layer(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        result: str = self.node(f"{DOMAIN}.{operator}", inputs, **attributes)
        return result


def saved(model: bytes, path: Path) -> onnx.ModelProto:
    """Return what onnxruntime saves of a model that it has optimized at its last level."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(path), 3  # it warns that this is for one CPU
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    proto: onnx.ModelProto = onnx.load(path)
    return proto


def layers_in_blocks(model: bytes, to_run: bool = True) -> list[str]:
    return [node.operator for node in load_model(model, to_run).nodes if node.domain == DOMAIN]


def maxima(builder: Builder, image: str) -> str:
    return str(builder.node("MaxPool", [image], **WINDOW))


def means(builder: Builder, image: str, **attributes: Any) -> str:
    return str(builder.node("AveragePool", [image], **WINDOW, **attributes))


def whole(builder: Builder, image: str, operator: str) -> str:
    return str(builder.node(operator, [maxima(builder, image)]))


def both(builder: Builder, image: str, operator: str, **attributes: Any) -> str:
    value = builder.node(operator, [maxima(builder, image), means(builder, image)], **attributes)
    return str(builder.node("Tanh", [builder.node("Relu", [value])]))


def enlarged(builder: Builder, image: str, mode: str, coordinates: str, **attributes: Any) -> str:
    attributes |= {"mode": mode, "coordinate_transformation_mode": coordinates}
    return str(builder.node("Resize", [maxima(builder, image), "", np.float32([1, 1, 2, 3])], **attributes))


# What becomes of an image, and the layers in blocks that onnxruntime makes of it besides reorders.
NETWORKS: Final[Mapping[str, tuple[Callable[[Builder, str], str], set[str]]]] = {
    "means": (partial(means, ceil_mode=1), {"AveragePool"}),
    "means with padding": (partial(means, count_include_pad=1), {"AveragePool"}),
    "all maxima": (partial(whole, operator="GlobalMaxPool"), {"MaxPool", "GlobalMaxPool"}),
    "all means": (partial(whole, operator="GlobalAveragePool"), {"MaxPool", "GlobalAveragePool"}),
    "sum": (partial(both, operator="Add"), {"MaxPool", "AveragePool"}),
    "product": (partial(both, operator="Mul"), {"MaxPool", "AveragePool"}),
    "join": (partial(both, operator="Concat", axis=1), {"MaxPool", "AveragePool"}),
    "nearest": (
        partial(enlarged, mode="nearest", coordinates="asymmetric", nearest_mode="floor"),
        {"MaxPool", "Upsample"},
    ),
    **{
        coordinates: (partial(enlarged, mode="linear", coordinates=coordinates), {"MaxPool", "Upsample"})
        for coordinates in ("half_pixel", "align_corners", "asymmetric")
    },
}


@pytest.mark.parametrize("name", NETWORKS)
def test_models_that_onnxruntime_has_saved(random_numbers: np.random.Generator, tmp_path: Path, name: str) -> None:
    """Layers between codes."""
    make, layers = NETWORKS[name]
    builder = Builder()
    image = builder.node("Sigmoid", [coded(builder, builder.input("float32", SHAPE))])
    builder.output(builder.quantized(make(builder, image), 0.01, POINT), "uint8")
    feeds = {"x": floats(random_numbers, SHAPE)}
    model = saved(builder.build(), tmp_path / "saved.onnx").SerializeToString()
    assert {*layers_in_blocks(model, to_run=False)} == {"ReorderInput", "ReorderOutput", *layers}
    assert layers_in_blocks(model) == []
    assert_like_onnxruntime(model, feeds, 1)
    # Nothing is left of the reorders, so that codes stay codes.
    assert sorted(steps_of(model)) == sorted(steps_of(builder))


def test_layers_that_others_read_too(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    """Each result is reordered, and one has its channels last."""
    builder = Builder()
    first = maxima(builder, builder.input("float32", SHAPE))
    second = means(builder, first)
    for result in (builder.node("Transpose", [second], perm=[0, 2, 3, 1]), first, second):
        builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, SHAPE)}
    model = saved(builder.build(), tmp_path / "saved.onnx").SerializeToString()
    assert layers_in_blocks(model, to_run=False).count("ReorderOutput") == 3
    assert layers_in_blocks(model) == []
    assert_like_onnxruntime(model, feeds, 1)


def test_convolutions_stay_in_blocks(random_numbers: np.random.Generator, tmp_path: Path) -> None:
    """And what reads their blocks, or writes those that they read; but not what is on its own."""
    builder = Builder()
    x = builder.input("float32", SHAPE)
    weights = floats(random_numbers, (32, 32, 3, 3))
    value = builder.node("Conv", [maxima(builder, x), weights, floats(random_numbers, (32,))], pads=[1, 1, 1, 1])
    builder.output(builder.node("Add", [maxima(builder, value), floats(random_numbers, (32, 1, 1))]), "float32")
    # A Softmax reads no blocks, nor does this write any.
    builder.output(means(builder, builder.node("Softmax", [x], axis=3)), "float32")
    feeds = {"x": floats(random_numbers, SHAPE)}
    model = saved(builder.build(), tmp_path / "saved.onnx").SerializeToString()
    assert sorted(layers_in_blocks(model)) == ["Conv", "MaxPool", "MaxPool", "ReorderInput", "ReorderOutput"]
    assert "AveragePool" in layers_in_blocks(model, to_run=False)
    assert_like_onnxruntime(model, feeds, 1, native=False)


@pytest.mark.parametrize("are_last", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("channels", [12, 32])
def test_reorders_by_hand(random_numbers: np.random.Generator, channels: int, are_last: tuple[int, int]) -> None:
    """Channels that do not fill their last block, and such as are the last axis."""
    builder = BlockBuilder()
    shape = (2, 10, 9, channels) if are_last[0] else (2, channels, 10, 9)
    blocks = builder.layer("ReorderInput", builder.input("float32", shape), channels_last=are_last[0])
    for value in (blocks, builder.layer("MaxPool", blocks, **WINDOW)):
        result = builder.layer("ReorderOutput", value, channels=channels, channels_last=are_last[1])
        builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, shape)}
    assert layers_in_blocks(builder.build()) == []
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    builder = BlockBuilder()
    x = builder.input("float32", ("batch", 12, "rows", "columns"))
    value = builder.layer("MaxPool", builder.layer("ReorderInput", coded(builder, x)), **WINDOW)
    value = builder.layer("ReorderOutput", value, channels=12)
    builder.output(builder.quantized(value, 0.05, POINT), "uint8")
    model = builder.build()
    for shape in ((2, 12, 10, 9), (1, 12, 4, 5), (3, 12, 12, 12)):
        assert_like_onnxruntime(model, {"x": floats(random_numbers, shape)})


def returned(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """Blocks themselves."""
    return blocks, builder.layer("MaxPool", blocks, **WINDOW)


def captured(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """Blocks that a graph within a node reads."""
    body = Builder(prefix="body_")
    body.input("int64", (), "body_count")
    body.input("bool", (), "body_goes_on")
    body.input("float32", None, "body_sum")  # type: ignore[arg-type]
    body.output(body.node("Identity", ["body_goes_on"]), "bool", ())
    body.output(body.node("Add", ["body_sum", blocks]), "float32")
    result = builder.node("Loop", [np.array(3), np.array(True), np.float32(0)], body=body.graph())
    return [builder.layer("ReorderOutput", value, channels=32) for value in (blocks, result)]


def shifted(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """Blocks plus what is none."""
    value = builder.node("Add", [builder.layer("MaxPool", blocks, **WINDOW), np.float32(1)])
    return [builder.layer("ReorderOutput", value, channels=32)]


def moved(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """Blocks whose rows are others."""
    value = builder.node("Concat", [blocks, blocks], axis=2)
    return [builder.layer("ReorderOutput", value, channels=32)]


def full_means(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """Means of which onnxruntime's layer counts what ONNX's does not."""
    value = builder.layer("AveragePool", blocks, **WINDOW, ceil_mode=1, count_include_pad=1)
    return [builder.layer("ReorderOutput", value, channels=32)]


def told_wrongly(builder: BlockBuilder, blocks: str) -> Sequence[str]:
    """An image that onnxruntime takes for blocks."""
    return [builder.layer("ReorderOutput", "x", channels=32), builder.layer("ReorderOutput", blocks, channels=32)]


@pytest.mark.parametrize("rest", [returned, captured, shifted, moved, full_means, told_wrongly])
def test_what_stays_in_blocks(
    random_numbers: np.random.Generator, rest: Callable[[BlockBuilder, str], Sequence[str]]
) -> None:
    builder = BlockBuilder()
    for result in rest(builder, builder.layer("ReorderInput", builder.input("float32", SHAPE))):
        builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, SHAPE)}
    assert layers_in_blocks(builder.build())
    assert_like_onnxruntime(builder.build(), feeds, 1, native=False)


def test_versions_without_the_layer(random_numbers: np.random.Generator) -> None:
    """A Resize wants a region, and poolings do not know all that layers tell."""
    for opset, operator, attributes in ((12, "Upsample", {"scales": [1, 1, 2, 2]}), (9, "MaxPool", WINDOW)):
        builder = BlockBuilder(opset)
        value = builder.layer("ReorderInput", builder.input("float32", SHAPE))
        value = builder.layer("ReorderOutput", builder.layer(operator, value, **attributes), channels=32)
        builder.output(value, "float32")
        assert operator in layers_in_blocks(builder.build())
        assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)}, native=False)


def test_branches(random_numbers: np.random.Generator) -> None:
    """The nodes of a branch that is known to run."""
    builder = BlockBuilder()
    x = builder.input("float32", SHAPE)
    branches = []
    for prefix, operator in (("then/", "MaxPool"), ("else/", "AveragePool")):
        branch = BlockBuilder(prefix=prefix)
        value = branch.layer(operator, branch.layer("ReorderInput", x), **WINDOW)
        branch.output(branch.layer("ReorderOutput", value, channels=32), "float32")
        branches.append(branch.graph())
    condition = builder.constant(np.array(True))
    builder.output(builder.node("If", [condition], then_branch=branches[0], else_branch=branches[1]), "float32")
    feeds = {"x": floats(random_numbers, SHAPE)}
    assert_like_onnxruntime(builder.build(), feeds, 1)


def test_names_that_are_taken(random_numbers: np.random.Generator) -> None:
    """What is made for a node is called as nothing else, nor are its values."""
    builder = BlockBuilder()
    blocks = builder.layer("ReorderInput", builder.input("float32", SHAPE))
    larger = builder.layer("Upsample", blocks, scales=[1, 1, 2, 2])
    result = builder.layer("ReorderOutput", larger, channels=32, channels_last=1)
    builder.output(result, "float32")
    for name in (f"{larger}/scales", f"{result}/shape", f"{result}/Reshape"):
        builder.node("Neg", ["x"])
        builder.nodes[-1].output[0] = name
        builder.output(name, "float32")
    for node, name in zip(builder.nodes, ("a", "a/Identity", "b", "b/Reshape", "b/Constant", "a/Resize"), strict=True):
        node.name = name
    feeds = {"x": floats(random_numbers, SHAPE)}
    assert layers_in_blocks(builder.build()) == []
    assert_like_onnxruntime(builder.build(), feeds, 1)


@pytest.mark.parametrize("shape", [SHAPE, SHAPE[:3]])
def test_other_numbers_of_channels_and_axes_are_refused(
    random_numbers: np.random.Generator, shape: tuple[int, ...]
) -> None:
    """Onnxruntime would leave channels out where they are in the last block, which it never writes."""
    builder = BlockBuilder()
    blocks = builder.layer("ReorderInput", builder.input("float32", shape))
    builder.output(builder.layer("ReorderOutput", blocks, channels=28), "float32")
    feeds = {"x": floats(random_numbers, shape)}
    if len(shape) != 4:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            results_of_onnxruntime(builder.build(), feeds)
    with pytest.raises(dmlcpu.InvalidModelError, match="Reshape"):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)
