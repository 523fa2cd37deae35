"""Models as they are read from ONNX files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.blocked_channels import without_blocked_channels
from dmlcpu.onnx.models.branches import Branches
from dmlcpu.onnx.models.dequantizing_casts import with_dequantized_casts
from dmlcpu.onnx.models.dimension_overrides import DimensionOverrides
from dmlcpu.onnx.models.float16_between_codes import with_float32
from dmlcpu.onnx.models.folded_normalizations import with_folded_normalizations
from dmlcpu.onnx.models.fused_activations import without_fused_activations
from dmlcpu.onnx.models.inlined_graphs import Inliner
from dmlcpu.onnx.models.local_functions import without_calls
from dmlcpu.onnx.models.loops import Loops
from dmlcpu.onnx.models.nodes import Node, free_names, node_of, ordered, short_domain
from dmlcpu.onnx.models.operator_forms import check_forms
from dmlcpu.onnx.models.other_formats import format_of
from dmlcpu.onnx.models.rewritten_graph import RewrittenGraph
from dmlcpu.onnx.models.serialized import without_large_constants
from dmlcpu.onnx.models.tensor_protos import LARGEST_RANK, absent_file, constant_of, has_external_data, make_dense
from dmlcpu.onnx.models.texts import check_initializer_names, check_texts
from dmlcpu.onnx.models.weights_between_codes import with_coded_weights
from dmlcpu.onnx.type_names import CONTAINERS, type_name

if TYPE_CHECKING:
    from dmlcpu.onnx.constants.following import FollowingConstant

__all__ = ["Model", "ValueInfo", "is_fixed", "load_model", "output_info"]

# A domain that runtimes take for imported, as tools leave that out: version 1.
_ALWAYS_IMPORTED: Final = "com.microsoft"
# The newest versions that rules have been written for: later ones may mean something else by the same words.
_NEWEST: Final = {"": 28, "ai.onnx.ml": 5, _ALWAYS_IMPORTED: 1}
_NEWEST_FORMAT: Final = 14

# Bytes of a file from which on it pays to look for its large constants.
_LARGE_FILE: Final = 1 << 22
# Bytes of constants that a proto may go on to hold beside the nodes.
_SMALL: Final = 1 << 18
# What protobuf and onnx raise of files that they cannot read.
_UNREADABLE: Final = (DecodeError, ValueError, TypeError, RuntimeError, onnx.checker.ValidationError)


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """An input or output of a model.

    Attributes:
        name: Its name.
        dtype: numpy's type of its elements; ``void`` of an output that the model tells no type of.
        shape: Lengths of the axes; a name, or None, where a length is free. None if even the rank is.
        container: The type of what is no tensor, as onnxruntime tells it, such as ``"seq(tensor(float))"``; else "".
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None
    container: str = ""


