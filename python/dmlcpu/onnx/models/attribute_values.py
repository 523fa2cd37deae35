"""What values attributes may have: those that runtimes do not look at before they compute by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.models.tensor_protos import LARGEST_RANK

__all__ = ["CHECKED", "check_values"]

_INT: Final = onnx.AttributeProto.INT
_INTS: Final = onnx.AttributeProto.INTS
_STRING: Final = onnx.AttributeProto.STRING

# What is divided by, or by a power of.
_COUNTS: Final = frozenset(
    (
        "block_size",
        "blocksize",
        "dilations",
        "group",
        "inputdimensions",
        "kernel_shape",
        "num_groups",
        "num_heads",
        "num_outputs",
        "strides",
    )
)
# What names a type of elements.
_TYPES: Final = frozenset(("dtype", "output_dtype", "to"))
_DATA_TYPES: Final = onnx.TensorProto.DataType.values()
_PADDING: Final = (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"")
# What numbers axes, from either end.
_AXES: Final = frozenset(("axes", "axis", "scan_input_axes", "scan_output_axes"))
# Operators of random numbers, which runtimes draw without a look at these attributes.
_RANDOM: Final = frozenset(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"))
CHECKED: Final = _COUNTS | _TYPES | _AXES | {"auto_pad", "high", "low", "ngram_counts", "scale", "storage_order"}
"""Names of attributes without which there is nothing to check."""
_LOOKED_AT: Final = CHECKED | {"ngram_indexes", "pads"}


def check_values(
    name: str,
    proto: onnx.NodeProto,
    attributes: Sequence[onnx.AttributeProto],
    subgraphs: Sequence[onnx.GraphProto],
) -> None:
    """Check the attributes of a node, and those of nodes within it.

    Raises:
        InvalidModelError: One is out of range, or contradicts another; the message names the node.
    """
    names = [attribute.name for attribute in attributes]
    if not _LOOKED_AT.isdisjoint(names) and (wrong := _what_is_wrong(proto, names, attributes)):
        raise InvalidModelError(f"node {proto.op_type} ({name}): {wrong}")
    for graph in subgraphs:
        for node in graph.node:
            within = node.attribute[:]
            check_values(node.name or name, node, within, graphs_within(within))


def _what_is_wrong(proto: onnx.NodeProto, names: Sequence[str], attributes: Sequence[onnx.AttributeProto]) -> str:
    """Return in words what is wrong with attributes of a node, whose names are given as well; "" if nothing."""
    operator, by_name = proto.op_type, dict(zip(names, attributes, strict=True))
    wrong = ""
    for name, attribute in zip(names, attributes, strict=True):
        if name in _COUNTS:
            wrong = wrong or _wrong_count(attribute, operator)
        elif name in _AXES:
            wrong = wrong or _wrong_axis(attribute)
        elif name in _TYPES and attribute.type == _INT and proto.domain in ("", "ai.onnx"):
            wrong = wrong or _wrong_type(attribute)
        elif name == "storage_order" and attribute.type == _INT and attribute.i not in (0, 1):
            wrong = wrong or f"got storage_order {attribute.i}, expected 0 or 1"
    if "auto_pad" in by_name or "pads" in by_name:
        wrong = wrong or _wrong_padding(operator, by_name)
    if operator in _RANDOM:
        wrong = wrong or _wrong_range(by_name)
    if operator == "TfIdfVectorizer":
        wrong = wrong or _wrong_pool(by_name)
    return wrong


def _wrong_count(attribute: onnx.AttributeProto, operator: str) -> str:
    kind = attribute.type
    counts = tuple(attribute.ints) if kind == _INTS else (attribute.i,)
    may_be_absent = attribute.name == "block_size" or (attribute.name, operator) == ("num_heads", "RotaryEmbedding")
    least = 0 if may_be_absent else 1  # 0 is the default then
    if kind in (_INT, _INTS) and not least <= min(counts, default=1) <= max(counts, default=1) < 2**31:
        return f"got {attribute.name} {list(counts)}, expected numbers from {least} to {2**31 - 1}"
    return ""


def _wrong_axis(attribute: onnx.AttributeProto) -> str:
    kind = attribute.type
    axes = tuple(attribute.ints) if kind == _INTS else (attribute.i,)
    beyond = [axis for axis in axes if not -LARGEST_RANK <= axis < LARGEST_RANK]
    if kind in (_INT, _INTS) and beyond:
        return f"got {attribute.name} {beyond[0]}, expected one from {-LARGEST_RANK} to {LARGEST_RANK - 1}"
    return ""


def _wrong_range(attributes: Mapping[str, onnx.AttributeProto]) -> str:
    """Return what is wrong with what numbers are drawn by, whose defaults are fine."""
    scale = attributes["scale"].f if "scale" in attributes else 1.0
    if not scale > 0:
        return f"got scale {scale:g}, expected a number above 0"
    low, high = (attributes[name].f if name in attributes else usual for name, usual in (("low", 0.0), ("high", 1.0)))
    return "" if low <= high else f"got low {low:g} and high {high:g}, expected a range"


def _wrong_pool(attributes: Mapping[str, onnx.AttributeProto]) -> str:
    """Return what is wrong with the n-grams of a TfIdfVectorizer, of one word, of two and so on."""
    starts, indexes = (
        [*attributes[name].ints] if name in attributes else [] for name in ("ngram_counts", "ngram_indexes")
    )
    words = max(
        len(attributes["pool_int64s"].ints) if "pool_int64s" in attributes else 0,
        len(attributes["pool_strings"].strings) if "pool_strings" in attributes else 0,
    )
    bounds = [*starts, words]
    if bounds != sorted(bounds) or bounds[0] < 0:
        return f"got ngram_counts {starts} of {words} words, expected where each length begins"
    lengths = [(end - start) / size for size, (start, end) in enumerate(zip(starts, bounds[1:], strict=True), 1)]
    if sum(lengths) != len(indexes):
        return f"got {len(indexes)} ngram_indexes, expected one for each n-gram, {sum(lengths):g}"
    return ""


def _wrong_type(attribute: onnx.AttributeProto) -> str:
    is_left_out = attribute.i == onnx.TensorProto.UNDEFINED and attribute.name != "to"
    if attribute.i in _DATA_TYPES and (attribute.i != onnx.TensorProto.UNDEFINED or is_left_out):
        return ""
    return f"got {attribute.name} {attribute.i}, expected the number of a type of ONNX's, such as 1 for FLOAT"


def _wrong_padding(operator: str, attributes: dict[str, onnx.AttributeProto]) -> str:
    automatic = attributes.get("auto_pad")
    kind = automatic.s if automatic is not None and automatic.type == _STRING else b""
    if kind not in _PADDING:
        words = [word.decode() for word in _PADDING[:-1]]
        return f"got auto_pad {kind.decode(errors='replace')!r}, expected {', '.join(words[:-1])} or {words[-1]}"
    pads = [*attributes["pads"].ints] if "pads" in attributes else []
    if kind not in (b"", b"NOTSET"):
        # Poolings pass over them, as they do in onnxruntime.
        if any(pads) and "Conv" in operator:
            return f"got pads {pads} beside auto_pad {kind.decode()!r}, expected one of the two"
        return ""
    kernel = [*attributes["kernel_shape"].ints] if "kernel_shape" in attributes else []
    if operator.endswith("Pool") and len(pads) == 2 * len(kernel) and _is_padding_alone(pads, kernel):
        return f"got pads {pads}, expected less than the kernel has on each axis, {kernel}"
    return ""


def _is_padding_alone(pads: Sequence[int], kernel: Sequence[int]) -> bool:
    """Return whether some window lies on padding alone, if it is not dilated: onnxruntime takes it for one."""
    return any(pad >= length for pad, length in zip(pads, (*kernel, *kernel), strict=True))
