"""From the nodes of a model to native graphs, for given shapes of its inputs.

Nodes are met one after the other. A rule (``dmlcpu.onnx.rules``) takes the values of a node's inputs and returns those
of its outputs, adding operators to the native graph of the current partition where something has to be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np

from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32
from dmlcpu.functions.element_wise import quantize_linear
from dmlcpu.graph.native_graph import Attributes
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, Constant, ConstantElements, broadcast_to, constant_by
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.native_partition import NativePartition, check_tensor
from dmlcpu.onnx.parameters import ParameterKey, Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.use_counts import UseCounts
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Computed, Deferred, Elements, Operand, Table, Tensor, Value

__all__ = ["Lowering", "Rule", "quantize"]

_Made = TypeVar("_Made")

# Attributes have 64 bits.
_INT64_END = 1 << 63
# Of so few a copy takes less time than compiling an operator does.
_FEW_FLOATS: Final = 1 << 14
# What is computed when somebody reads it.
_LATER: Final = (Deferred, Table)


class Lowering:
    """The native graphs under construction, and the operators that rules add to the last of them.

    What has been computed for one node is there for others: the floats, the codes and the transpose of a value in later
    partitions too, which import them; other shapes of it, and what ``once`` makes, in the same partition alone.

    Attributes:
        device: Where the graphs will run.
        partitions: One with each graph, in the order in which they run.
        partition: The last one.
        node: The node that what is added comes from; it names that.
        uses: Of the model's values.
    """

    def __init__(self, device: Device, uses: UseCounts) -> None:
        self.device, self.uses = device, uses
        self.partition = NativePartition(0)
        self.partitions = [self.partition]
        self.node: Node | None = None
        self._makers: dict[Value, Node] = {}
        self._floats: dict[Table, Tensor] = {}
        self._codes: dict[Value, dict[ParameterKey, Elements]] = {}
        self._pairs: dict[ParameterKey, tuple[Array, Array]] = {}
        self._sources: dict[Tensor, tuple[Tensor, Array]] = {}
        self._unshaped: dict[Tensor, Tensor] = {}
        self._transposed: dict[Tensor, Tensor] = {}
        self._shared: dict[tuple[Any, ...], Any] = {}
        self._made = 0

    def close(self) -> None:
        """Forget what values came to, of which many hold the lowering.

        Else all of it, weights included, would be there until the next garbage collection that is thorough enough.
        """
        for made in (self._makers, self._floats, self._codes, self._shared):
            made.clear()

    def begin_partition(self) -> None:
        """Go on with an empty graph."""
        self.partition = NativePartition(len(self.partitions))
        self.partitions.append(self.partition)
        self._shared = {}

    def made_by(self, node: Node, value: Value) -> None:
        """Take note that a value is what a node makes, unless it was there before: what computes it is of that node."""
        if isinstance(value, _LATER):
            self._makers.setdefault(value, node)

    def goes_on(self, source: Value, value: Value) -> None:
        """Take note that a value, in place of another one, is what the other one's node makes."""
        if source in self._makers:
            self._makers[value] = self._makers[source]

    def forms(self, value: Value) -> int:
        """Return in how many forms, floats or codes of some parameters, what a value's node makes is read."""
        maker = self._makers.get(value)
        return 1 if maker is None else self.uses.forms(maker.outputs[0])

    def _for(self, value: Value, compute: Callable[..., _Made], *arguments: Any) -> _Made:
        """Return what a function makes, which computes a value: what it adds is of the node that made the value."""
        reader = self.node
        self.node = self._makers.get(value, reader)
        try:
            return compute(*arguments)
        finally:
            self.node = reader

    def once(self, values: Sequence[Value], make: Callable[..., _Made], *numbers: Any) -> _Made:
        """Return what a function makes of values and numbers, made once for all nodes, such as those of all layers.

        Args:
            values: Told apart as objects.
            make: Takes the lowering, the values and the numbers.
            numbers: Hashable; or lengths that may be known only later.
        """
        of_lengths = (("length", number.place) if isinstance(number, Derived) else number for number in numbers)
        key = (make, *values, *of_lengths)
        if key not in self._shared:
            self._shared[key] = make(self, *values, *numbers)
        made: _Made = self._shared[key]
        return made

    def constant_once(self, function: Callable[..., Array], *arguments: Any) -> Constant:
        """Return the array that a function makes of arguments as ``once`` takes them, made once for all nodes."""
        return self.once([], _constant_by, function, *arguments)

    def number(self, operand: Elements | None) -> int | None:
        """Return the number that an operand has in the current graph; None if it is absent."""
        if operand is None:
            return None
        if not isinstance(operand, Tensor):
            return self.partition.constant_number(operand)
        [known] = self.partition.known_numbers([operand])
        if known is not None:
            return known
        self.export(operand)
        return self.partition.add_import(operand)

    def export(self, tensor: Tensor) -> None:
        """Let others read a value of the partition that computes it, if one does."""
        if tensor.partition >= 0:
            self.partitions[tensor.partition].exported[tensor.name] = tensor

    def tensor(self, number: int, dtype: np.dtype[Any] | type[np.generic], shape: Sequence[int]) -> Tensor:
        """Return a value of the current graph under a name that no other has."""
        self._made += 1
        return Tensor(self.partition.index, number, f"dmlcpu:{self._made}", np.dtype(dtype), tuple(shape))

    def emit(
        self,
        type: str,
        inputs: Sequence[Operand],
        dtype: np.dtype[Any] | type[np.generic],
        shape: Sequence[int],
        attributes: Attributes | None = None,
    ) -> Tensor:
        """Add an operator with one output; see ``emit_several``."""
        [value] = self._added(type, inputs, [(dtype, shape)], attributes)
        return self.tensor(value, dtype, shape)

    def emit_several(
        self,
        type: str,
        inputs: Sequence[Operand],
        outputs: Sequence[tuple[Any, Sequence[int]]],
        attributes: Attributes | None = None,
    ) -> list[Tensor]:
        """Add an operator, or a view, by its native name.

        Raises:
            NotNative: Tensors or attributes are none that a kernel takes; nothing has been added, exported or imported.
        """
        made = self._added(type, inputs, outputs, attributes)
        return [self.tensor(value, *output) for value, output in zip(made, outputs, strict=True)]

    def _added(
        self,
        type: str,
        inputs: Sequence[Operand],
        outputs: Sequence[tuple[Any, Sequence[int]]],
        attributes: Attributes | None,
    ) -> Sequence[int]:
        """Add an operator; return the numbers of its outputs. See ``emit_several``."""
        partition = self.partition
        operands = [operand.elements() if isinstance(operand, Constant) else operand for operand in inputs]
        numbers = partition.known_numbers(operands)
        are_known = None not in numbers
        if not are_known:
            for operand, number in zip(operands, numbers, strict=True):
                if number is None and operand is not None:
                    check_tensor(operand.dtype, operand.shape)
        if attributes and not all(map(_fit, attributes.values())):
            raise NotNative("an attribute of more than 64 bits")
        descs = [partition.desc(dtype, shape) for dtype, shape in outputs]
        if not are_known:
            numbers = [
                self.number(operand) if number is None else number
                for operand, number in zip(operands, numbers, strict=True)
            ]
        name = "" if self.node is None else self.node.name
        return partition.graph.add_node(type, numbers, descs, attributes, name)

    def pair(self, parameters: Parameters) -> tuple[Array, Array]:
        """Return scale and zero point as arrays of one element: constants that all who have the same ones share."""
        key = parameters.key
        if key not in self._pairs:
            self._pairs[key] = _scalar_parameters(parameters)
        return self._pairs[key]

    def reshaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the elements of a tensor in row-major order with another shape."""
        source = self.unshaped(tensor)
        for known in (tensor, source):
            if known.shape == tuple(shape):
                return known
        result = self.emit("RESHAPE", [source], tensor.dtype, shape)
        self._unshaped[result] = source
        return result

    def unshaped(self, tensor: Tensor) -> Tensor:
        """Return the tensor that this one is a reshape of, in the shape that it was computed in; else the tensor."""
        source = self._unshaped.get(tensor, tensor)
        return source if source.partition == self.partition.index else tensor

    def transposed(self, matrix: Tensor) -> Tensor:
        """Return a matrix transposed; each is transposed once, and a transposed one gives the matrix it was made of."""
        if matrix not in self._transposed:
            result = self.emit("TRANSPOSE", [matrix], matrix.dtype, matrix.shape[::-1], {"permutation": (1, 0)})
            self._transposed[matrix], self._transposed[result] = result, matrix
        return self._transposed[matrix]

    def expanded(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Return a tensor broadcast to a shape, as numpy does."""
        aligned = self.reshaped(tensor, (*(1,) * (len(shape) - len(tensor.shape)), *tensor.shape))
        return aligned if aligned.shape == tuple(shape) else self.emit("EXPAND", [aligned], tensor.dtype, shape)

    def elements(self, value: Value) -> Elements:
        """Return what :meth:`floats` does, also where a constant is known only later."""
        return value.elements() if isinstance(value, CONSTANTS) else self.floats(value)

    @overload
    def floats(self, value: Computed) -> Tensor: ...

    @overload
    def floats(self, value: Value) -> Tensor | Array: ...

    def floats(self, value: Value) -> Tensor | Array:
        """Return a value in floating point, or whatever type it has, computed: a tensor or a constant array."""
        if isinstance(value, CONSTANTS):
            return value.array
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Deferred):
            return self._for(value, value.computed)
        if value not in self._floats:  # several nodes may read the same floats, in later partitions too
            self._floats[value] = self._for(value, self._dequantized, value)
        return self._floats[value]

    def _dequantized(self, table: Table) -> Tensor:
        if not isinstance(table, AffineTable):
            return self.emit("FLOAT_TABLE", [table.codes, table.floats], FLOAT32, table.shape)
        scale, zero_point = self.pair(table.parameters)
        inputs: list[Operand] = [table.codes, repeated(scale, table.shape), repeated(zero_point, table.shape)]
        return self.emit("ELEMENT_WISE_DEQUANTIZE_LINEAR", inputs, FLOAT32, table.shape)

    @overload
    def quantized(self, value: Computed, parameters: Parameters) -> Tensor: ...

    @overload
    def quantized(self, value: Value, parameters: Parameters) -> Elements: ...

    def quantized(self, value: Value, parameters: Parameters) -> Elements:
        """Return a value as codes: a tensor or a constant array, which may be known only later."""
        key, made = parameters.key, self._codes.setdefault(value, {})  # several nodes may want the same codes
        if key not in made:
            others = made.get(parameters.of_other_sign.key) if made else None
            codes = self.with_other_sign(others) if isinstance(others, Tensor) else self._quantized(value, parameters)
            made[key] = codes
        return made[key]

    def has_codes(self, value: Value, parameters: Parameters) -> bool:
        """Whether :meth:`quantized` has been asked for these codes."""
        return parameters.key in self._codes.get(value, ())

    def with_other_sign(self, codes: Tensor) -> Tensor:
        """Return UINT8 codes as INT8 ones, 128 less each, or the other way round."""
        dtype = np.uint8 if codes.dtype == np.int8 else np.int8
        return self.code_table(codes, (np.arange(256, dtype=np.uint8) ^ 0x80).view(dtype))

    def _quantized(self, value: Value, parameters: Parameters) -> Elements:
        if isinstance(value, CONSTANTS):
            return constant_by(quantize, value.source, parameters).elements()
        if isinstance(value, Table):
            return self._for(value, self.recoded, value, parameters)
        if isinstance(value, Deferred) and not value.has_floats:  # else these are quantized in less time
            codes = self._for(value, value.quantized, parameters)
            if codes is not None:
                return codes
        return self._quantized_floats(self.floats(value), parameters)

    def _quantized_floats(self, value: Tensor, parameters: Parameters) -> Tensor:
        """Return floats, or sums in INT32, that have been computed as codes."""
        scale, zero_point = self.pair(parameters)
        inputs: list[Operand] = [value, repeated(scale, value.shape), repeated(zero_point, value.shape)]
        return self.emit("ELEMENT_WISE_QUANTIZE_LINEAR", inputs, parameters.dtype, value.shape)

    def recoded(self, table: Table, parameters: Parameters) -> Tensor:
        """Return the codes of a function of codes: the codes themselves if it changes none, else through a table."""
        if isinstance(table, AffineTable) and table.parameters == parameters and parameters.keeps_codes:
            return table.codes
        codes = quantize(table.floats, parameters)
        if table.codes.dtype == parameters.dtype and np.array_equal(codes.view(np.uint8), np.arange(256)):
            return table.codes
        return self.code_table(table.codes, codes)

    def code_table(self, codes: Tensor, results: Array) -> Tensor:
        """Return a function of codes, told by the byte of each, as codes.

        They are looked up in the shape that they were computed in: the layout that they had there stays theirs.
        """
        source = self.unshaped(codes)
        computed = self.emit("CODE_TABLE", [source, results.view(np.uint8)], results.dtype, source.shape)
        tensor = self.reshaped(computed, codes.shape)
        self._sources[tensor] = codes, results.view(np.uint8)
        return tensor

    def origins(self, table: Table) -> Iterator[Table]:
        """Yield a function of codes as what it is of these codes, then of those that they are a function of, ..."""
        yield table
        while table.codes in self._sources:
            source, results = self._sources[table.codes]
            table = Table(source, table.floats[results])
            yield table

    def affine(self, value: Value) -> AffineTable:
        """Return a value as dequantized codes.

        Raises:
            NotNative: It is no such value.
        """
        if isinstance(value, AffineTable):
            return value
        raise NotNative("an operand is not quantized per tensor to 8 bits")


