"""Graphs from expressions: the package's functions, called on expressions, add nodes instead of computing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from dmlcpu.bindings import BindingResolver, TensorBinding
from dmlcpu.coercion import coerce_integer, coerce_sequence
from dmlcpu.compiled_operator import operator_attributes, operator_tensors
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device, check_flags, default_device, print_plan
from dmlcpu.enums import ExecutionFlags, TensorFlags
from dmlcpu.errors import BindingError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.connections import check_graph_level
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.placeholders import (
    is_copy_of_placeholder,
    new_placeholder,
    offset_in_placeholder,
    owner_of,
    row_major_runs,
)
from dmlcpu.shown_values import shown
from dmlcpu.tensor import TensorDesc, is_four_bits, span_in_bytes
from dmlcpu.validation import validate_graph_input

__all__ = ["Expression", "GraphBuilder", "expression_of", "input_tensor"]

_Array = np.ndarray[Any, Any]
_MOST_AXES: Final = 8
_LARGEST_INDEX: Final = 2**32 - 1  # DirectML's numbers of inputs have 32 bits


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

    def __reduce__(self) -> Any:
        """Raise TypeError: its expressions know it alone, and a copy would have none."""
        raise TypeError("a GraphBuilder cannot be copied or pickled; add the same nodes to another one")

    @property
    def device(self) -> Device:
        """Where the graph will run."""
        return self._device

    def build(self, flags: ExecutionFlags = ExecutionFlags.NONE, outputs: Sequence[Expression] = ()) -> CompiledGraph:
        """Compile the graph of these outputs; the builder may go on afterwards.

        Operators that no output needs are left out. Inputs are not: all of the builder are to be bound.

        Args:
            flags: None of them changes a result.
            outputs: Expressions, inputs among them if you like; they become ``output_0``, ``output_1``, ..., laid out
                as their descs tell.

        Raises:
            ValueError: There is no output, or a flag is unknown.
            TypeError: An output is no expression, or they are no sequence.
            BindingError: It is one of another builder.
            UnsupportedFeatureLevelError: The device's level has no graphs.
        """
        if isinstance(flags, Expression | Sequence):
            raise TypeError(f"flags: got {shown(flags)}, expected ExecutionFlags: outputs come second, or as outputs=")
        check_flags(flags)
        check_graph_level(self._device)
        if isinstance(outputs, Expression):
            raise TypeError("outputs: got an expression, expected a sequence of them")
        if not isinstance(outputs, Iterable) or isinstance(
            outputs, Mapping | set | frozenset
        ):  # whose order says nothing
            raise TypeError(f"outputs: got {shown(outputs)}, expected a sequence of expressions")
        outputs = tuple(outputs)
        if not outputs:
            raise ValueError("outputs: got none, expected at least one expression")
        for index, expression in enumerate(outputs):
            self._check_own(f"outputs[{index}]", expression)
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
        if type(number) is not int:
            raise TypeError(f"index: got {shown(number)}, expected an integer")
        if not 0 <= number <= _LARGEST_INDEX or number in self._inputs:
            expected = "a number from 0 to 2**32 - 1 that no other input of the graph has"
            raise ValueError(f"index: got {shown(number)}, expected {expected}")
        if not isinstance(desc, TensorDesc):
            raise TypeError(f"desc: got an object of type {type(desc).__name__}, expected a TensorDesc")
        name = f"input_{number}"
        validate_graph_input(name, desc)
        self._inputs.add(number)
        owned = bool(desc.flags & TensorFlags.OWNED_BY_DML)
        value = self._graph.add_constant(desc, None, name) if owned else self._graph.add_input(name, desc)
        return _new_expression(self, value, desc)

    def add_operator(self, desc: OperatorDesc, arrays: Mapping[str, Any]) -> list[Expression]:
        """Check an operator and add it as a node.

        Args:
            desc: Describes it; tensors of arrays that are no expression's are flagged OWNED_BY_DML.
            arrays: The inputs by field: placeholders, or views that begin with them and whose strides are not negative;
                and arrays, which are copied and become constants. A sequence for a field that is an array of tensors.

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
        resolver = BindingResolver(name, tensors)
        arrays = resolver.by_entry(arrays)
        for field, array in arrays.items():
            if isinstance(array, Expression):
                raise _error(name, field, "an expression", "its placeholder()")
            if is_copy_of_placeholder(array):
                raise _error(name, field, "a copy of a placeholder", "a view of it")
        bound = resolver.inputs(arrays)
        inputs = [
            None if array is None else self._value(name, tensor, array)
            for tensor, array in zip(tensors, bound, strict=False)  # inputs come first
        ]
        outputs = [tensor.desc for tensor in tensors if tensor.output and tensor.desc is not None]
        values = self._graph.add_node(name, inputs, outputs, operator_attributes(desc))
        return [_new_expression(self, value, output) for value, output in zip(values, outputs, strict=True)]

    def add_reshape(self, expression: Expression, sizes: Sequence[int]) -> Expression:
        """See ``Expression.reshape``.

        Raises:
            ValueError: There are not as many elements, or the sizes are none of a tensor.
            TypeError: It is no expression.
            BindingError: It is one of another builder.
        """
        self._check_own("expression", expression)
        asked = coerce_sequence(sizes)
        lengths = (1,) if asked == () else asked
        given = tuple(expression.desc.sizes)
        if not _are_sizes(lengths) or prod(lengths) != prod(given):
            expected = f"1 to {_MOST_AXES} positive integers for {prod(given)} elements"
            raise ValueError(f"sizes: got {shown(asked)}, expected {expected}")
        if lengths == given:
            return expression
        desc = TensorDesc(expression.desc.data_type, lengths)
        return _new_expression(self, self._graph.add_view("RESHAPE", [expression.value], lengths), desc)

    def _check_own(self, argument: str, expression: Expression) -> None:
        if not isinstance(expression, Expression):
            raise TypeError(f"{argument}: got {shown(expression)}, expected an expression of this builder")
        if expression.builder is not self:
            got = "an expression of another GraphBuilder"
            raise BindingError(f"{argument}: got {got}, expected an expression of this builder", argument)

    def _value(self, operator_name: str, tensor: TensorBinding, array: _Array) -> int:
        """Return the value that an array, which fits its tensor, stands for."""
        desc = tensor.desc
        assert desc is not None
        expression = expression_of(array)
        if expression is not None:
            if (misfit := self._misfit(expression, desc, array)) is not None:
                raise _error(operator_name, tensor.name, *misfit)
            return self._seen_as(expression, desc)
        return self._graph.add_constant(desc, tensor.flat_copy(array))  # the caller may write to it before build

    def _misfit(self, expression: Expression, desc: TensorDesc, view: _Array) -> tuple[str, str] | None:
        """Return what a view of a placeholder is that no tensor of the graph can be, and what it should be."""
        if expression.builder is not self:
            return "an expression of another GraphBuilder", "one of this: a graph has one builder"
        if is_four_bits(expression.desc.data_type) and not is_four_bits(desc.data_type):
            return f"elements of {expression.desc.data_type.name}", "elements of at least a byte"
        offset, size, given = offset_in_placeholder(view), span_in_bytes(desc), span_in_bytes(expression.desc)
        if offset != 0 or size > given:
            got = f"{size} bytes from byte {offset} of a placeholder on"
            return got, f"a view of its {given} bytes that begins with the first"
        return None

    def _seen_as(self, expression: Expression, desc: TensorDesc) -> int:
        """Return the memory of an expression as another tensor, by its elements if these are in the same order."""
        given = expression.desc
        order = row_major_runs(given.sizes, given.element_strides)
        if given.data_type == desc.data_type:
            if tuple(given.sizes) == tuple(desc.sizes) and row_major_runs(desc.sizes, desc.element_strides) == order:
                return expression.value
            # Axes of stride 0 are repeated.
            core = [1 if step == 0 else size for size, step in zip(desc.sizes, desc.element_strides, strict=True)]
            if row_major_runs(core, desc.element_strides) == order:
                value = self._graph.add_view("RESHAPE", [expression.value], core)
                return value if core == [*desc.sizes] else self._graph.add_view("EXPAND", [value], desc.sizes)
        return self._graph.reinterpret(expression.value, desc)


