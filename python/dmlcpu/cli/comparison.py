"""How results are judged: beside onnxruntime's, and where they differ, beside those of the graph as it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from dmlcpu.cli.differences import Difference, difference
from dmlcpu.cli.reference_sessions import reference_session

__all__ = ["Comparison", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """How the results of a group differ.

    Attributes:
        node: The last one.
        operators: Of all that compute.
        runs_on: Who runs them in dmlcpu's session.
        difference: From onnxruntime.
        unoptimized: From onnxruntime without optimizations of its graph, where the other one is large.
        is_large: Whether it counts.
    """

    node: str
    operators: str
    runs_on: str
    difference: Difference
    unoptimized: Difference | None
    is_large: bool


class Comparison:
    """onnxruntime on a model and its inputs, with optimizations of the graph and, if need be, without.

    Args:
        onnxruntime: The package.
        proto: The model.
        feeds: Its inputs.
        numbered: Returns arrays in codes, where there are codes behind floats.
    """

    def __init__(
        self,
        onnxruntime: ModuleType,
        proto: Any,
        feeds: Mapping[str, NDArray[Any]],
        numbered: Callable[[NDArray[Any]], NDArray[Any]] = lambda array: array,
    ) -> None:
        self._onnxruntime, self._proto, self._feeds, self._numbered = onnxruntime, proto, feeds, numbered
        self._names = [output.name for output in proto.graph.output]

    @cached_property
    def expected(self) -> dict[str, NDArray[Any]]:
        """The results, by name."""
        return self._run(is_optimized=True)

    @cached_property
    def _unoptimized(self) -> dict[str, NDArray[Any]] | None:
        try:
            return self._run(is_optimized=False)
        except Exception:  # of any kind: some operators have kernels only once they are fused
            return None

    def _run(self, *, is_optimized: bool) -> dict[str, NDArray[Any]]:
        session = reference_session(self._onnxruntime, self._proto, is_optimized=is_optimized)
        return dict(zip(self._names, session.run(self._names, self._feeds), strict=True))

    def row(self, node: str, operators: str, runs_on: str, results: Mapping[str, NDArray[Any]]) -> Row:
        """Return how results differ, by name."""
        found, unoptimized = self._worst(results, self.expected), None
        if found.is_large and self._unoptimized is not None:
            unoptimized = self._worst(results, self._unoptimized)
        # Operators on 8-bit codes have one meaning, which the optimizer only finds.
        has_codes = any(array.dtype.itemsize == 1 and array.dtype.kind in "iu" for array in results.values())
        is_large = found.is_large and (has_codes or unoptimized is None or unoptimized.is_large)
        return Row(node, operators, runs_on, found, unoptimized, is_large)

    def _worst(self, results: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> Difference:
        found = (self._difference(array, expected[name], name) for name, array in results.items())
        return max(found, key=lambda each: (each.is_large, each.largest))

    def _difference(self, got: NDArray[Any], expected: NDArray[Any], name: str) -> Difference:
        a, b = self._numbered(got), self._numbered(expected)
        return difference(a, b, name) if a.dtype == b.dtype else difference(got, expected, name)
