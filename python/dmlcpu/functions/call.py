"""One call of a function: its operator is found or compiled for arrays as they lie in memory, and run on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dmlcpu.coercion import coerce_integer
from dmlcpu.compiled_operator import CompiledOperator
from dmlcpu.device import Device, default_device
from dmlcpu.enums import TensorDataType, TensorFlags
from dmlcpu.errors import BindingError, InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.functions.argument_names import argument_of, output_names
from dmlcpu.functions.error_messages import told_by_arguments
from dmlcpu.functions.layout import Layout, PackedArray, layout_of, new_array
from dmlcpu.functions.shaped_arguments import ShapedArguments
from dmlcpu.graph.builder import Expression, GraphBuilder, expression_of
from dmlcpu.schema import place_of
from dmlcpu.tensor import TensorDesc, data_type_of

__all__ = ["FunctionCall"]


@dataclass(frozen=True, slots=True)
class FunctionCall(ShapedArguments):
    """One call of a function: its arguments, and its operator's run on what they became.

    Attributes:
        device: Where it runs; None for the default device.
        dispatched: What it ended in, once it has: the operator, and what was bound, by field.
    """

    device: Device | None
    dispatched: list[tuple[CompiledOperator, Mapping[str, Any]]] = field(default_factory=list, init=False)

    def run(self, arrays: Mapping[str, Any], **attributes: Any) -> Any:
        """Dispatch the operator on arrays, one for each tensor of its desc, outputs too; None where one is absent.

        The operator is created and compiled once for arrays of these types and layouts, and found again afterwards.
        Where an array is the placeholder of an expression, the operator becomes a node of its graph.

        Returns:
            The output, or a named tuple of several. A new one that should have no axes has one of length 1.

        Raises:
            BindingError: What is given for an array is not one, or it lies in memory as no desc can say.
            InvalidDescError, UnsupportedFeatureLevelError: The operator is refused; the message names arguments.
            TypeError: The device is neither None nor a ``Device``.
        """
        try:
            return self._run(arrays, attributes)
        except (BindingError, InvalidDescError, UnsupportedFeatureLevelError) as error:
            if str(error).startswith(f"{self.function}: "):
                raise
            raise told_by_arguments(error, self.function, self.desc_type.operator_type, arrays, attributes) from None

    def _run(self, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        if (expression := next(filter(None, map(_expression_of, arrays.values())), None)) is not None:
            return self._record(expression.builder, arrays, attributes)
        layouts = tuple((name, None if array is None else self._layout(name, array)) for name, array in arrays.items())
        device = default_device() if self.device is None else self.device
        if not isinstance(device, Device):
            got = f"an object of type {type(device).__name__}"
            raise TypeError(f"{self.function}: device: got {got}, expected a dmlcpu.Device or None")
        values = tuple((name, coerce_integer(value)) for name, value in attributes.items())
        # Only integers may be looked up: 1.0, which the checks refuse, equals 1, which they may have accepted.
        compile_operator = _compiled if all(_is_plain(value) for _, value in values) else _compile
        compiled = compile_operator(device, self.desc_type, layouts, values)
        bindings = {name: _binding(array) for name, array in arrays.items()}
        result = compiled.dispatch(**_gathered(bindings.items()))
        self.dispatched.append((compiled, bindings))
        return result

    def _record(self, builder: GraphBuilder, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """Add the operator to a graph; arrays that are no expression's become constants."""
        if self.device is not None and self.device != builder.device:
            raise self.error("device", repr(self.device), f"None, or the graph's {builder.device!r}")
        tensors: dict[str, TensorDesc | None] = {}
        for name, array in arrays.items():
            if array is None:
                tensors[name] = None
                continue
            layout = self._layout(name, array)
            output = _binding(array) is None
            if not output and name in output_names(self.desc_type.operator_type):
                argument = argument_of(name, self.desc_type.operator_type)
                raise self.error(argument, "an array", "None: a graph's outputs are bound at dispatch")
            constant = not output and _expression_of(array) is None
            flags = TensorFlags.OWNED_BY_DML if constant else TensorFlags.NONE
            tensors[name] = replace(_desc(*layout), flags=flags)
        values = {name: coerce_integer(value) for name, value in attributes.items()}
        bindings = {name: _binding(array) for name, array in arrays.items()}
        outputs = builder.add_operator(self.desc_type(**_gathered(tensors.items()), **values), bindings)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _layout(self, name: str, array: Any) -> Layout:
        if isinstance(array, np.ndarray) and (layout := layout_of(array.dtype, array.shape, array.strides)):
            return layout
        if isinstance(array, Layout):
            return array
        if isinstance(array, PackedArray):
            return Layout(np.dtype(np.uint8), array.shape, array.strides, array.data_type)
        argument = argument_of(name, self.desc_type.operator_type)
        if not isinstance(array, np.ndarray):
            raise self.error(argument, f"an object of type {type(array).__name__}", "a numpy array")
        self.data_type(argument, array.dtype)
        expected = f"multiples of {array.itemsize} that are not negative: outputs are never copied"
        raise self.error(argument, f"strides of {array.strides} bytes", expected)


def _is_plain(value: Any) -> bool:
    return all(type(entry) is int for entry in (value if type(value) is tuple else (value,)))


def _compile(
    device: Device,
    desc_type: Any,
    layouts: tuple[tuple[str, Layout | None], ...],
    attributes: tuple[tuple[str, Any], ...],
) -> CompiledOperator:
    tensors = _gathered((name, None if layout is None else _desc(*layout)) for name, layout in layouts)
    return device.compile_operator(device.create_operator(desc_type(**tensors, **dict(attributes))))


_compiled: Callable[..., CompiledOperator] = lru_cache(maxsize=1024)(_compile)


def _expression_of(array: Any) -> Expression | None:
    return expression_of(array.pairs if isinstance(array, PackedArray) else array)


def _binding(array: Any) -> Any:
    if isinstance(array, PackedArray):
        return array.pairs
    return None if isinstance(array, Layout) else array


def _gathered(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by field with those of an array of tensors as one tuple, up to the last that is there."""
    values: dict[str, Any] = {}
    for name, value in fields:
        attribute, entry = place_of(name)
        if entry is None:
            values[attribute] = value
            continue
        entries = values.setdefault(attribute, ())
        if value is not None:
            values[attribute] = (*entries, *(None,) * (entry - len(entries)), value)
    return values


def _desc(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], four_bits: TensorDataType | None
) -> TensorDesc:
    """Return the desc of an array as it lies in memory; a 0-d one counts as one of a single element."""
    if four_bits is not None:
        return TensorDesc(four_bits, shape, strides=strides)
    packed = new_array(shape, dtype, range(len(shape))).strides
    if all(stride == step or size == 1 for size, stride, step in zip(shape, strides, packed, strict=True)):
        return TensorDesc(data_type_of(dtype), shape or (1,))
    return TensorDesc(data_type_of(dtype), shape, strides=[stride // dtype.itemsize for stride in strides])
