"""What compiled operators, graphs and sessions tell of themselves: records of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BindingProperties", "ModelMetadata", "NodeArg", "Partition", "Step"]


@dataclass(frozen=True, slots=True)
class BindingProperties:
    """The memory that a compiled operator uses besides its bindings (``DML_BINDING_PROPERTIES``), in bytes.

    Attributes:
        temporary_resource_size: Workspace of one dispatch, shared by all operators that a thread runs.
        persistent_resource_size: The owned tensors, as kept after ``initialize``.

    >>> BindingProperties(temporary_resource_size=64, persistent_resource_size=0).temporary_resource_size
    64
    """

    temporary_resource_size: int
    persistent_resource_size: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operator that a graph became.

    Attributes:
        type: The operator.
        name: The node that it comes from, of a model one of the partition's. An operator that several nodes became has
            the name of the one that computes: a convolution, say, not what quantizes its result.
        plan: What was chosen for it, one property a line.
        size: Bytes read and written.

    >>> from dmlcpu import ExecutionFlags, GraphBuilder, TensorDataType, TensorDesc, input_tensor, quantize_linear
    >>> builder = GraphBuilder()
    >>> floats = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (6,)))
    >>> [step] = builder.build(ExecutionFlags.NONE, [quantize_linear(floats, 0.5)]).steps
    >>> step.type, step.size
    ('ELEMENT_WISE_QUANTIZE_LINEAR', 34)
    """

    type: str
    name: str
    plan: str
    size: int


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
    shape: list[int | str | None] = field(hash=False)
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
        provider: Who runs them: ``"dmlcpu"``, ``"onnxruntime"``, or where neither can ``"onnx.reference"``; in a
            ``MissingRuntimeError`` also ``"nobody"``.
        nodes: Their names.
        reasons: Of what dmlcpu does not run, why no kernel does, by name.
        description: Of what runs natively, the steps that the nodes became.
        steps: The same, one by one.
        binding_properties: The memory that the steps use besides inputs and outputs; None of what another provider than
            dmlcpu runs, and of what that computes without steps, such as the boxes of a NonMaxSuppression.

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