def is_fixed(shape: Sequence[int | str | None] | None) -> bool:
    """Return whether a shape leaves nothing free."""
    return shape is not None and all(isinstance(length, int) for length in shape)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model whose form has been checked: every value is written once, and before it is read.

    Attributes:
        proto: As it was read, or without its initializers.
        inputs: What is fed at each run.
        outputs: What a run returns.
        nodes: In an order in which they can run.
        constants: The initializers, by name.
        branches: Of its If nodes, as far as they have been read.
        loops: Their steps, likewise.
        following: Constants that follow from lengths of the inputs, by name.
    """

    proto: onnx.ModelProto
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(repr=False)
    branches: Branches = field(repr=False)
    loops: Loops = field(repr=False)
    following: Mapping[str, FollowingConstant] = field(default_factory=dict, repr=False)


def load_model(
    model: str | PathLike[str] | bytes, to_run: bool = False, lengths: DimensionOverrides | None = None
) -> Model:
    """Read a model from a path or from the bytes of a file.

    Args:
        model: Where it is.
        to_run: Whether it is only to be run. Then nodes and constants are those that run in place of the file's (see
            float16_between_codes, weights_between_codes, dequantizing_casts, folded_normalizations, fused_activations
            and blocked_channels), and the proto has no initializers.
        lengths: Take the place of those that it leaves free.

    Raises:
        InvalidModelError: It is no ONNX model, or one whose parts do not fit together; the message names the node.
        OSError: The file cannot be read.
    """
    source = "model" if isinstance(model, bytes) else fspath(model)
    rest, large = _read(model if isinstance(model, bytes) else _bytes_of(Path(source)), to_run)
    try:
        proto = onnx.load_model_from_string(rest)
    except _UNREADABLE as error:
        raise InvalidModelError(f"{source}: not an ONNX model: {format_of(rest) or error}") from None
    if not proto.graph.node and not proto.graph.output:
        raise InvalidModelError(f"{source}: {format_of(rest) or 'it has no graph'}")
    check_texts(proto)
    has_checked_names = len(proto.functions) > 0
    # Functions are copied to where they are called, and files beside it are read into it.
    grows = len(proto.functions) > 0
    large = {**large, **make_dense(proto, to_run)}
    if not isinstance(model, bytes) and has_external_data(proto):
        grows = True
        try:
            onnx.load_external_data_for_model(proto, str(Path(source).parent))
        except _UNREADABLE as error:
            absent = absent_file(proto, Path(source).parent)
            told = f"its external data cannot be read: {error}"
            if absent:
                told = f"the file {absent!r}, which holds some of its weights, is missing"
            raise InvalidModelError(f"{source}: {told}") from None
    if lengths is not None:
        lengths.fix(proto.graph)
    try:
        without_calls(proto)
    except (RecursionError, DecodeError) as error:
        raise InvalidModelError(f"{source}: graphs in too many others: {error}") from None
    return _checked(proto, large, None if grows else len(rest), to_run, has_checked_names)


def _bytes_of(file: Path) -> bytes | memoryview:
    """Return the bytes of a file; those of a large one may be written.

    numpy asks for large pages, of which memory is first touched in less time.
    """
    size = file.stat().st_size
    if size < _LARGE_FILE:
        return file.read_bytes()
    content = np.empty(size, np.uint8).data
    with file.open("rb", buffering=0) as opened:
        filled = 0
        while filled < size and (count := opened.readinto(content[filled:])):
            filled += count
    return content[:filled]


def _read(file: bytes | memoryview, to_run: bool) -> tuple[bytes, Mapping[int, memoryview]]:
    """Return a file and nothing; or a large one without large constants, and these by the initializer's index.

    Args:
        file: Bytes of a caller's, or those of a file, which nobody else has, so that some may be moved.
        to_run: As of ``load_model``.
    """
    rest, large = without_large_constants(file) if to_run and len(file) >= _LARGE_FILE else (None, {})
    return bytes(file) if rest is None else rest, large


def _checked(
    proto: onnx.ModelProto, large: Mapping[int, memoryview], parsed: int | None, to_run: bool, has_checked_names: bool
) -> Model:
    """Check a proto that was parsed from so many bytes, or from others than it has now."""
    if all(entry.domain != _ALWAYS_IMPORTED for entry in proto.opset_import):
        proto.opset_import.add(domain=_ALWAYS_IMPORTED, version=1)
    versions = {short_domain(entry.domain): entry.version for entry in proto.opset_import}
    _check_versions(proto.ir_version, versions)
    constants: Mapping[str, Array] = {
        tensor.name: constant_of(tensor, large.get(index)) for index, tensor in enumerate(proto.graph.initializer)
    }
    check_initializer_names(constants)
    widened = with_float32(proto, constants) if to_run else None
    constants = constants if widened is None else widened
    if to_run:
        # Nodes refer to the proto, and what is deleted of one is freed with the rest of it: a smaller copy is made.
        del proto.graph.initializer[:]
        if parsed is None or parsed - proto.ByteSize() > _SMALL:
            whole, proto = proto, onnx.ModelProto()
            proto.CopyFrom(whole)
    inputs = tuple(_value_info(value) for value in proto.graph.input if value.name not in constants)
    names: set[str] = set()
    protos = enumerate(proto.graph.node)
    nodes = tuple(node_of(index, node, versions, names, has_checked_names) for index, node in protos)
    check_forms(nodes, versions)
    outputs = tuple(output_info(value) for value in proto.graph.output)
    returned = [value.name for value in outputs]
    nodes = ordered(nodes, {*constants, *(value.name for value in inputs)}, returned)
    if to_run:
        fed = {value.name for value in proto.graph.input}
        left = cache(partial(free_names, nodes, [*constants, *fed, *returned]))
        graph = RewrittenGraph(nodes, constants, fed, {*returned}, versions, names, left)
        if widened is None:  # onnxruntime quantizes no weights of FLOAT16
            ranks = {value.name: len(value.shape) for value in inputs if value.shape is not None}
            graph = with_coded_weights(graph, ranks)
        graph = with_folded_normalizations(with_dequantized_casts(graph))
        graph = without_blocked_channels(without_fused_activations(graph))
        nodes, constants = graph.nodes, graph.constants
    inliner = Inliner(versions, nodes, [*constants, *(value.name for value in inputs), *returned])
    return Model(proto, inputs, outputs, nodes, constants, Branches(inliner), Loops(inliner))


def _check_versions(format_version: int, versions: Mapping[str, int]) -> None:
    """Check that a model is not of versions that mean what is not known here.

    Raises:
        InvalidModelError: It is.
    """
    if format_version > _NEWEST_FORMAT:
        raise InvalidModelError(
            f"model: got version {format_version} of ONNX's format, expected {_NEWEST_FORMAT} or less"
        )
    for domain, version in versions.items():
        newest = _NEWEST.get(domain, (1 << 31) - 1)
        if not 1 <= version <= newest:
            of = f"the operators of the domain {domain!r}" if domain else "ONNX's operators"
            hint = "" if version < newest else f": export it for opset {newest}"
            raise InvalidModelError(f"model: got version {version} of {of}, expected one from 1 to {newest}{hint}")


def output_info(value: onnx.ValueInfoProto) -> ValueInfo:
    """Return what a model tells of an output, which may be its name alone, and be no tensor."""
    kind = value.type.WhichOneof("value")
    if kind is None:
        return ValueInfo(value.name, np.dtype(np.void), None)
    if kind in CONTAINERS:
        return ValueInfo(value.name, np.dtype(np.object_), None, type_name(value))
    return _value_info(value)


def _value_info(value: onnx.ValueInfoProto) -> ValueInfo:
    """Return what a model tells of a tensor.

    Raises:
        InvalidModelError: It is no tensor, or of no type.
    """
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InvalidModelError(f"{value.name!r}: got a value of kind {kind}, expected a tensor")
    tensor = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except (KeyError, ValueError):
        raise InvalidModelError(f"{value.name!r}: its element type {tensor.elem_type} is unknown") from None
    if not tensor.HasField("shape"):
        return ValueInfo(value.name, np.dtype(dtype), None)
    if len(tensor.shape.dim) > LARGEST_RANK:
        raise InvalidModelError(f"{value.name!r}: {len(tensor.shape.dim)} dimensions")
    return ValueInfo(value.name, np.dtype(dtype), tuple(_length(dimension) for dimension in tensor.shape.dim))


def _length(dimension: Any) -> int | str | None:
    kind = dimension.WhichOneof("value")
    if kind == "dim_value" and dimension.dim_value >= 0:
        return int(dimension.dim_value)
    return str(dimension.dim_param) if kind == "dim_param" else None
