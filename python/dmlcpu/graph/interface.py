"""What a graph binds at a dispatch, by which names, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dmlcpu.bindings import BindingResolver, TensorBinding
from dmlcpu.compiled_operator import result_type
from dmlcpu.enums import TensorDataType
from dmlcpu.tensor import TensorDesc

__all__ = ["BoundValue", "GraphInterface", "Resolve"]


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A value of a graph that has a name.

    Attributes:
        name: The name.
        desc: Its desc; of a packed value whose sizes are known only later its data type.
        owned: Bound at ``initialize``, not at each dispatch.
        output: Written by a dispatch.
    """

    name: str
    desc: TensorDesc | TensorDataType
    owned: bool
    output: bool


class GraphInterface:
    """What is bound, and the named tuple of several outputs. Graphs of other lengths have one and the same.

    Attributes:
        places: Where each output, in the order of their indices, is among those in the order of the values.
    """

    def __init__(self, bound: Sequence[BoundValue], output_names: Sequence[str], places: Sequence[int]) -> None:
        self._bound, self.places = tuple(bound), places
        self._output_names = tuple(output_names)

    @cached_property
    def _result_type(self) -> Any:
        """Made for those who ask for it, not where a session runs its graphs: making a class takes long."""
        return result_type("GraphOutputs", self._output_names)

    def resolver(self, sizes: Sequence[Sequence[int]] = ()) -> BindingResolver:
        """Return what resolves bindings.

        Args:
            sizes: Of the values that are bound at a dispatch; not needed where all have descs.
        """
        of_size = dict(enumerate(sizes))
        tensors = (
            TensorBinding(
                value.name,
                value.desc if isinstance(value.desc, TensorDesc) else TensorDesc(value.desc, of_size[index]),
                value.owned,
                value.output,
            )
            for index, value in enumerate(self._bound)
        )
        return BindingResolver("graph", tuple(tensors))

    def descs(self, *, output: bool) -> dict[str, TensorDesc]:
        """Return the descs of all inputs, or outputs, by name, ``input_2`` before ``input_10``.

        Args:
            output: Which of them. Their sizes were known when the graph was made.
        """
        descs: dict[str, TensorDesc] = {}
        for value in sorted(self._bound, key=lambda value: (len(value.name), value.name)):
            if value.output == output:
                assert isinstance(value.desc, TensorDesc)
                descs[value.name] = value.desc
        return descs

    def results(self, *outputs: Any) -> Any:
        """Return the named tuple of several outputs, in the order of their indices, of those in the values' order."""
        return self._result_type(*(outputs[place] for place in self.places))


class Resolve:
    """Resolves the bindings of a dispatch for a native graph. Refers to no object that owns the graph."""

    def __init__(self, interface: GraphInterface, ready: list[bool]) -> None:
        self._interface, self._ready = interface, ready
        self._resolver: BindingResolver | None = None

    def __call__(
        self, bindings: Mapping[str, Any], sizes: Sequence[Sequence[int]]
    ) -> tuple[tuple[Any, ...], Callable[[], None] | None]:
        """Return an array for each value that is bound, and what is to be called when outputs are written, if any."""
        if self._resolver is None:
            self._resolver = self._interface.resolver(sizes)
        arrays, finish = self._resolver(bindings, False, self._ready[0])
        return arrays[: len(sizes)], finish
