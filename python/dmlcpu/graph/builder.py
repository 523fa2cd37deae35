"""Graphs from expressions: the package's functions, called on expressions, add nodes instead of computing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dmlcpu.bindings import BindingResolver, TensorBinding
from dmlcpu.coercion import coerce_integer
from dmlcpu.compiled_operator import operator_attributes, operator_tensors
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device, check_flags, default_device, print_plan
from dmlcpu.enums import ExecutionFlags, TensorFlags
from dmlcpu.errors import BindingError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.connections import check_graph_level
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.tensor import TensorDesc, dtype_of, is_four_bits, span_in_elements
from dmlcpu.validation import validate_graph_input

__all__ = ["Expression", "GraphBuilder", "expression_of", "input_tensor"]

_Array = np.ndarray[Any, Any]
_BYTE = np.dtype(np.uint8)


class GraphBuilder:
    """Gathers the nodes of a graph.

    Args:
        device: Checks every operator and compiles the graph; by default ``default_device()``.

    >>> import dmlcpu
    >>> from dmlcpu import TensorDataType, TensorDesc
    >>> builder = GraphBuilder()
    >>> x = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (4,)))
    >>> codes = dmlcpu.quantize_linear(x, 0.5, 128)
    >>> graph = builder.build(dmlcpu.ExecutionFlags.NONE, [codes])
    >>> graph.dispatch(input_0=np.float32([-1, 0, 0.25, 99]))
    array([126, 128, 128, 255], dtype=uint8)
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = default_device() if device is None else device
        if not isinstance(self._device, Device):
            raise TypeError(f"device: got an object of type {type(device).__name__}, expected a dmlcpu.Device or None")
        self._graph = NativeGraph()
        self._inputs: set[int] = set()

    @property
    def device(self) -> Device:
        """Where the graph will run."""
        return self._device

    def build(self, flags: ExecutionFlags, outputs: Sequence[Expression]) -> CompiledGraph:
        """Compile the graph of these outputs; the builder may go on afterwards.

        Operators that no output needs are left out. Inputs are not: all of the builder are to be bound.

        Args:
            flags: None of them changes a result.
            outputs: Expressions; they become ``output_0``, ``output_1``, ..., laid out as their descs tell.

        Raises:
            ValueError: There is no output, or a flag is unknown.
            TypeError: An output is no expression of this builder.
            UnsupportedFeatureLevelError: The device's level has no graphs.
        """
        check_flags(flags)
        check_graph_level(self._device)
        if isinstance(outputs, Expression):
            raise TypeError("outputs: got an expression, expected a sequence of them")
        outputs = tuple(outputs)
        if not outputs:
            raise ValueError("outputs: got none, expected at least one expression")
        for index, expression in enumerate(outputs):
            if not isinstance(expression, Expression) or expression.builder is not self:
                raise TypeError(f"outputs[{index}]: expected an expression of this builder, got {expression!r}")
        graph, numbers = self._graph.reaching(expression.value for expression in outputs)
        for index, expression in enumerate(outputs):
            desc = replace(expression.desc, flags=TensorFlags.NONE)
            graph.mark_output(numbers[expression.value], f"output_{index}", desc)
        compiled = CompiledGraph(self._device, graph)
        print_plan(compiled)
        return compiled

    def add_input(self, index: int, desc: TensorDesc) -> Expression:
        """See ``input_tensor``."""
        number = coerce_integer(index)
        if type(number) is not int or number < 0 or number in self._inputs:
            raise ValueError(f"index: got {index!r}, expected a number that no other input of the graph has")
        if not isinstance(desc, TensorDesc):
            raise TypeError(f"desc: got an object of type {type(desc).__name__}, expected a TensorDesc")
        name = f"input_{number}"
        validate_graph_input(name, desc)
        self._inputs.add(number)
        owned = bool(desc.flags & TensorFlags.OWNED_BY_DML)
        value = self._graph.add_constant(desc, None, name) if owned else self._graph.add_input(name, desc)
        return Expression(self, value, desc)

    def add_operator(self, desc: OperatorDesc, arrays: Mapping[str, Any]) -> list[Expression]:
        """Check an operator and add it as a node.

        Args:
            desc: Describes it; tensors of arrays that are no expression's are flagged OWNED_BY_DML.
            arrays: The inputs by field: views of placeholders, and arrays, which are copied and become constants.

        Returns:
            Its outputs.

        Raises:
            InvalidDescError, UnsupportedFeatureLevelError: The operator is refused.
            BindingError: An array is missing, unknown or does not fit, or its expression is of another builder.
        """
        operator = self._device.create_operator(desc)
        if not isinstance(arrays, Mapping):
            raise TypeError(f"arrays: got an object of type {type(arrays).__name__}, expected a mapping of fields")
        name, tensors = operator.type.name, operator_tensors(desc)
        for field, array in arrays.items():
            if isinstance(array, Expression):
                raise BindingError(f"{name}: {field}: got an expression, expected its placeholder()", field)
        bound = BindingResolver(name, tensors).inputs(arrays)
        inputs = [
            None if array is None else self._value(name, tensor, array)
            for tensor, array in zip(tensors, bound, strict=False)  # inputs come first
        ]
        outputs = [tensor.desc for tensor in tensors if tensor.output and tensor.desc is not None]
        values = self._graph.add_node(name, inputs, outputs, operator_attributes(desc))
        return [Expression(self, value, output) for value, output in zip(values, outputs, strict=True)]

    def add_reshape(self, expression: Expression, sizes: Sequence[int]) -> Expression:
        """See ``Expression.reshape``."""
        desc = TensorDesc(expression.desc.data_type, sizes)
        return Expression(self, self._graph.add_view("RESHAPE", [expression.value], sizes), desc)

    def _value(self, operator_name: str, tensor: TensorBinding, array: _Array) -> int:
        """Return the value that an array, which fits its tensor, stands for."""
        desc = tensor.desc
        assert desc is not None
        expression = expression_of(array)
        if expression is None:
            return self._graph.add_constant(desc, tensor.flat_copy(array))  # the caller may write to it before build
        if expression.builder is not self:
            got, expected = "an expression of another GraphBuilder", "one of this: a graph has one builder"
            raise BindingError(f"{operator_name}: {tensor.name}: got {got}, expected {expected}", tensor.name)
        if expression.desc.data_type != desc.data_type:  # packed bytes, seen as the elements in them
            return self._graph.reinterpret(expression.value, desc)
        if tuple(expression.desc.sizes) == tuple(desc.sizes):
            return expression.value
        # numpy repeated and reshaped the placeholder: axes of stride 0 are repeated.
        core = [1 if stride == 0 else size for size, stride in zip(array.shape, array.strides, strict=True)]
        if 0 in expression.desc.element_strides or prod(core) != prod(expression.desc.sizes):
            return self._graph.reinterpret(expression.value, desc)
        value = self._graph.add_view("RESHAPE", [expression.value], core)
        return value if tuple(core) == array.shape else self._graph.add_view("EXPAND", [value], array.shape)


