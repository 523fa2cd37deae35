"""The networks that ``bench`` measures whole, as far as no other package is needed for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu
from bench.model_case import placement
from bench.model_zoo import NETWORKS, MissingPackageError, TinyNetwork, he_networks, vision_transformer
from bench.model_zoo.packages import file_of

TINY = [network for network in NETWORKS.values() if isinstance(network, TinyNetwork)]


@pytest.mark.parametrize(
    ("build", "convolutions", "additions", "parameters"),
    [(he_networks.resnet50, 53, 16, 25_530_472), (he_networks.mobilenet_v2, 52, 10, 3_487_816)],
)
def test_networks_of_random_weights_have_the_layers_of_the_real_ones(
    build: Callable[[], onnx.ModelProto], convolutions: int, additions: int, parameters: int
) -> None:
    """The numbers of parameters are those in the literature, batch normalisations counted as one bias a channel."""
    model = onnx.shape_inference.infer_shapes(build(), strict_mode=True)
    operators = Counter(node.op_type for node in model.graph.node)
    assert (operators["Conv"], operators["Add"], operators["Gemm"]) == (convolutions, additions, 1)
    sizes = [int(np.prod(tensor.dims)) for tensor in model.graph.initializer if tensor.dims]
    assert sum(sizes) == parameters


def test_the_transformer_has_the_layers_of_the_real_one() -> None:
    model = onnx.shape_inference.infer_shapes(vision_transformer.vit_tiny(), strict_mode=True)
    operators = Counter(node.op_type for node in model.graph.node)
    assert [operators[name] for name in ("MatMul", "LayerNormalization", "Softmax", "Erf", "Gemm")] == [
        72,
        25,
        12,
        12,
        1,
    ]
    floats = [tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    assert sum(int(np.prod(tensor.dims)) for tensor in floats if tensor.dims) == 5_717_416


@pytest.mark.parametrize("network", TINY, ids=[network.name for network in TINY])
def test_every_form_of_a_tiny_network_is_there_and_native(network: TinyNetwork) -> None:
    image = network.inputs(1, 1)[0]
    for form in network.forms:
        model = network.model(form, 1, Path())
        session = dmlcpu.InferenceSession(model)
        session.run(None, {session.get_inputs()[0].name: image})
        placed = placement(session, model)
        assert (placed.native_nodes, placed.parts, placed.foreign) == (placed.nodes, 1, {})
        assert placed.constant_bytes > 0
        assert placed.persistent_bytes > 0


def test_a_tiny_network_takes_one_image_at_a_time() -> None:
    with pytest.raises(MissingPackageError, match="one image"):
        TINY[0].model("qop_s8s8", 2, Path())


def test_a_missing_package_is_told_with_what_installs_it() -> None:
    with pytest.raises(MissingPackageError, match="pip install no-such-distribution"):
        file_of("no_such_module_at_all", "no-such-distribution", "a.onnx")
    with pytest.raises(MissingPackageError, match="a version that has no_such_file"):
        file_of("numpy", "numpy", "no_such_file")
