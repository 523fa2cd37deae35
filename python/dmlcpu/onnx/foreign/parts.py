"""What another runtime takes of a model: nodes as a model of their own, for all lengths, so that it is opened once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import onnx

from dmlcpu.graph.lengths import at_hand
from dmlcpu.onnx.constant_arrays import Array, ConstantElements, FreeArray
from dmlcpu.onnx.foreign.guards import add_guards
from dmlcpu.onnx.models.extraction import extracted, is_supplied
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.values import Elements, Tensor

__all__ = [
    "FOLLOWS",
    "ForeignModels",
    "ForeignNodes",
    "ForeignPart",
    "OpenSession",
    "Passed",
    "PassedReads",
    "Reads",
    "can_be_fed",
    "fixed_part",
]


FOLLOWS: Final = "it follows such a node"
"""Why a node is in a part though it may have a kernel."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a part passes another one, of any shape.

    Attributes:
        name: Its name in the model.
        dtype: Its type.
    """

    name: str
    dtype: np.dtype[Any]


Reads: TypeAlias = Mapping[str, Elements]
"""What nodes read of others: values of native graphs or other runtimes, and constants."""
PassedReads: TypeAlias = Mapping[str, Elements | Passed]
"""The same, and what nodes that go with them have written."""
_Read = TypeVar("_Read", bound=Elements | Passed, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class ForeignNodes(Generic[_Read]):
    """Nodes of a model that another runtime takes together, and what they have to do with others.

    Attributes:
        nodes: Those nodes, in an order in which they can run.
        weights: Nodes that dequantize constants which those read, in order: the other runtime is given them, too.
        reasons: Why no kernel computes the nodes, by name.
        reads: What all of them read of others.
        outputs: Names of what others read of them.
    """

    nodes: Sequence[Node]
    weights: Sequence[Node]
    reasons: Mapping[str, str]
    reads: Mapping[str, _Read]
    outputs: Sequence[str]

    @property
    def given(self) -> tuple[Node, ...]:
        """All nodes that the other runtime is given, in order."""
        return (*self.weights, *self.nodes)


class OpenSession(NamedTuple):
    """Another runtime's session of a model.

    Attributes:
        provider: Who runs it.
        session: The session.
        process: That opened it: in a child of fork() its threads are missing.
    """

    provider: str
    session: Any
    process: int


@dataclass(slots=True, eq=False)
class ForeignModel:
    """Some nodes of a model as a model of their own.

    Attributes:
        proto: Of these nodes alone.
        supplied: Its large constants, which the proto does not hold.
        is_shared: Whether it is for all lengths: then what follows from them is fed.
        opened: The session that runs it; None before there is one.
        is_refused: Whether the other runtime does not take it as it is, for all lengths.
    """

    proto: onnx.ModelProto = field(repr=False)
    supplied: Mapping[str, Array] = field(repr=False)
    is_shared: bool
    opened: OpenSession | None = field(default=None, repr=False)
    is_refused: bool = False

    @classmethod
    def of(
        cls,
        model: onnx.ModelProto,
        nodes: Sequence[Node],
        inputs: Mapping[str, tuple[np.dtype[Any], Sequence[int | None] | None]],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
        is_shared: bool,
    ) -> ForeignModel:
        """Return the model of some nodes of a model, as :func:`~dmlcpu.onnx.models.extraction.extracted` makes it."""
        proto = extracted(model, nodes, inputs, constants, outputs)
        add_guards(proto)
        supplied = {name: np.asarray(array, order="C") for name, array in constants.items() if is_supplied(array)}
        return cls(proto, supplied, is_shared)

    @property
    def num_bytes(self) -> int:
        """How large the model is, with its constants."""
        return int(self.proto.ByteSize()) + sum(array.nbytes for array in self.supplied.values())

    def whole(self) -> onnx.ModelProto:
        """Return the model with all of its constants in it."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        for tensor in proto.graph.initializer:
            if tensor.name in self.supplied:
                tensor.CopyFrom(onnx.numpy_helper.from_array(self.supplied[tensor.name], tensor.name))
        return proto

    def with_constants(self, constants: Mapping[str, Array]) -> ForeignModel:
        """Return the model for some lengths alone: with constants in place of inputs."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        inputs = [value for value in proto.graph.input if value.name not in constants]
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
        proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
        return ForeignModel(proto, self.supplied, is_shared=False)


@dataclass(frozen=True, slots=True, eq=False)
class ForeignPart:
    """Nodes for another runtime.

    Attributes:
        nodes: Those nodes.
        by_reference: Whether onnx's reference evaluator runs them, slowly: onnxruntime takes no arrays of their types,
            such as INT4 or FLOAT8, or is not installed while the nodes are quantized operators.
        reasons: Why no kernel computes them, by the node's name; of some only that they go with the others.
        model: A model of these nodes alone, and of those that dequantize their weights.
        inputs: The values that it is fed, by its own names for them.
        constants: What else it is fed, by its own names: what follows from lengths.
        outputs: Names of the values that it writes.
        conditions: Names of conditions, and what each is where the part runs.
        unfit: Of the first node whose operands do not fit together, what does not; "" if there is none.
    """

    nodes: tuple[Node, ...]
    by_reference: bool
    reasons: Mapping[str, str]
    model: ForeignModel
    inputs: Mapping[str, str]
    constants: Mapping[str, ConstantElements]
    outputs: tuple[str, ...]
    conditions: tuple[tuple[str, bool], ...] = ()
    unfit: str = ""


class ForeignModels:
    """The models of parts, each for all lengths of the inputs: plans share them.

    Attributes:
        misjudged: Names of values that runs have made of other shapes than inference tells.
    """

    def __init__(self) -> None:
        self._models: dict[tuple[Any, ...], ForeignModel] = {}
        self.misjudged: set[str] = set()

    def part(
        self, model: onnx.ModelProto, taken: ForeignNodes[Elements | Passed], independent: Collection[str]
    ) -> ForeignPart:
        """Return a part of onnxruntime's whose model is that of other lengths as well.

        Args:
            model: That the nodes are of.
            taken: The nodes.
            independent: Names of those values that they read which depend on no input, nor on its lengths.
        """
        reads, outputs = taken.reads, tuple(taken.outputs)
        arrays = {name: value for name, value in reads.items() if isinstance(value, np.ndarray) and name in independent}
        fed = {name: value for name, value in reads.items() if name not in arrays}
        types = {name: (value.dtype, _free_lengths(value)) for name, value in fed.items()}
        key = (tuple(node.name for node in taken.given), tuple(types.items()), outputs)
        if key not in self._models:
            self._models[key] = ForeignModel.of(model, taken.given, types, arrays, outputs, is_shared=True)
        tensors = {name: value.name for name, value in fed.items() if isinstance(value, Tensor | Passed)}
        constants = {name: value for name, value in fed.items() if not isinstance(value, Tensor | Passed)}
        return ForeignPart(tuple(taken.nodes), False, taken.reasons, self._models[key], tensors, constants, outputs)


def _free_lengths(value: Elements | Passed) -> tuple[None, ...] | None:
    return None if isinstance(value, Passed) else (None,) * len(value.shape)


def can_be_fed(reads: Reads, independent: Collection[str]) -> bool:
    """Return whether onnxruntime takes arrays of the types that constants of lengths have: of numpy's own."""
    return all(
        isinstance(value, Tensor) or name in independent or value.dtype.type.__module__ == "numpy"
        for name, value in reads.items()
    )


def fixed_part(model: onnx.ModelProto, taken: ForeignNodes[Elements], by_reference: bool) -> ForeignPart:
    """Return a part whose model is for the lengths at hand alone."""
    reads, outputs = taken.reads, tuple(taken.outputs)
    arrays = {name: value.array if isinstance(value, FreeArray) else value for name, value in reads.items()}
    constants = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    inputs = {name: (value.dtype, at_hand(value.shape)) for name, value in arrays.items() if name not in constants}
    fixed = ForeignModel.of(model, taken.given, inputs, constants, outputs, is_shared=False)
    tensors = {name: value.name for name, value in reads.items() if isinstance(value, Tensor)}
    return ForeignPart(tuple(taken.nodes), by_reference, taken.reasons, fixed, tensors, {}, outputs)
