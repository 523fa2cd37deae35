"""The descs that DirectML.dll was asked about, and what it decided; golden/VALIDATION.md describes the files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType
from dmlcpu.tensor import TensorDesc
from operator_case import gathered
from operator_samples import VALID_DESCS, tensor

__all__ = ["recorded"]

RECORDS = sorted((Path(__file__).parents[1] / "golden").glob("*.validation.jsonl.gz"))

# Counts follow from what they count, and are no fields.
COUNTS = ("dimension_count", "quantization_tensor_count")


def desc_of(record: Mapping[str, Any]) -> OperatorDesc:
    """The desc of a recorded line."""
    desc_type = type(VALID_DESCS[OperatorType[record["operator"]]])
    attributes = {name: value for name, value in record.get("attributes", {}).items() if name not in COUNTS}
    return desc_type(**gathered(dict(_tensors_of(record))), **attributes)


def _tensors_of(record: Mapping[str, Any]) -> Iterator[tuple[str, TensorDesc | None]]:
    for name, stored in record["tensors"].items():
        others = {key: value for key, value in (stored or {}).items() if key not in ("data_type", "sizes")}
        yield name, stored and tensor(stored["data_type"], *stored["sizes"], **others)


@cache
def recorded() -> list[tuple[OperatorDesc, bool | None]]:
    """Every recorded desc, and whether it was accepted; None where DirectML.dll ended."""
    records = []
    for path in RECORDS:
        with gzip.open(path, "rt") as lines:
            records += [json.loads(line) for line in lines]
    return [(desc_of(record), record["accepted"]) for record in records]