def _are_sizes(value: Any) -> bool:
    return (
        isinstance(value, tuple) and len(value) <= _MOST_AXES and all(type(size) is int and size > 0 for size in value)
    )


def _error(operator_name: str, field: str, got: str, expected: str) -> BindingError:
    return BindingError(f"{operator_name}: {field}: got {got}, expected {expected}", field)


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
    builder: GraphBuilder
    value: int
    desc: TensorDesc

    # numpy's operators must not take an expression apart.
    __array_ufunc__ = None

    if not TYPE_CHECKING:  # to whom all names would be there, and an expression were an array

        def __array__(self, *args: object, **kwargs: object) -> NoReturn:
            """Raise TypeError: numpy would make an array of one object."""
            told = "expression.placeholder() is an array of its shape, for views"
            raise TypeError(f"an expression has no elements; {told}")

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError."""
            field = _FIELDS_BY_ATTRIBUTE.get(name)
            told = f"; expression.desc.{field} tells it" if field else ""
            if not told and hasattr(np.ndarray, name) and name[0] != "_":
                told = "; views are made of expression.placeholder(), and functions of dmlcpu compute"
            raise AttributeError(f"an Expression has no attribute {name!r}{told}", name=name, obj=self)

    def __new__(cls, *args: object, **kwargs: object) -> Expression:
        """Raise TypeError: a builder alone knows the numbers of its tensors."""
        raise TypeError("expressions are made by input_tensor and by functions of expressions, not by their class")

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: what a graph will compute is what has been asked for."""
        raise AttributeError(f"cannot set {name!r}: an expression does not change", name=name)

    def __repr__(self) -> str:
        """Return the desc behind the word."""
        return f"Expression({self.desc!r})"

    def __reduce__(self) -> Any:
        """Raise TypeError: an expression is of its builder alone."""
        raise TypeError("an Expression cannot be copied or pickled; it is of its builder alone")

    def reshape(self, sizes: Sequence[int]) -> Expression:
        """Return the same elements in row-major order with other sizes; none at all count as one of 1.

        Raises:
            ValueError: There are not as many elements, or the sizes are none of a tensor.
        """
        return self.builder.add_reshape(self, sizes)

    def placeholder(self) -> _Array:
        """Return an array that lies in memory as the expression will, for shapes to be worked out on. Never read.

        Its views stand for the same elements: transposed, with other sizes, repeated, or some of them from the first
        one on. Functions take them in place of expressions, which is the way to transpose. A copy stands for nothing
        and is refused, but for what nothing can tell from other arrays: copies by ``np.array`` or
        ``np.ascontiguousarray``, and what ``np.from_dlpack`` or ``np.asarray`` of a ``memoryview`` make, are zeros.

        It is made anew each time: arrays take no part in the search for cycles, so that one kept here, which knows the
        expression, would keep the builder with all of its constants forever.

        >>> from dmlcpu import TensorDataType, dequantize_linear
        >>> builder = GraphBuilder()
        >>> codes = input_tensor(builder, 0, TensorDesc(TensorDataType.UINT8, (2, 3)))
        >>> graph = builder.build(ExecutionFlags.NONE, [dequantize_linear(codes.placeholder().T, 0.5)])
        >>> graph.dispatch(input_0=np.uint8([[0, 1, 2], [3, 4, 5]]))
        array([[0. , 1.5],
               [0.5, 2. ],
               [1. , 2.5]], dtype=float32)
        """
        return new_placeholder(self, self.desc)


# What arrays tell, by the field of a desc that tells it of an expression.
_FIELDS_BY_ATTRIBUTE: Final = {"dtype": "data_type", "shape": "sizes", "strides": "element_strides"}


def _new_expression(builder: GraphBuilder, value: int, desc: TensorDesc) -> Expression:
    expression = object.__new__(Expression)
    for field, entry in (("builder", builder), ("value", value), ("desc", desc)):
        object.__setattr__(expression, field, entry)
    return expression


def expression_of(array: object) -> Expression | None:
    """Return the expression of whose placeholder an array is a view."""
    expression: Expression | None = owner_of(array)
    return expression


def input_tensor(builder: GraphBuilder, index: int, desc: TensorDesc) -> Expression:
    """Return an input of a graph, bound as ``input_<index>``; at ``initialize`` if it is flagged OWNED_BY_DML.

    Raises:
        ValueError: The index is negative, above 2**32 - 1, or taken.
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
