"""What a session tells of its model: inputs and outputs, where it comes from, who runs which nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dmlcpu.compiled_operator import BindingProperties
from dmlcpu.graph.compiled_graph import Step

if TYPE_CHECKING:  # the classes are there without the package onnx
    from dmlcpu.onnx.models.model import Model, ValueInfo
    from dmlcpu.onnx.planning.plans import Part

__all__ = ["ModelMetadata", "NodeArg", "Partition", "metadata_of", "node_arg", "partition_of"]

_NO_VERSION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model, as onnxruntime describes it.

    Attributes:
        name: Its name.
        shape: Lengths, names of free lengths, or None.
        type: Such as ``"tensor(uint8)"``; of outputs also what holds tensors, such as ``"seq(tensor(float))"``.

    >>> from dmlcpu import InferenceSession
    >>> InferenceSession("examples/image_classification/resnet8_int8.onnx").get_inputs()
    [NodeArg(name='input0', shape=[1, 32, 32, 3], type='tensor(int8)')]
    """

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says of itself; onnxruntime's names.

    Attributes:
        version: The largest INT64 where the model says none, as there.

    >>> from dmlcpu import InferenceSession
    >>> InferenceSession("examples/image_classification/resnet8_int8.onnx").get_modelmeta().graph_name
    'tflite_int8'
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that run together.

    Attributes:
        provider: Who runs them: ``"dmlcpu"``, ``"onnxruntime"``, or where neither can ``"onnx.reference"``.
        nodes: Their names.
        reasons: Of what dmlcpu does not run, why no kernel does, by name.
        description: Of what runs natively, the steps that the nodes became.
        steps: The same, one by one.
        binding_properties: The memory that they use besides inputs and outputs; None of what onnxruntime runs.

    >>> from dmlcpu import InferenceSession
    >>> [partition] = InferenceSession("examples/image_classification/resnet8_int8.onnx").partitions()
    >>> partition.provider, partition.reasons
    ('dmlcpu', {})
    """

    provider: str
    nodes: tuple[str, ...]
    reasons: Mapping[str, str] = field(hash=False)
    description: str = field(repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    binding_properties: BindingProperties | None = None


def metadata_of(model: Model) -> ModelMetadata:
    """Return what a model says of itself."""
    proto = model.proto
    return ModelMetadata(
        proto.producer_name,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        proto.model_version if proto.HasField("model_version") else _NO_VERSION,
        {entry.key: entry.value for entry in proto.metadata_props},
    )


def node_arg(value: ValueInfo) -> NodeArg:
    """Return a value of a model as onnxruntime describes it."""
    from dmlcpu.onnx.type_names import tensor_name

    return NodeArg(value.name, list(value.shape or ()), value.container or tensor_name(value.dtype))


def partition_of(provider: str, part: Part) -> Partition:
    """Return what there is to tell of a part that a provider runs."""
    from dmlcpu.onnx.foreign.array_parts import ArrayPart
    from dmlcpu.onnx.foreign.parts import ForeignPart

    nodes = tuple(node.name for node in part.nodes)
    if isinstance(part, ForeignPart):
        return Partition(provider, nodes, part.reasons, "")
    if isinstance(part, ArrayPart):
        return Partition(provider, nodes, {}, "")
    graph = part.graph
    return Partition(provider, nodes, {}, graph.describe(), graph.steps, graph.binding_properties)