class Expression:
    """A tensor that a graph will compute. Made by ``input_tensor`` and by the functions, called on expressions.

    Attributes:
        builder: The graph that it belongs to.
        value: Its number there.
        desc: Its data type, sizes and strides.

    >>> from dmlcpu import TensorDataType, dequantize_linear
    >>> codes = input_tensor(GraphBuilder(), 0, TensorDesc(TensorDataType.UINT8, (2, 3)))
    >>> dequantize_linear(codes, 0.5)
    Expression(TensorDesc(TensorDataType.FLOAT32, (2, 3)))
    >>> dequantize_linear(codes, 0.5).reshape((6,)).desc.sizes
    (6,)
    """

    __slots__ = ("builder", "desc", "value")

    # numpy's operators must not take an expression apart.
    __array_ufunc__ = None

    def __init__(self, builder: GraphBuilder, value: int, desc: TensorDesc) -> None:
        self.builder, self.value, self.desc = builder, value, desc

    def __repr__(self) -> str:
        """Return the desc behind the word."""
        return f"Expression({self.desc!r})"

    def reshape(self, sizes: Sequence[int]) -> Expression:
        """Return the same elements in row-major order with other sizes; none at all count as one of 1.

        Raises:
            ValueError: There are not as many elements.
        """
        lengths = tuple(sizes) or (1,)
        if lengths == tuple(self.desc.sizes):
            return self
        if prod(lengths) != prod(self.desc.sizes) or min(lengths) < 1:
            raise ValueError(f"sizes: got {lengths}, expected {prod(self.desc.sizes)} elements")
        return self.builder.add_reshape(self, lengths)

    def placeholder(self) -> _Array:
        """Return an array that lies in memory as the expression will, for shapes to be worked out on. Never read.

        It is made anew each time: arrays take no part in the search for cycles, so that one kept here, which knows the
        expression, would keep the builder with all of its constants forever.

        Raises:
            TypeError: The elements have 4 bits, and ml_dtypes is not installed.
        """
        # The interface of arrays cannot name 4-bit types.
        return np.asarray(_Placeholder(self)).view(dtype_of(self.desc.data_type))


class _Placeholder:
    """The memory behind the placeholder of an expression; the base of every view of it."""

    def __init__(self, expression: Expression) -> None:
        desc = expression.desc
        dtype = _BYTE if is_four_bits(desc.data_type) else dtype_of(desc.data_type)
        self.expression = expression
        self._memory = np.empty(span_in_elements(desc.sizes, desc.strides), dtype)
        strides = tuple(stride * dtype.itemsize for stride in desc.element_strides)
        self.__array_interface__ = {**self._memory.__array_interface__, "shape": tuple(desc.sizes), "strides": strides}


def expression_of(array: object) -> Expression | None:
    """Return the expression of whose placeholder an array is a view."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.expression if isinstance(array, _Placeholder) else None


def input_tensor(builder: GraphBuilder, index: int, desc: TensorDesc) -> Expression:
    """Return an input of a graph, bound as ``input_<index>``; at ``initialize`` if it is flagged OWNED_BY_DML.

    Raises:
        ValueError: The index is negative or taken.
        InvalidDescError: The desc is none of a tensor.
        TypeError: An argument is of another type.

    >>> from dmlcpu import TensorDataType, dequantize_linear
    >>> builder = GraphBuilder()
    >>> codes = input_tensor(builder, 0, TensorDesc(TensorDataType.UINT8, (2,)))
    >>> scale = input_tensor(builder, 1, TensorDesc(TensorDataType.FLOAT32, (1,), flags=TensorFlags.OWNED_BY_DML))
    >>> graph = builder.build(ExecutionFlags.NONE, [dequantize_linear(codes, scale)])
    >>> graph.initialize(input_1=np.float32([0.5]))
    >>> graph.dispatch(input_0=np.uint8([1, 2]))
    array([0.5, 1. ], dtype=float32)
    """
    if not isinstance(builder, GraphBuilder):
        raise TypeError(f"builder: got an object of type {type(builder).__name__}, expected a GraphBuilder")
    return builder.add_input(index, desc)
