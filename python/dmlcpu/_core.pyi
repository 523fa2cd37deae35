"""The native part of dmlcpu. Private: use the package."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_TensorRow = tuple[int, Sequence[int], Sequence[int], bool, bool]

MOST_THREADS: int

def known_isas() -> tuple[str, ...]: ...
def available_isas() -> tuple[str, ...]: ...
def unavailable_reason(isa: str) -> str: ...
def kernel_origins(isa: str) -> dict[str, str]: ...
def call_in_default_float_environment(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named_arguments: _Arguments.kwargs
) -> _Result: ...
def usable_processor_count() -> int: ...
def cache_sizes() -> tuple[int, int, int]: ...
def non_max_suppression(
    boxes: np.ndarray[Any, Any],
    scores: np.ndarray[Any, Any],
    most_boxes: int,
    overlap: float,
    score: float | None,
    centred: bool,
    isa: str,
    num_threads: int,
) -> np.ndarray[Any, Any]: ...
def roi_align(
    images: np.ndarray[Any, Any],
    boxes: np.ndarray[Any, Any],
    of_images: np.ndarray[Any, Any],
    rows: int,
    columns: int,
    samples: int,
    scale: float,
    half_pixel: bool,
    largest: bool,
    isa: str,
    num_threads: int,
) -> np.ndarray[Any, Any]: ...
def bind_operator(
    type: str,
    names: Sequence[tuple[str, int | None]],
    tensors: Sequence[_TensorRow | None],
    attributes: Mapping[str, Sequence[int]],
    isa: str,
    num_threads: int,
    resolve: Callable[[dict[str, Any], bool, bool], tuple[tuple[Any, ...], Callable[[], None] | None]],
    result_type: Any,
) -> BoundOperator: ...

class BoundOperator:
    def initialize(self, bindings: dict[str, Any]) -> bool: ...
    def dispatch(self, bindings: dict[str, Any]) -> Any: ...
    def describe(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def temporary_resource_size(self) -> int: ...
    @property
    def persistent_resource_size(self) -> int: ...

def unpacked_nibbles(pairs: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]: ...
def new_call_memo(constant_types: Sequence[type], opaque_bases: Sequence[type]) -> CallMemo: ...

class CallMemo:
    def recall(self, positional: tuple[Any, ...], named: dict[str, Any]) -> Any: ...
    def sign(self, positional: tuple[Any, ...], named: dict[str, Any]) -> bytes | None: ...
    def remember(
        self,
        signature: bytes,
        positional: tuple[Any, ...],
        named: dict[str, Any],
        operator: BoundOperator,
        bound: Sequence[tuple[int | None, np.ndarray[Any, Any] | None]],
        results: tuple[Any, ...],
        result_type: type,
    ) -> None: ...

_ValueRow = tuple[int, str, int, Sequence[int], Sequence[int] | None] | np.ndarray[Any, Any]
_NodeRow = tuple[str, str, Sequence[int | None], Sequence[int], Mapping[str, Sequence[int]]]

def new_graph(
    values: Sequence[_ValueRow],
    nodes: Sequence[_NodeRow],
    free: Sequence[tuple[int, int, int]] = ...,
    like: GivenGraph | None = ...,
) -> GivenGraph: ...

class GivenGraph:
    def changed(
        self,
        lengths: Sequence[int],
        arrays: Mapping[int, np.ndarray[Any, Any]],
        attributes: Mapping[int, Mapping[str, Sequence[int]]],
    ) -> GivenGraph: ...

def bind_graph(
    graph: GivenGraph,
    isa: str,
    num_threads: int,
    resolve: Callable[[dict[str, Any], Sequence[Sequence[int]]], tuple[tuple[Any, ...], Callable[[], None] | None]],
    result_type: Any,
    shared: SessionMemory | None = ...,
    predecessor: BoundGraph | None = ...,
) -> BoundGraph: ...
def new_packed_feeds(
    inputs: Sequence[tuple[str, np.dtype[Any], Sequence[int | None] | None]],
) -> PackedFeeds: ...

class PackedFeeds:
    def shapes(self, arrays: dict[str, Any]) -> tuple[tuple[int, ...], ...] | None: ...

def new_session_memory() -> SessionMemory: ...

class SessionMemory: ...

class BoundGraph:
    def initialize(self, arrays: Mapping[int, Any]) -> None: ...
    def dispatch(self, bindings: dict[str, Any]) -> Any: ...
    def run_packed(self, inputs: dict[str, Any]) -> list[Any] | None: ...
    def profile(self, bindings: dict[str, Any]) -> tuple[Any, list[tuple[int, int]]]: ...
    def describe(self) -> list[tuple[str, str, str, int]]: ...
    @property
    def step_count(self) -> int: ...
    @property
    def changed_constants_size(self) -> int: ...
    @property
    def temporary_resource_size(self) -> int: ...
    @property
    def persistent_resource_size(self) -> int: ...
