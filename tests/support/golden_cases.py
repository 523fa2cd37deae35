"""Reads and writes the recorded cases of tests/golden, whose README describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operator_case import OperatorCase, with_rank_of
from reference.arithmetic import SubnormalWatch
from strided_tensor import NUMPY_TYPES, StridedTensor, buffer_length

__all__ = ["FLOAT_PRODUCTS", "GOLDEN_OPERATORS", "GoldenCase", "left_out", "load_cases", "store_cases"]

FOLDER = Path(__file__).parents[1] / "golden"

# Operators whose recorded outputs are sums of floats.
FLOAT_PRODUCTS = ("MATRIX_MULTIPLY_INTEGER_TO_FLOAT",)

GOLDEN_OPERATORS = tuple(sorted(path.stem.upper() for path in FOLDER.glob("*.npz")))


@dataclass(frozen=True, eq=False)
class GoldenCase:
    """`accepted` is what CreateOperator said; a refused case has no elements in its tensors."""

    name: str
    accepted: bool
    case: OperatorCase


@cache
def load_cases(operator: str, folder: Path = FOLDER) -> tuple[GoldenCase, ...]:
    """All recorded cases of an operator, accepted and refused, in the order of recording."""
    path = folder / f"{operator.lower()}.jsonl"
    with np.load(path.with_suffix(".npz")) as archive:
        elements = {name: archive[name] for name in archive.files}
    for array in elements.values():
        array.flags.writeable = False
    return tuple(parsed(operator, json.loads(line), elements) for line in path.read_text().splitlines())


def parsed(operator: str, record: dict[str, Any], elements: dict[str, NDArray[Any]]) -> GoldenCase:
    tensors = {}
    for field, stored in record["tensors"].items():
        tensors[field] = None if stored is None else parsed_tensor(stored, elements)
    return GoldenCase(record["name"], record["accepted"], OperatorCase(operator, tensors, record["attributes"]))


def parsed_tensor(stored: dict[str, Any], elements: dict[str, NDArray[Any]]) -> StridedTensor:
    data_type, sizes = stored["type"], tuple(stored["sizes"])
    strides = tuple(stored["strides"]) if "strides" in stored else None
    buffer = np.empty(0, NUMPY_TYPES[data_type])
    if "offset" in stored:
        begin = stored["offset"]
        buffer = elements[buffer.dtype.name][begin : begin + buffer_length(data_type, sizes, strides)]
    return StridedTensor(data_type, sizes, strides, buffer)


def store_cases(operator: str, cases: Iterable[GoldenCase], folder: Path = FOLDER) -> None:
    """Writes the two files of an operator. Equal buffers are stored once."""
    pieces: dict[str, list[NDArray[Any]]] = {}
    offsets: dict[tuple[str, bytes], int] = {}
    lines = []
    for golden in cases:
        tensors: dict[str, Any] = {}
        for field, tensor in golden.case.tensors.items():
            if tensor is None:
                tensors[field] = None
                continue
            tensors[field] = {"type": tensor.data_type, "sizes": tensor.sizes}
            if tensor.strides is not None:
                tensors[field]["strides"] = tensor.strides
            if golden.accepted:
                name = tensor.buffer.dtype.name
                stored = pieces.setdefault(name, [])
                end = sum(piece.size for piece in stored)
                offset = offsets.setdefault((name, tensor.buffer.tobytes()), end)
                if offset == end:
                    stored.append(tensor.buffer)
                tensors[field]["offset"] = offset
        record = {"name": golden.name, "accepted": golden.accepted, "tensors": tensors}
        lines.append(json.dumps({**record, "attributes": golden.case.attributes}, separators=(",", ":")) + "\n")
    path = folder / f"{operator.lower()}.jsonl"
    path.write_text("".join(lines))
    arrays: dict[str, Any] = {name: np.concatenate(stored) for name, stored in pieces.items()}
    np.savez_compressed(path.with_suffix(".npz"), **arrays)


def left_out(golden: GoldenCase) -> dict[str, NDArray[np.bool_]]:
    """Where the record of each output does not bind us.

    DirectML takes the sums of floating products in an order of its own. Only where no sum is rounded are its bits
    the ones to have.

    The recording device rounded FLOAT16 results toward zero and flushed denormals; both are left to the device by
    D3D12, and ours rounds to nearest and keeps denormals.
    """
    watch = SubnormalWatch()
    golden.case.expected(watch)
    is_of_another_order = golden.case.operator in FLOAT_PRODUCTS and "_exact" not in golden.name
    masks = {}
    for field, tensor in golden.case.outputs.items():
        mask = with_rank_of(watch.mask, tensor.sizes) | (tensor.data_type == "FLOAT16") | is_of_another_order
        masks[field] = np.broadcast_to(mask, tensor.sizes)
    return masks