def _constant_by(lowering: Lowering, function: Callable[..., Array], *arguments: Any) -> Constant:
    return constant_by(function, *arguments)


def _fit(entries: Sequence[int] | Derived) -> bool:
    """Return whether integers have 64 bits. Lengths that are known only later are not compared with each other."""
    if isinstance(entries, Derived):  # indices
        return True
    return all([-_INT64_END <= entry < _INT64_END for entry in entries])


def _scalar_parameters(parameters: Parameters) -> tuple[Array, Array]:
    """Return scale and zero point as arrays of one element that nobody writes to, nor to views of them."""
    scale, zero_point = np.array([parameters.scale], np.float32), np.array([parameters.zero_point], parameters.dtype)
    scale.flags.writeable = zero_point.flags.writeable = False
    return scale, zero_point


def repeated(parameter: Array, shape: Sequence[int]) -> ConstantElements:
    """Return a view of an array of one element with another shape, all strides 0."""
    return broadcast_to(parameter.reshape(()), shape)


def quantize(floats: Array, parameters: Parameters) -> Array:
    """Return the codes of an array of floats."""
    if not floats.size:
        return np.zeros(floats.shape, parameters.dtype)
    scale, zero_point = _scalar_parameters(parameters)
    array = np.ascontiguousarray(floats, np.float32).reshape(-1)
    if array.size < _FEW_FLOATS:
        # For each length an operator is compiled, and texts have one of every length: they are brought to powers of 2.
        array = np.concatenate([array, np.zeros((1 << array.size.bit_length()) - array.size, np.float32)])
    codes: Array = np.asarray(quantize_linear(array, scale, zero_point))[: floats.size].reshape(floats.shape)
    return codes


Rule: TypeAlias = Callable[[Lowering, Node, Sequence[Value | None]], Sequence[Value]]
"""Lowers a node, given the values of its inputs; returns those of its outputs.

Raises NotNative before it adds anything, where no kernel does what the node asks for.
"""
