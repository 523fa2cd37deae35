"""What tests over all operators need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType
from dmlcpu.schema import Check, place_of
from dmlcpu.tensor import TensorDesc
from operator_case import OperatorCase

__all__ = ["CaseMaker", "OperatorSample", "Recording", "changed", "tensor"]

CaseMaker = Callable[[np.random.Generator, int], Iterator[OperatorCase]]


def tensor(data_type: str, *sizes: int, **others: Any) -> TensorDesc:
    """tensor("UINT8", 2, 3, flags=1)."""
    return TensorDesc(TensorDataType[data_type], sizes, **others)


def changed(desc: OperatorDesc, **changes: Any) -> OperatorDesc:
    """The same desc with other values; `name[1]` is an entry of an array of tensors, which ends before a None."""
    for name in [name for name in changes if "[" in name]:
        attribute, entry = place_of(name)
        entries = list(changes.get(attribute, getattr(desc, attribute)))
        value = changes.pop(name)
        entries[entry : None if value is None else entry + 1] = [] if value is None else [value]
        changes[attribute] = tuple(entries)
    return replace(desc, **changes)


@dataclass(frozen=True)
class Recording:
    """What tests/golden has of CreateOperator's decisions about an operator, beside what we decide.

    Attributes:
        count: The recorded descs.
        refused_only_here: How many of them DirectML.dll accepts and we refuse, by the check.
        faults: How many of them end DirectML.dll.
    """

    count: int
    refused_only_here: Mapping[Check, int] = field(default_factory=dict)
    faults: int = 0


def _no_products(_: Mapping[str, TensorDesc]) -> int:
    return 0


@dataclass(frozen=True, kw_only=True)
class OperatorSample:
    """One operator, in descs and figures.

    Attributes:
        number: Its value in DML_OPERATOR_TYPE.
        documented: Its tensors as the documents print them: a row for each level at which something changes, a column
            for each tensor with its data types, the range of its dimension count, and "?" if it is optional.
        recording: What DirectML.dll was recorded to decide.
        desc: A valid desc of few elements, accepted from the operator's first level on, to be changed.
        large: One that is worth several threads.
        others: Of other types, ranks and layouts: with `desc`, what random descs are made from.
        families: The families of kernels that run `desc`, in the order of its description.
        cases: The cases of a length, on which all instruction sets and thread counts must agree.
        products: The products of codes in a dispatch, at most, by its tensors, where they are more than its elements.
    """

    number: int
    documented: Mapping[str, str]
    recording: Recording
    desc: OperatorDesc
    large: OperatorDesc
    others: tuple[OperatorDesc, ...] = ()
    families: tuple[str, ...]
    cases: CaseMaker
    products: Callable[[Mapping[str, TensorDesc]], int] = _no_products

    @property
    def operator(self) -> OperatorType:
        return self.desc.operator_type

    @property
    def rows(self) -> Mapping[FeatureLevel, str]:
        """The rows of `documented` by level."""
        return {FeatureLevel[f"LEVEL_{name}"]: row for name, row in self.documented.items()}

    @property
    def introduced(self) -> FeatureLevel:
        """The operator's first level."""
        return min(self.rows)
