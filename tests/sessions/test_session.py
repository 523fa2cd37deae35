"""Sessions on the networks of tests/data/models, in both quantized forms, on every device."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.planning.plans import NativePart

MODELS = Path(__file__).parents[1] / "data" / "models"
EXAMPLE = Path(__file__).parents[2] / "examples" / "image_classification" / "resnet8_int8.onnx"
NETWORKS = ("image_classification", "keyword_spotting", "keyword_spotting_mobilenetv2", "visual_wake_words")
FORMS = ("qdq", "qop")


def model_path(network: str, form: str) -> Path:
    return EXAMPLE if (network, form) == ("image_classification", "qdq") else MODELS / f"{network}.{form}.onnx"


def recorded(network: str) -> dict[str, NDArray[Any]]:
    with np.load(MODELS / "logits.npz") as archive:
        arrays = {name.partition(".")[2]: archive[name] for name in archive.files if name.startswith(f"{network}.")}
    if network == "image_classification":
        with np.load(MODELS.parent / "resnet8_logits.npz") as archive:
            arrays["input"] = archive["images"]
    return arrays


def up_to_logits(network: str, form: str) -> bytes:
    """The model without what follows the codes that the softmax reads."""
    model = onnx.load(model_path(network, form))
    nodes = {output: node for node in model.graph.node for output in node.output}
    [softmax] = [node for node in model.graph.node if node.op_type == "Softmax"]
    codes = nodes[softmax.input[0]].input[0]
    kept = [node for node in model.graph.node if node is not softmax]
    while len(kept) != len(kept := [node for node in kept if all(i in _made(kept, model) for i in node.input)]):
        pass
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(kept)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(codes))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    return model.SerializeToString()


def _made(nodes: list[onnx.NodeProto], model: onnx.ModelProto) -> set[str]:
    names = {value.name for value in (*model.graph.input, *model.graph.initializer)} | {""}
    return names | {output for node in nodes for output in node.output}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", NETWORKS)
def test_logits_are_those_of_operators_on_codes(devices: Mapping[str, dmlcpu.Device], network: str, form: str) -> None:
    """Dequantize, operate, quantize has the result of the quantized operator too."""
    arrays = recorded(network)
    model = up_to_logits(network, form)
    for label, device in devices.items():
        session = dmlcpu.InferenceSession(model, device=device)
        [name] = [value.name for value in session.get_inputs()]
        for image, expected in zip(arrays["input"], arrays["onnxruntime_qop"], strict=True):
            [logits] = session.run(None, {name: image[None]})
            assert logits.dtype == np.int8
            np.testing.assert_array_equal(logits.reshape(-1), expected, label)


def test_image_classification_has_the_bits_of_directml(devices: Mapping[str, dmlcpu.Device]) -> None:
    arrays = recorded("image_classification")
    model = up_to_logits("image_classification", "qop")
    for label, device in devices.items():
        session = dmlcpu.InferenceSession(model, device=device)
        for image, expected in zip(arrays["input"], arrays["directml"], strict=True):
            [logits] = session.run(None, {session.get_inputs()[0].name: image[None]})
            np.testing.assert_array_equal(logits.reshape(-1), expected, label)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_whole_network_is_one_native_graph(network: str, form: str) -> None:
    session = dmlcpu.InferenceSession(model_path(network, form))
    image = recorded(network)["input"][:1]
    session.run(None, {session.get_inputs()[0].name: image})
    [plan] = session._plans.cache.values()
    assert [type(part) for part in plan.plan.parts] == [NativePart]


def test_another_runtime_reads_several_values_of_a_graph() -> None:
    """A value that the graph computes last may be read first."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["codes"]),
            node("DequantizeLinear", ["codes", "scale", "zero"], ["floats"]),
            node("Mod", ["floats", "two"], ["rest"], fmod=1),
            node("BitShift", ["codes", "one"], ["shifted"], direction="LEFT"),
        ],
        "graph",
        [info("x", onnx.TensorProto.FLOAT, [4])],
        [info("rest", onnx.TensorProto.FLOAT, [4]), info("shifted", onnx.TensorProto.UINT8, [4])],
        [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for name, array in (
                ("scale", np.float32(0.5)),
                ("zero", np.uint8(1)),
                ("one", np.uint8([1])),
                ("two", np.float32([2])),
            )
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    rest, shifted = dmlcpu.InferenceSession(model.SerializeToString()).run(None, {"x": np.float32([0, 1, 2, 3])})
    np.testing.assert_array_equal(rest, np.float32([0, 1, 0, 1]))
    np.testing.assert_array_equal(shifted, np.uint8([2, 6, 10, 14]))


class NamedSession(dmlcpu.InferenceSession):
    """Tells the names of what it is fed."""

    def names(self) -> list[str]:
        return [value.name for value in self.get_inputs()]


def test_derived_sessions_stay_what_they_are() -> None:
    device = dmlcpu.Device(num_threads=1)
    session = NamedSession(EXAMPLE, device=device)
    for made in (pickle.loads(pickle.dumps(session)), copy.copy(session), copy.deepcopy(session)):
        assert type(made) is NamedSession
        assert (made.names(), made.device) == (["input0"], device)


class LabelledSession(dmlcpu.InferenceSession):
    """Has a constructor of its own."""

    def __init__(self, label: str, path: Path) -> None:
        self.label = label
        super().__init__(path, device=dmlcpu.Device(num_threads=1))
        self._names_by_place = dict(enumerate(value.name for value in self.get_inputs()))


def test_derived_sessions_have_what_their_constructor_sets() -> None:
    session = LabelledSession("first", EXAMPLE)
    session.__init__("again", EXAMPLE)  # type: ignore[misc]
    for copied in (pickle.loads(pickle.dumps(session)), copy.copy(session), copy.deepcopy(session)):
        made = copy.copy(copied)
        assert type(made) is LabelledSession
        assert vars(made).keys() == vars(session).keys()
        assert (made.label, made._names_by_place, made.device.num_threads) == ("again", {0: "input0"}, 1)
        assert made.run(None, {"input0": np.zeros((1, 32, 32, 3), np.int8)})[0].shape == (1, 10)


def test_sessions_of_relative_paths_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    session = dmlcpu.InferenceSession(EXAMPLE.name)
    assert repr(session).startswith(f"<InferenceSession {EXAMPLE.name!r} ")
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(session)).get_inputs() == session.get_inputs()
